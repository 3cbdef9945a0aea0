import type { TunnelConf } from './wg-conf.ts'

/** The configuration as `wg setconf` takes it, host names already resolved. Holds the keys: for its input only. */
export function renderSetconf(conf: TunnelConf, endpoints: ReadonlyMap<string, string>): string {
  const lines = ['[Interface]', `PrivateKey = ${conf.privateKey}`]
  if (conf.listenPort !== undefined) lines.push(`ListenPort = ${conf.listenPort}`)
  for (const peer of conf.peers) {
    lines.push('[Peer]', `PublicKey = ${peer.publicKey}`)
    if (peer.presharedKey !== undefined) lines.push(`PresharedKey = ${peer.presharedKey}`)
    const endpoint = endpoints.get(peer.publicKey)
    if (endpoint !== undefined) lines.push(`Endpoint = ${endpoint}`)
    lines.push(`AllowedIPs = ${peer.allowedIps.join(', ')}`)
    if (peer.keepalive !== undefined) lines.push(`PersistentKeepalive = ${peer.keepalive}`)
  }
  return `${lines.join('\n')}\n`
}

/** True when the tunnel carries IPv6: only then does the namespace get an IPv6 way out. */
export function carriesV6(conf: TunnelConf): boolean {
  return conf.addresses.some((address) => address.includes(':'))
}

/**
 * What `ip -n <netns> -batch` does once the interface is inside. The routes come last and name the interface, so they
 * go with it: there is no moment at which a packet could leave another way.
 */
export function insideLines(wg: string, conf: TunnelConf): string[] {
  return [
    // With an address of its own making it would ask for a router, again and again: an idle tunnel would never be idle, and
    // whoever is at the far end could answer.
    ...(carriesV6(conf) ? [`link set dev ${wg} addrgenmode none`] : []),
    ...conf.addresses.map((address) => `address add ${address} dev ${wg}`),
    `link set dev ${wg}${conf.mtu === undefined ? '' : ` mtu ${conf.mtu}`} up`,
    `route replace 0.0.0.0/0 dev ${wg}`,
    ...(carriesV6(conf) ? [`route replace ::/0 dev ${wg}`] : []),
  ]
}
