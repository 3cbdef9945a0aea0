import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { runSync } from './exec.ts'
import { inNetns } from './netns.ts'
import { listPids, netnsInode } from './proc.ts'

type ProcPaths = Pick<Paths, 'proc'>

/**
 * Whose network namespace to look into: a process's; the one with this inode, through any process inside;
 * or a named one, which works without one inside (only a socket unit's listener) and costs a child process.
 */
export type Where = number | { readonly netnsInode: number } | { readonly netns: string }

/** A listening TCP socket. */
export interface Listener {
  /** IPv4 or IPv6 text; `0.0.0.0` and `::` for any. */
  readonly address: string
  readonly port: number
  readonly inode: number
  /** A process that holds the socket (systemd's pid 1 for a socket unit); absent when none could be found. */
  readonly pid?: number
}

/** TCP_LISTEN of include/net/tcp_states.h, as the table prints it. */
const LISTEN = '0A'
/** Two small tables; a call that takes longer is stuck. */
const NAMED = { deadlineMs: 2000 }
/** Addresses under which a loopback client reaches a listener. */
export const LOOPBACK: readonly string[] = ['127.0.0.1', '::1', '0.0.0.0', '::', '::ffff:127.0.0.1']

/**
 * The listeners on a port in a namespace, with who holds each as far as that can be read. `address`
 * restricts them to one address, or to those a loopback client reaches (`LOOPBACK`) when it is a list.
 */
export function listenersIn(
  p: ProcPaths,
  where: Where,
  port: number,
  address?: string | readonly string[],
): Look<Listener[]> {
  const rows = socketsIn(p.proc, where, port, address)
  if (!rows.seen || rows.value.length === 0) return rows
  const holders = findHolders(p.proc, where, new Set(rows.value.map((row) => row.inode)))
  return {
    seen: true,
    value: rows.value.map((row) => {
      const pid = holders.get(row.inode)
      return pid === undefined ? row : { ...row, pid }
    }),
  }
}

/** Whether this very process listens on the port, where a loopback client reaches it. */
export function holdsListener(p: ProcPaths, pid: number, port: number): Look<boolean> {
  const rows = socketsIn(p.proc, pid, port, LOOPBACK)
  if (!rows.seen) return rows
  if (rows.value.length === 0) return { seen: true, value: false }
  const held = socketInodes(p.proc, pid)
  if (!held.seen) return held
  return { seen: true, value: rows.value.some((row) => held.value.has(row.inode)) }
}

/**
 * Whether somebody else listens on the port, where a loopback client reaches it: there is a listener, and
 * none of `ours` holds it. Free, and held by one of ours, are both false.
 */
export function isHeldByAnother(
  p: ProcPaths,
  where: Where,
  port: number,
  ours: readonly number[] = typeof where === 'number' ? [where] : [],
): Look<boolean> {
  const rows = socketsIn(p.proc, where, port, LOOPBACK)
  if (!rows.seen) return rows
  if (rows.value.length === 0) return { seen: true, value: false }
  const mine = new Set<number>()
  for (const pid of ours) {
    const held = socketInodes(p.proc, pid)
    if (!held.seen) return held
    for (const inode of held.value) mine.add(inode)
  }
  return { seen: true, value: rows.value.some((row) => !mine.has(row.inode)) }
}

/** Parses the table of `/proc/<pid>/net/tcp` or `tcp6`; only listening sockets are returned. */
export function parseTcpTable(table: string): Listener[] {
  const rows: Listener[] = []
  for (const line of table.split('\n')) {
    const fields = line.trim().split(/\s+/)
    const [address, port] = (fields[1] ?? '').split(':')
    if (fields[3] !== LISTEN || address === undefined || port === undefined) continue
    const inode = Number(fields[9])
    if (!/^([0-9A-F]{8}|[0-9A-F]{32})$/.test(address) || !Number.isInteger(inode)) continue
    rows.push({ address: decodeAddress(address), port: Number.parseInt(port, 16), inode })
  }
  return rows
}

function socketsIn(
  proc: string,
  where: Where,
  port: number,
  address: string | readonly string[] | undefined,
): Look<Listener[]> {
  const tables = tcpTables(proc, where)
  if (!tables.seen) return tables
  const rows = parseTcpTable(tables.value)
  const wanted = typeof address === 'string' ? [address] : address
  return { seen: true, value: rows.filter((r) => r.port === port && (wanted?.includes(r.address) ?? true)) }
}

