import { isIP } from 'node:net'

/** One `[Peer]`. Keys are secrets or point to one: never print this object. */
export interface ConfPeer {
  readonly publicKey: string
  readonly presharedKey?: string
  /** Host is a name, an IPv4 address, or an IPv6 address without brackets. */
  readonly endpoint?: { readonly host: string; readonly port: number }
  /** `address/prefix`, both families. */
  readonly allowedIps: readonly string[]
  /** Seconds; 0 is off. */
  readonly keepalive?: number
}

/** A checked configuration in wg-quick's format. */
export interface TunnelConf {
  readonly privateKey: string
  readonly addresses: readonly string[]
  readonly dns: readonly string[]
  readonly mtu?: number
  readonly listenPort?: number
  readonly peers: readonly ConfPeer[]
  /** Settings that were left out and why, for the log. */
  readonly ignored: readonly string[]
}

/** Every problem of one file, each with its line. Holds no value of the file, so it is safe to print. */
export class ConfError extends Error {
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(problems.join('; '))
    this.name = 'ConfError'
    this.problems = problems
  }
}

/** wg-quick runs these as root; nothing in a tunnel's file may run a command or write the file back. */
const REFUSED: Readonly<Record<string, string>> = {
  preup: 'would run a command',
  postup: 'would run a command',
  predown: 'would run a command',
  postdown: 'would run a command',
  saveconfig: 'would write this file back',
}
const IGNORED: Readonly<Record<string, string>> = {
  table: 'the namespace has one routing table and one way out',
  fwmark: 'the namespace has one way out, nothing to mark',
}
const SEARCH_DOMAIN = 'a search domain in DNS is ignored: a browser asks for full names'
/** 32 bytes in base64: the last digit before `=` carries only four bits. */
const KEY = /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/
const HOST_LABEL = '[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?'
const HOST = new RegExp(`^(?=.{1,253}$)${HOST_LABEL}(?:\\.${HOST_LABEL})*\\.?$`)
/** A setting's name is echoed only when it looks like one: a pasted key must not come back in an error. */
const SETTING = /^[A-Za-z]{1,24}$/
const MAX_BYTES = 64 * 1024
/** The least that carries IPv6 (RFC 8200) and IPv4 (RFC 791). */
const LEAST_MTU = { v4: 576, v6: 1280 }

type Section = 'none' | 'interface' | 'peer' | 'unknown'

/** Parses wg-quick's format. Throws ConfError with every problem; no message holds a value, only names and lines. */
export function parseTunnelConf(text: string): TunnelConf {
  if (text.length > MAX_BYTES) throw new ConfError([`longer than ${MAX_BYTES} bytes`])
  const reader = new Reader()
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  for (const [i, raw] of lines.entries()) reader.line(i + 1, raw)
  return reader.finish()
}

/** What was read so far. */
type Draft<T> = { -readonly [K in keyof T]?: T[K] }
type PeerDraft = Draft<Omit<ConfPeer, 'allowedIps'>> & { line: number; allowedIps: string[] }

class Reader {
  private section: Section = 'none'
  private interfaceLine = 0
  private readonly own: Draft<Pick<TunnelConf, 'privateKey' | 'mtu' | 'listenPort'>> = {}
  private readonly addresses: string[] = []
  private readonly dns: string[] = []
  private readonly peers: PeerDraft[] = []
  private readonly ignored: string[] = []
  private readonly problems: string[] = []

