import type { Layer } from '../base/types.ts'
import { judgeNetns } from '../netns/judge.ts'
import { verdict } from '../report/verdict.ts'
import type { CloseLook, Finding, LinkState, PortListener, RelayLook } from './types.ts'

export const WILDCARDS = new Set(['0.0.0.0', '::'])
export const socketOf = (name: string) => `cdp-relay@${name}.socket`
export const serviceOf = (name: string) => `cdp-relay@${name}.service`

/**
 * Ours: held by PID 1 (systemd keeps the listening sockets of all socket units itself) or by a process
 * in the relay's own cgroup. Neither is ever a foreign listener, and neither is ever signalled.
 */
export function isOurs(listener: PortListener, node: string): boolean {
  return listener.owners.some((o) => o.pid === 1 || o.unit === serviceOf(node) || o.unit === socketOf(node))
}

export function describe(listener: PortListener): string {
  const where = `${listener.address}:${listener.port} in ${listener.netns}`
  const [owner] = listener.owners
  if (owner === undefined) return `${where} held by a process that cannot be seen`
  return `${where} held by ${owner.program} (pid ${owner.pid}${owner.unit === '' ? '' : `, ${owner.unit}`})`
}

/** What may be wrong with each end of the veth. */
const VETH = { missing: 'veth-missing', bare: 'veth-no-address', down: 'veth-down' } as const
const PEER = { missing: 'peer-missing', bare: 'peer-no-address', down: 'peer-down' } as const

const LOUD = { level: 'FAIL_LOUD', page: true } as const

/** The relay is silent, and what is below it could not be looked at. */
export function notAsked(layer: Layer, why: string): Finding {
  return { verdict: { ...verdict('relay-not-asked', [], { why }), layer }, level: 'WARN' }
}

/** The host's end of the veth: missing, without its address, or down. `undefined` when healthy or not seen. */
export function vethFinding({ node, veth }: RelayLook): Finding | undefined {
  return veth.seen ? linkFinding(VETH, node, veth.value, { ip: 'ip', address: node.gw }) : undefined
}

/** The namespace's end of the veth; `undefined` when healthy. */
export function peerFinding(node: RelayLook['node'], link: LinkState): Finding | undefined {
  return linkFinding(PEER, node, link, { ip: `ip -n ${node.netns}`, address: node.peer })
}

function linkFinding(
  codes: typeof VETH | typeof PEER,
  node: RelayLook['node'],
  { name, exists, up, hasAddress }: LinkState,
  { ip, address }: { readonly ip: string; readonly address: string },
): Finding | undefined {
  const what = { ...node, veth: name }
  if (!exists) {
    const evidence = codes === VETH ? [`${name} does not exist`] : []
    const found = verdict(codes.missing, evidence, what)
    return { ...LOUD, verdict: found, next: `netvm-node-up ${node.name}` }
  }
  const raise = `${ip} link set dev ${name} up`
  const add = `${ip} addr add ${address}/30 dev ${name}`
  if (!hasAddress) {
    const next = up ? add : `${raise} && ${add}`
    return { ...LOUD, verdict: verdict(codes.bare, [], what), next }
  }
  return up ? undefined : { ...LOUD, verdict: verdict(codes.down, [], what), next: raise }
}

/** Layers below the relay that only the close look sees: the namespace, its end of the veth, the browser. */
export function belowFinding(o: RelayLook, close: CloseLook): Finding | undefined {
  const { node } = o
  if (!close.netns.seen) return notAsked('netns', close.netns.why)
  // chromebox-watchdog pages for the namespace: one fault, one page.
  const netns = judgeNetns(node.netns, close.netns)
  if (netns.state !== 'healthy')
    return { verdict: netns, level: 'FAIL_LOUD', next: `netvm-node-up ${node.name}` }
  const peer = close.peerLink.seen ? peerFinding(node, close.peerLink.value) : undefined
  if (peer !== undefined) return peer
  if (!close.inner.seen) return notAsked('cdp', close.inner.why)
  if (close.inner.value.browser === 'answers') return undefined
  const next = `chromebox-watchdog --why ${node.name}`
  const { browser, detail } = close.inner.value
  if (browser === 'squatted')
    return { verdict: verdict('port-squatted', [detail], { port: node.cdpPort }), level: 'WARN', next }
  const connected = o.answer.kind === 'answer' || o.answer.stage !== 'connect'
  // Whoever has the address can accept: only our relay's socket says something of the relay.
  if (connected && !close.listeners.seen) return notAsked('relay', close.listeners.why)
  const there = (close.listeners.seen ? close.listeners.value : []).filter(
    (l) => l.netns === node.netns && (l.address === node.peer || WILDCARDS.has(l.address)),
  )
  const relayed = connected && there.some((l) => l.address === node.peer && isOurs(l, node.name))
  const strangers = there.filter((l) => !isOurs(l, node.name)).map(describe)
  const evidence = [`127.0.0.1:${node.cdpPort} in ${node.netns}: ${detail}`, ...strangers]
  // Whether there is a process at all is not looked at here: chromebox-watchdog says so.
  const found = relayed
    ? verdict('browser-down', evidence)
    : verdict('browser-and-relay-down', evidence, { endpoint: `${node.peer}:${node.cdpPort}` })
  return { verdict: found, level: 'WARN', next }
}
