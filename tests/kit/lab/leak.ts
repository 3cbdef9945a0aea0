import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { readdirSync } from 'node:fs'
import { ok, sh, until } from '../lab.ts'
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
 * by the host. On the uplink: WireGuard, and what the kernel answers to it. Anywhere: nothing with an address behind
 * the tunnel.
 */
export function leaks(packets: readonly Packet[], b: Borders): Packet[] {
  return packets.filter(({ link, text }) => {
    if (/\b10\.201\.25[23]\.|fd00:201:/.test(text)) return true
    if (link === b.veth) return !/^ARP\b/.test(text) && !isRelay(text, b)
    if (link === b.uplink)
      return !/^ARP\b/.test(text) && !new RegExp(`\\.${b.wireguardPort}(:| >)`).test(text) && !isRefusal(text)
    return text.includes(`${b.peer}.`) || text.includes(`${b.peer} `)
  })
}

/** The host's own kernel tells the server that the socket of a tunnel that is gone is gone. */
function isRefusal(text: string): boolean {
  return /^IP 10\.201\.254\.1 > 10\.201\.254\.7: ICMP 10\.201\.254\.1 udp port \d+ unreachable\b/.test(text)
}

function isRelay(text: string, { gw, peer }: Borders): boolean {
  const at = (address: string): string => `${address.replaceAll('.', '\\.')}\\.\\d+`
  return new RegExp(`^IP (?:${at(gw)} > ${at(peer)}|${at(peer)} > ${at(gw)}): tcp`).test(text)
}

/** What runs inside: sends every datagram and opens every connection of its argument, and ends. */
const TRY = `
const [targets] = process.argv.slice(1).map((text) => JSON.parse(text))
let open = targets.filter(([proto]) => proto === 'udp').length
// A first packet has left when connect(2) has returned; the answers that never come are not waited for.
const done = () => --open || setTimeout(() => process.exit(0), 300)
for (const [proto, address, port] of targets) {
  if (proto === 'udp') {
    const socket = require('node:dgram').createSocket(address.includes(':') ? 'udp6' : 'udp4')
    socket.on('error', () => {})
    socket.bind(0, () => {
      if (!address.includes(':')) socket.setBroadcast(true)
      socket.send('leak', port, address, done)
    })
  } else {
    const socket = require('node:net').connect({ host: address, port })
    socket.on('error', () => {})
    socket.on('connect', () => socket.destroy())
  }
}
setTimeout(() => process.exit(1), 30_000)
`

/** Everything a process inside could try, side by side; none of it has to succeed. */
export function tryEverything(node: string, gw: string, canary: string): void {
  const targets = [
    // QUIC, STUN, DNS past the configured resolver, DNS to the configured one, plain HTTP and HTTPS.
    ['udp', canary, 443],
    ['udp', canary, 3478],
    ['udp', canary, 53],
    ['tcp', canary, 80],
    ['tcp', canary, 443],
    ['udp', DNS, 53],
    ['udp', 'fd00:201:253::99', 443],
    ['tcp', 'fd00:201:253::99', 80],
    // The host itself: its own services, its resolver, and its other addresses.
    ['tcp', gw, 22],
    ['udp', gw, 53],
    ['tcp', '10.201.254.1', 80],
    ['udp', '10.201.254.7', 51820],
    // Neighbours of other nodes and everybody's multicast.
    ['udp', '224.0.0.251', 5353],
    ['udp', '255.255.255.255', 67],
  ]
  // One process and not a shell for each: on a busy machine some of fourteen shells did not get to send in time.
  ok(['ip', 'netns', 'exec', `warp-${node}`, 'node', '-e', TRY, JSON.stringify(targets)])
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
