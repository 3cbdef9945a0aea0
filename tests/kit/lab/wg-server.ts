import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ok, sh, until } from './run.ts'

/** What stands in for the internet: a namespace with a WireGuard server, a chat site and a name server behind it. */
export const INTERNET = 'lab-internet'
const NET = INTERNET
const WG = 'wg-lab'
/** The host's way to it, and the only one: this veth is the uplink. */
export const UPLINK = 'uplink0'
const HOST = '10.201.254.1'
const FIRST = '10.201.254.7'
const SECOND = '10.201.254.8'
const PORT = 51820
/** The site's addresses; .99 is the site too, and nothing but a test's own request ever goes there. */
export const SITE = '10.201.253.1'
export const CANARY = '10.201.253.99'
const SITE6 = 'fd00:201:253::1'
export const DNS = '10.201.253.53'
/** The host's own name server: it stays when the one behind the tunnel dies. */
export const HOST_DNS = '10.201.253.54'
const CONTROL = '/var/lib/lab-site/internet.json'

export interface WgServer {
  /** The chat site by name, so that a page needs the tunnel's DNS too. */
  readonly url: string
  /** The same by address. */
  readonly addressUrl: string
  readonly title: string
  /** Makes a node's keys, tells the server, and writes /etc/netvm/wireguard/<node>.conf. */
  conf(node: string, extra?: string): void
  /** The server hears and says nothing any more; the site still answers whoever comes another way. */
  cut(): void
  mend(): void
  /** The server forgets one node, which is a cut for it alone and outlasts a restart of its tunnel. */
  cutNode(node: string): void
  mendNode(node: string): void
  cutUplink(): void
  mendUplink(): void
  /** The server gets another address, and its name leads there. */
  move(): void
  dnsDown(): void
  dnsUp(): void
  /** The site's host hears each TCP connection's first packet as lost: a handshake takes a second, by either family. */
  slowHandshakes(): void
  quickHandshakes(): void
  /** Seconds since the server last shook hands with a node; undefined for never. */
  handshakeAge(node: string): number | undefined
}

const inside = (...argv: string[]): string => ok(['ip', 'netns', 'exec', NET, ...argv])
const batch = (netns: string | undefined, lines: readonly string[]): string =>
  ok(['ip', ...(netns === undefined ? [] : ['-n', netns]), '-batch', '-'], { input: `${lines.join('\n')}\n` })
const script = (name: string): string => fileURLToPath(new URL(`./${name}`, import.meta.url))

function unit(name: string, argv: readonly string[]): void {
  const options = ['--quiet', '--collect', `--unit=${name}`, '-p', `NetworkNamespacePath=/run/netns/${NET}`]
  ok(['systemd-run', ...options, '-E', 'LOG_LEVEL=error', '--', ...argv])
}

function pointName(address: string): void {
  const kept = readFileSync('/etc/hosts', 'utf8').replace(/^.* wg\.lab\n/gm, '')
  writeFileSync('/etc/hosts', `${kept}${address} wg.lab\n`)
}

function useResolver(address: string): void {
  rmSync('/etc/resolv.conf', { force: true })
  writeFileSync('/etc/resolv.conf', `nameserver ${address}\noptions timeout:1 attempts:1\n`)
}

/** Lays the underlay: host and server on one link, the site's addresses behind the server. */
function layUnderlay(): void {
  ok(['ip', 'netns', 'add', NET])
  batch(undefined, [`link add ${UPLINK} type veth peer name up0 netns ${NET}`])
  // Neighbour discovery on the underlay would be noise in every capture.
  ok(['sysctl', '-qw', `net.ipv6.conf.${UPLINK}.disable_ipv6=1`])
  inside('sysctl', '-qw', 'net.ipv6.conf.up0.disable_ipv6=1')
  batch(NET, [
    'link set lo up',
    ...[SITE, CANARY, DNS, HOST_DNS].map((address) => `address add ${address}/32 dev lo`),
    ...[SITE6, 'fd00:201:253::53'].map((address) => `address add ${address}/128 dev lo`),
    `address add ${FIRST}/24 dev up0`,
    'link set up0 up',
  ])
  batch(undefined, [
    `address add ${HOST}/24 dev ${UPLINK}`,
    `link set ${UPLINK} up`,
    `route add 10.201.253.0/24 via ${FIRST}`,
  ])
}

