import { NetvmError, UsageError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'

/** Node names reach unit names, paths and argv, so nothing else gets in. */
const NODE_NAME = /^[a-z0-9][a-z0-9-]{0,31}$/

/** Stands for "no single node" in log lines and page keys, so no node can have it. */
const RESERVED = 'fleet'

export function isNodeName(s: string): boolean {
  return NODE_NAME.test(s) && s !== RESERVED
}

/** @throws UsageError that shows the rule */
export function assertNodeName(s: string): string {
  if (isNodeName(s)) return s
  const why = s === RESERVED ? 'is reserved' : `must match ${NODE_NAME.source}`
  throw new UsageError(`bad node name "${clean(s, 60)}": it ${why}`)
}

/** Names and addresses of a node as its name alone gives them; `sub` is the /30 with its prefix length. */
export type Names = Readonly<ReturnType<typeof deriveNames>>

const OCTET_FIRST = 10
const OCTETS = 200
const PORT_FIRST = 9222
const PORTS = 2000
/** /30 networks in one third octet. */
const NETS_PER_OCTET = 64

function hashOf(node: string): string {
  // Not an import: node:crypto costs milliseconds of CPU to load, and a healthy tick never hashes.
  const crypto = process.getBuiltinModule?.('node:crypto')
  if (crypto === undefined) {
    throw new NetvmError(`Node ${process.version} is too old: 20.16 or later is needed`, {
      exitCode: EXIT.CONFIG,
      next: 'apt-get install nodejs',
    })
  }
  return crypto.createHash('sha256').update(node).digest('hex')
}

/** Interface names. Nine or eleven characters; the kernel takes 15. */
export function ifNames(node: string): { veth: string; vpeer: string; wg: string } {
  const tag = hashOf(assertNodeName(node)).slice(0, 8)
  return { veth: `ve-${tag}`, vpeer: `vp-${tag}`, wg: `wg-${tag}` }
}

/**
 * The derivation of the reference fleet: octet from the first three hex digits of sha256(node), the
 * port from the fifth to seventh, the tag from the first eight.
 * @throws UsageError for a bad name
 */
export function deriveNames(node: string) {
  const hash = hashOf(assertNodeName(node))
  const octet = (Number.parseInt(hash.slice(0, 3), 16) % OCTETS) + OCTET_FIRST
  const port = PORT_FIRST + (Number.parseInt(hash.slice(4, 7), 16) % PORTS)
  return { netns: `warp-${node}`, ...ifNames(node), ...subnet(octet, 0), port, octet }
}

function subnet(octet: number, index: number): { sub: string; gw: string; peer: string } {
  const net = `10.201.${octet}`
  return { sub: `${net}.${index * 4}/30`, gw: `${net}.${index * 4 + 1}`, peer: `${net}.${index * 4 + 2}` }
}

/**
 * Names for a node that gets a row: as derived, or with the next free /30 and the next free port when
 * another row (retired ones too: they may come back) has them. The search goes through the first /30 of
 * every octet, then the second, so a fleet stays readable as "one octet, one node" as long as it can.
 * @throws NetvmError when all 12 800 networks or 2 000 ports are taken
 */
export function freeNames(node: string, rows: readonly Node[]): Names {
  const derived = deriveNames(node)
  const others = rows.filter((r) => r.name !== node)
  const taken = new Set(others.flatMap((r) => [network(r.gw), network(r.peer)]))
  const ports = new Set(others.map((r) => r.cdpPort))
  return { ...derived, ...freeSubnet(derived.octet, taken), port: freePort(node, derived.port, ports) }
}

/** The units of a node, in the order of stopping: supervision first, the namespace last. */
export const unitsOf = (name: string) => ({
  target: `netvm-node@${name}.target`,
  timer: `chromebox-watchdog@${name}.timer`,
  browser: `chromebox@${name}.service`,
  socket: `cdp-relay@${name}.socket`,
  relay: `cdp-relay@${name}.service`,
  tunnel: `netvm-tunnel@${name}.service`,
  // The browser's end has started it once more; it finds a retired row.
  watchdog: `chromebox-watchdog@${name}.service`,
  netns: `netvm-netns@${name}.service`,
})

function freeSubnet(start: number, taken: ReadonlySet<string>) {
  for (let i = 0; i < OCTETS * NETS_PER_OCTET; i++) {
    const octet = ((start - OCTET_FIRST + i) % OCTETS) + OCTET_FIRST
    const net = subnet(octet, Math.floor(i / OCTETS))
    if (!taken.has(network(net.gw))) return { ...net, octet }
  }
  throw new NetvmError('no free /30 left in 10.201.10.0 to 10.201.209.255', { next: 'netvm-topology' })
}

function freePort(node: string, start: number, taken: ReadonlySet<number>): number {
  for (let i = 0; i < PORTS; i++) {
    const port = PORT_FIRST + ((start - PORT_FIRST + i) % PORTS)
    if (!taken.has(port)) return port
  }
  throw new NetvmError(`no free port left in ${PORT_FIRST} to ${PORT_FIRST + PORTS - 1}`, {
    next: `netvm-node-up ${node} --port PORT`,
  })
}

/** The /30 an address is in, as the text of its first address. */
export function network(ip: string): string {
  const dot = ip.lastIndexOf('.')
  return `${ip.slice(0, dot)}.${Number(ip.slice(dot + 1)) & ~3}`
}
