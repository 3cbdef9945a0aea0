import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { readdirSync } from 'node:fs'
import { ok, sh, until } from './harness.ts'
import { DNS } from './wg-server.ts'

/** One packet as tcpdump saw it on a host interface. */
export interface Packet {
  readonly link: string
  readonly text: string
}

/** Captures every packet on every interface of the host's namespace (the nodes' namespaces have their own). */
export class Capture {
  private readonly child: ChildProcess
  private text = ''
  private heard = ''

  private constructor() {
    // Headers only: with whole packets its buffer holds 32 of them, and a busy machine loses some.
    const argv = ['-i', 'any', '-nn', '-l', '-q', '-t', '-s', '256', '--immediate-mode', '-B', '8192']
    this.child = spawn('tcpdump', argv, { stdio: ['ignore', 'pipe', 'pipe'] })
    this.child.stdout?.on('data', (data) => {
      this.text += data
    })
    this.child.stderr?.on('data', (data) => {
      this.heard += data
    })
  }

  static async start(): Promise<Capture> {
    const capture = new Capture()
    await until('tcpdump listens', () => /listening on any/.test(capture.heard), 10_000)
    return capture
  }

  /** Everything seen up to now. A packet of our own is the mark that nothing before it is still on its way. */
  async packets(): Promise<Packet[]> {
    const port = 20_000 + Math.floor(Math.random() * 20_000)
    const socket = createSocket('udp4')
    // Nobody listens there: the refusal comes back as an error of the socket.
    socket.on('error', () => {})
    const captured = () => {
      socket.send('mark', port, '127.0.0.1')
      return this.text.includes(`127.0.0.1.${port}`)
    }
    await until('the mark is captured', captured, 10_000, 20).finally(() => socket.close())
    const all = this.text.split('\n').flatMap((line): Packet[] => {
      const m = /^(\S+)\s+(?:In|Out|B|M|P)\s+(.*)$/.exec(line)
      return m ? [{ link: m[1] ?? '', text: m[2] ?? '' }] : []
    })
    this.text = ''
    return all.filter((packet) => !packet.text.includes(`127.0.0.1.${port}`))
  }

  /** Stops it; throws when the kernel dropped packets, for then nothing is proven. */
  async stop(): Promise<void> {
    this.child.kill('SIGINT')
    await until('tcpdump has counted', () => /dropped by kernel/.test(this.heard), 10_000)
    const dropped = Number(/(\d+) packets? dropped by kernel/.exec(this.heard)?.[1] ?? Number.NaN)
    if (dropped !== 0) throw new Error(`tcpdump lost packets: ${this.heard}`)
  }
}

export interface Borders {
  /** The host's end of the node's pair, its own address and the node's. */
  readonly veth: string
  readonly gw: string
  readonly peer: string
  readonly uplink: string
  readonly wireguardPort: number
}

/**
 * The packets that have no business there. On the node's pair: ARP and the relay's TCP between its two ends, opened
 * by the host. On the uplink: WireGuard. Anywhere: nothing with an address behind the tunnel.
 */
export function leaks(packets: readonly Packet[], b: Borders): Packet[] {
  return packets.filter(({ link, text }) => {
    if (/\b10\.201\.25[23]\.|fd00:201:/.test(text)) return true
    if (link === b.veth) return !/^ARP\b/.test(text) && !isRelay(text, b)
    if (link === b.uplink)
      return !/^ARP\b/.test(text) && !new RegExp(`\\.${b.wireguardPort}(:| >)`).test(text)
    return text.includes(`${b.peer}.`) || text.includes(`${b.peer} `)
  })
}

function isRelay(text: string, { gw, peer }: Borders): boolean {
  const at = (address: string): string => `${address.replaceAll('.', '\\.')}\\.\\d+`
  return new RegExp(`^IP (?:${at(gw)} > ${at(peer)}|${at(peer)} > ${at(gw)}): tcp`).test(text)
}

/** Everything a page or a process inside could try, one after another; none of it has to succeed. */
export function tryEverything(node: string, gw: string, canary: string): void {
  const one = (address: string, proto: string, port: number): string =>
    `timeout 1 bash -c 'echo leak > /dev/${proto}/${address}/${port}' 2>/dev/null`
  const all = [
    // QUIC, STUN, DNS past the configured resolver, DNS to the configured one, plain HTTP and HTTPS.
    ...['udp 443', 'udp 3478', 'udp 53', 'tcp 80', 'tcp 443'].map((way) => {
      const [proto = '', port = ''] = way.split(' ')
      return one(canary, proto, Number(port))
    }),
    one(DNS, 'udp', 53),
    one('fd00:201:253::99', 'udp', 443),
    one('fd00:201:253::99', 'tcp', 80),
    // The host itself: its own services, its resolver, and its other addresses.
    one(gw, 'tcp', 22),
    one(gw, 'udp', 53),
    one('10.201.254.1', 'tcp', 80),
    one('10.201.254.7', 'udp', 51820),
    // Neighbours of other nodes and everybody's multicast.
    one('224.0.0.251', 'udp', 5353),
    one('255.255.255.255', 'udp', 67),
  ]
  sh(['ip', 'netns', 'exec', `warp-${node}`, 'bash', '-c', `${all.map((a) => `(${a}) &`).join(' ')} wait`])
}

/** The interfaces of the host that are not one node's: for the test to know that it looked everywhere. */
export function hostLinks(): string[] {
  return readdirSync('/sys/class/net')
}

/** A rule that would carry a node's packets out, as on a host that routes: without it a leak could not be seen to leave. */
export function routeAnything(): void {
  sh([
    'bash',
    '-c',
    'echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding',
  ])
  ok(['nft', '-f', '-'], {
    input:
      'table ip lab {\nchain post {\ntype nat hook postrouting priority srcnat\noifname "uplink0" masquerade\n}\n}\n',
  })
}