/** Both tables, one after the other. A kernel without IPv6 has no tcp6; without tcp we saw nothing. */
function tcpTables(proc: string, where: Where): Look<string> {
  if (typeof where === 'object' && 'netns' in where) {
    const got = runSync(inNetns(where.netns, ['cat', '/proc/self/net/tcp', '/proc/self/net/tcp6']), NAMED)
    if (got.code === 0 || (got.code === 1 && got.stdout.includes('local_address'))) {
      return { seen: true, value: got.stdout }
    }
    return { seen: false, why: `cannot look into ${where.netns}: ${clean(got.stderr.trim())}` }
  }
  const at =
    typeof where === 'number' ? { seen: true as const, value: where } : memberOf(proc, where.netnsInode)
  if (!at.seen) return at
  let text = ''
  for (const table of ['tcp', 'tcp6']) {
    const path = `${proc}/${at.value}/net/${table}`
    try {
      text += readFileSync(path, 'latin1')
    } catch (err) {
      const code = (err as NodeJS.ErrnoException).code ?? String(err)
      if (table === 'tcp' || code !== 'ENOENT') return { seen: false, why: `cannot read ${path}: ${code}` }
    }
  }
  return { seen: true, value: text }
}

/** Some process inside the namespace: the kernel shows a namespace's sockets only through a member. */
function memberOf(proc: string, inode: number): Look<number> {
  for (const pid of pidsOrNone(proc)) {
    const ns = netnsInode(proc, pid)
    if (ns.seen && ns.value === inode) return { seen: true, value: pid }
  }
  return { seen: false, why: `no process to look through in network namespace ${inode}` }
}

/** Socket inode → pid. Every process is asked: systemd holds a relay's socket from outside the namespace. */
function findHolders(proc: string, where: Where, inodes: ReadonlySet<number>): Map<number, number> {
  const holders = new Map<number, number>()
  const first = typeof where === 'number' ? [where] : []
  for (const pid of [...first, ...pidsOrNone(proc)]) {
    if (holders.size === inodes.size) break
    const held = socketInodes(proc, pid)
    if (!held.seen) continue
    for (const inode of held.value) if (inodes.has(inode) && !holders.has(inode)) holders.set(inode, pid)
  }
  return holders
}

function pidsOrNone(proc: string): number[] {
  try {
    return listPids(proc)
  } catch {
    return []
  }
}

function socketInodes(proc: string, pid: number): Look<Set<number>> {
  const dir = `${proc}/${pid}/fd`
  let names: string[]
  try {
    names = readdirSync(dir)
  } catch (err) {
    return { seen: false, why: `cannot read ${dir}: ${String((err as NodeJS.ErrnoException).code)}` }
  }
  const inodes = new Set<number>()
  for (const name of names) {
    try {
      const m = /^socket:\[(\d+)\]$/.exec(readlinkSync(`${dir}/${name}`))
      if (m !== null) inodes.add(Number(m[1]))
    } catch {
      // Closed between the listing and now.
    }
  }
  return { seen: true, value: inodes }
}

/** Hex of the kernel's table, in 32-bit words of the machine's byte order (little-endian wherever we run). */
function decodeAddress(hex: string): string {
  const bytes: number[] = []
  for (let word = 0; word < hex.length; word += 8) {
    for (let byte = 6; byte >= 0; byte -= 2)
      bytes.push(Number.parseInt(hex.slice(word + byte, word + byte + 2), 16))
  }
  if (bytes.length === 4) return bytes.join('.')
  if (bytes.slice(0, 10).every((b) => b === 0) && bytes[10] === 255 && bytes[11] === 255) {
    return `::ffff:${bytes.slice(12).join('.')}`
  }
  const groups: string[] = []
  for (let i = 0; i < 16; i += 2) groups.push((((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0)).toString(16))
  // RFC 5952: the longest run of two or more zero groups becomes ::, the first one of equals.
  const runs = groups.join(':').match(/\b0(?::0)+\b/g) ?? []
  const longest = runs.reduce((best, run) => (run.length > best.length ? run : best), '')
  if (longest === '') return groups.join(':')
  const [head = '', tail = ''] = splitOnce(groups.join(':'), longest)
  return `${head.replace(/:$/, '')}::${tail.replace(/^:/, '')}`
}

function splitOnce(text: string, at: string): [string, string] {
  const index = text.search(new RegExp(`(?<![0-9a-f])${at}(?![0-9a-f])`))
  return [text.slice(0, index), text.slice(index + at.length)]
}