  line(at: number, raw: string): void {
    const line = raw.replace(/#.*$/, '').trim()
    const problem = line === '' ? undefined : this.take(at, line)
    if (problem !== undefined) this.bad(at, problem)
  }

  /** The problem of one line, if it has one. */
  private take(at: number, line: string): string | undefined {
    const header = /^\[\s*([A-Za-z]+)\s*\]$/.exec(line)
    if (header !== null) return this.header(at, header[1] ?? '')
    const eq = line.indexOf('=')
    const name = eq < 0 ? '' : line.slice(0, eq).trim()
    const value = eq < 0 ? '' : line.slice(eq + 1).trim()
    if (!SETTING.test(name)) return 'is not `Setting = value`'
    if (value === '') return `${name} has no value`
    const key = name.toLowerCase()
    const refused = REFUSED[key]
    if (refused !== undefined) return `${name} is refused: it ${refused}`
    if (this.section === 'unknown') return undefined
    if (this.section === 'none') return `${name} stands before [Interface]`
    if (this.section === 'interface') return this.interfaceSetting(at, name, key, value)
    const peer = this.peers.at(-1)
    return peer === undefined ? undefined : this.peerSetting(name, key, value, peer)
  }

  finish(): TunnelConf {
    const { privateKey, mtu } = this.own
    if (this.interfaceLine === 0) this.problems.push('no [Interface] section')
    else if (privateKey === undefined) this.bad(this.interfaceLine, '[Interface] has no PrivateKey')
    if (this.interfaceLine > 0 && this.addresses.length === 0)
      this.bad(this.interfaceLine, '[Interface] has no Address')
    if (this.peers.length === 0) this.problems.push('no [Peer] section')
    else if (!this.peers.some((peer) => peer.endpoint !== undefined)) {
      this.problems.push('no [Peer] has an Endpoint, so there is nowhere to connect to')
    }
    const seen = new Set<string>()
    const peers = this.peers.flatMap((peer): ConfPeer[] => {
      if (peer.publicKey === undefined) {
        this.bad(peer.line, '[Peer] has no PublicKey')
        return []
      }
      if (seen.has(peer.publicKey)) this.bad(peer.line, '[Peer] repeats the PublicKey of another')
      seen.add(peer.publicKey)
      if (peer.allowedIps.length === 0) this.bad(peer.line, '[Peer] has no AllowedIPs')
      const { line: _line, ...rest } = peer
      return [{ ...rest, publicKey: peer.publicKey }]
    })
    const v6 = this.addresses.some((address) => address.includes(':'))
    if (v6 && mtu !== undefined && mtu < LEAST_MTU.v6) {
      this.problems.push(`MTU below ${LEAST_MTU.v6} cannot carry the IPv6 address`)
    }
    if (this.problems.length > 0 || privateKey === undefined) throw new ConfError(this.problems)
    const { own, addresses, dns, ignored } = this
    return { ...own, privateKey, addresses, dns, peers, ignored }
  }

  private header(at: number, name: string): string | undefined {
    const section = name.toLowerCase()
    if (section === 'interface') {
      const second = this.interfaceLine > 0
      this.interfaceLine = at
      this.section = 'interface'
      return second ? 'second [Interface] section' : undefined
    }
    if (section === 'peer') {
      this.section = 'peer'
      this.peers.push({ line: at, allowedIps: [] })
      return undefined
    }
    this.section = 'unknown'
    return 'unknown section, [Interface] or [Peer] expected'
  }

  private interfaceSetting(at: number, name: string, key: string, value: string): string | undefined {
    const why = IGNORED[key]
    if (why !== undefined) {
      this.ignored.push(`line ${at}: ${name} is ignored: ${why}`)
      return undefined
    }
    const { own } = this
    switch (key) {
      case 'privatekey':
        return once(own, 'privateKey', 'PrivateKey', secret(value), A_KEY)
      case 'address':
        return networks(value, this.addresses, 'Address')
      case 'dns':
        for (const item of list(value)) {
          if (isIP(item) !== 0) this.dns.push(item)
          else if (HOST.test(item)) this.ignored.push(`line ${at}: ${SEARCH_DOMAIN}`)
          else return 'DNS is neither an address nor a search domain'
        }
        return undefined
      case 'mtu':
        return last(own, 'mtu', 'MTU', number(value, LEAST_MTU.v4), `a number from ${LEAST_MTU.v4} to 65535`)
      case 'listenport':
        return last(own, 'listenPort', 'ListenPort', number(value, 0), 'a number from 0 to 65535')
      default:
        return `unknown setting ${name} in [Interface]`
    }
  }

  private peerSetting(name: string, key: string, value: string, peer: PeerDraft): string | undefined {
    switch (key) {
      case 'publickey':
        return once(peer, 'publicKey', 'PublicKey', secret(value), A_KEY)
      case 'presharedkey':
        return once(peer, 'presharedKey', 'PresharedKey', secret(value), A_KEY)
      case 'endpoint':
        return once(peer, 'endpoint', 'Endpoint', parseEndpoint(value), 'host:port')
      case 'allowedips':
        return networks(value, peer.allowedIps, 'AllowedIPs')
      case 'persistentkeepalive': {
        const seconds = value.toLowerCase() === 'off' ? 0 : number(value, 0)
        return last(peer, 'keepalive', 'PersistentKeepalive', seconds, 'off or a number from 0 to 65535')
      }
      default:
        return `unknown setting ${name} in [Peer]`
    }
  }

  private bad(at: number, what: string): void {
    this.problems.push(`line ${at}: ${what}`)
  }
}

const A_KEY = 'a base64 key of 32 bytes'

function secret(value: string): string | undefined {
  return KEY.test(value) ? value : undefined
}

function number(value: string, least: number): number | undefined {
  const n = /^\d{1,5}$/.test(value) ? Number(value) : Number.NaN
  return n >= least && n <= 65535 ? n : undefined
}

/** Sets a value of which the last one counts; the problem of one that is not `what` it should be. */
function last<T, K extends keyof T>(draft: T, field: K, name: string, value: T[K] | undefined, what: string) {
  if (value === undefined) {
    delete draft[field]
    return `${name} is not ${what}`
  }
  draft[field] = value
  return undefined
}

/** The same of a value that may stand once. */
function once<T, K extends keyof T>(draft: T, field: K, name: string, value: T[K] | undefined, what: string) {
  return draft[field] === undefined ? last(draft, field, name, value, what) : `second ${name}`
}

/** Adds every network of a comma list; the problem of the first that is none. */
function networks(value: string, into: string[], name: string): string | undefined {
  for (const item of list(value)) {
    const net = network(item)
    if (net === undefined) return `${name} is not an address with a prefix length`
    if (into.includes(net)) return `${name} says the same twice`
    into.push(net)
  }
  return undefined
}

function list(value: string): string[] {
  return value.split(',').map((item) => item.trim())
}

/** `address[/prefix]` → `address/prefix`, a bare address being a host. */
function network(item: string): string | undefined {
  const [address = '', prefix, ...more] = item.split('/')
  const family = isIP(address)
  if (family === 0 || more.length > 0 || address.includes('%')) return undefined
  const longest = family === 4 ? 32 : 128
  if (prefix === undefined) return `${address}/${longest}`
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= longest ? `${address}/${Number(prefix)}` : undefined
}

function parseEndpoint(value: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:[\]]+)):(\d{1,5})$/.exec(value)
  if (match === null) return undefined
  const port = Number(match[3])
  if (port < 1 || port > 65535) return undefined
  if (match[1] !== undefined) return isIP(match[1]) === 6 ? { host: match[1], port } : undefined
  const host = match[2] ?? ''
  // Digits and dots only are an address or nothing: "10.1" would be taken for 10.0.0.1 by the resolver.
  if (/^[\d.]+$/.test(host)) return isIP(host) === 4 ? { host, port } : undefined
  return HOST.test(host) ? { host, port } : undefined
}