/** Builds it all and waits until every part answers. Once per lab. */
export async function wgServer(): Promise<WgServer> {
  mkdirSync('/var/lib/lab-site', { recursive: true })
  layUnderlay()
  pointName(FIRST)
  const secret = ok(['wg', 'genkey'])
  const serverKey = ok(['wg', 'pubkey'], { input: secret })
  const peers = new Map<string, { key: string; index: number }>()
  const dns = (name: string, ...listen: string[]): void =>
    unit(name, ['node', script('dns-server.mjs'), SITE, SITE6, ...listen])
  const startDns = (): void => dns('lab-dns', DNS, 'fd00:201:253::53')
  dns('lab-host-dns', HOST_DNS)
  useResolver(HOST_DNS)
  unit('lab-internet-site', ['node', script('site-server.mjs'), CONTROL, '80', '::'])
  startDns()
  unit('lab-wg-server', ['wireguard-go', '-f', WG])
  await until('the server’s interface', () => sh(['ip', '-n', NET, 'link', 'show', WG]).code === 0, 10_000)
  writeFileSync('/run/lab-wg.conf', `[Interface]\nPrivateKey = ${secret}\nListenPort = ${PORT}\n`, {
    mode: 0o600,
  })
  await until('wg takes it', () => sh(['wg', 'setconf', WG, '/run/lab-wg.conf']).code === 0, 10_000)
  batch(NET, [
    `address add 10.201.252.254/32 dev ${WG}`,
    `link set ${WG} up`,
    `route add 10.201.252.0/24 dev ${WG}`,
    `route add fd00:201:252::/64 dev ${WG}`,
  ])
  const addPeer = (node: string): void => {
    const peer = peers.get(node)
    if (peer === undefined) throw new Error(`no configuration was made for ${node}`)
    const allowed = `10.201.252.${peer.index}/32,fd00:201:252::${peer.index}/128`
    inside('wg', 'set', WG, 'peer', peer.key, 'allowed-ips', allowed)
  }
  const addressUrl = `http://${SITE}/`
  const url = 'http://site.lab/'
  const answers = (at: string): boolean => sh(['curl', '-sf', '-m', '1', at]).code === 0
  await until('the site answers', () => answers(addressUrl) && answers(url), 20_000)
  return {
    url,
    addressUrl,
    title: 'Chat',
    conf(node, extra = '') {
      const nodeSecret = ok(['wg', 'genkey'])
      const index = peers.get(node)?.index ?? peers.size + 1
      peers.set(node, { key: ok(['wg', 'pubkey'], { input: nodeSecret }), index })
      addPeer(node)
      const text = `[Interface]
PrivateKey = ${nodeSecret}
Address = 10.201.252.${index}/32, fd00:201:252::${index}/128
DNS = ${DNS}
MTU = 1380
${extra}
[Peer]
PublicKey = ${serverKey}
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = wg.lab:${PORT}
`
      writeFileSync(`/etc/netvm/wireguard/${node}.conf`, text, { mode: 0o600 })
    },
    cut() {
      const chain = (hook: string, port: string): string =>
        `chain ${hook} {\ntype filter hook ${hook} priority 0\nudp ${port} ${PORT} drop\n}\n`
      const rules = `table inet cut {\n${chain('input', 'dport')}${chain('output', 'sport')}}\n`
      ok(['ip', 'netns', 'exec', NET, 'nft', '-f', '-'], { input: rules })
    },
    mend: () => void inside('nft', 'delete', 'table', 'inet', 'cut'),
    cutNode: (node) => void inside('wg', 'set', WG, 'peer', peers.get(node)?.key ?? '', 'remove'),
    mendNode: addPeer,
    cutUplink: () => void ok(['ip', 'link', 'set', UPLINK, 'down']),
    mendUplink: () =>
      void batch(undefined, [`link set ${UPLINK} up`, `route replace 10.201.253.0/24 via ${FIRST}`]),
    move() {
      batch(NET, [`address del ${FIRST}/24 dev up0`, `address add ${SECOND}/24 dev up0`])
      batch(undefined, [`route replace 10.201.253.0/24 via ${SECOND}`])
      pointName(SECOND)
    },
    dnsDown: () => void ok(['systemctl', 'stop', 'lab-dns.service']),
    dnsUp: startDns,
    slowHandshakes() {
      const seen = (family: string): string =>
        `set ${family} {\ntype ${family}_addr . inet_service\nflags dynamic,timeout\ntimeout 1m\n}\n`
      const drop = (ip: string, family: string): string =>
        `${ip} saddr . tcp sport @${family} accept\n` +
        `tcp flags & (syn | ack) == syn add @${family} { ${ip} saddr . tcp sport } drop\n`
      const chain = `chain input {\ntype filter hook input priority 0\n${drop('ip', 'ipv4')}${drop('ip6', 'ipv6')}}\n`
      const rules = `table inet slow {\n${seen('ipv4')}${seen('ipv6')}${chain}}\n`
      ok(['ip', 'netns', 'exec', NET, 'nft', '-f', '-'], { input: rules })
    },
    quickHandshakes: () => void inside('nft', 'delete', 'table', 'inet', 'slow'),
    handshakeAge(node) {
      const key = peers.get(node)?.key ?? ''
      const all = inside('wg', 'show', WG, 'latest-handshakes').split('\n')
      const at = Number(all.find((line) => line.startsWith(key))?.split('\t')[1] ?? 0)
      return at > 0 ? Date.now() / 1000 - at : undefined
    },
  }
}

/** Puts a stand-in for Chromium behind one node, or behind every one, for tests that need no pages there. */
export function stubBrowsers(node = ''): void {
  // A copy: the unit sees neither /tmp nor home directories, where the checkout may be.
  mkdirSync('/usr/local/lib/lab', { recursive: true })
  writeFileSync('/usr/local/lib/lab/stub-browser.mjs', readFileSync(script('stub-browser.mjs')))
  const dir = `/etc/systemd/system/chromebox@${node}.service.d`
  mkdirSync(dir, { recursive: true })
  const args = `--user-data-dir=/var/lib/chromebox/%i --remote-debugging-port=\${CDP_PORT}`
  const start = `ExecStart=/usr/bin/env node /usr/local/lib/lab/stub-browser.mjs ${args}`
  writeFileSync(`${dir}/stub.conf`, `[Service]\nExecStart=\n${start}\n`)
  ok(['systemctl', 'daemon-reload'])
}
