import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { errnoOf, linkOf, textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { run, runSync } from './exec.ts'
import { inNetns, lookNetns } from './netns.ts'
import { listPids, readArgv, readStat } from './proc.ts'
import { type Listener, parseTcpTable } from './tcp-table.ts'

type ProcPaths = Pick<Paths, 'proc'>

/**
 * Whose network namespace to look into: a process's, or the one of a name under /run/netns, which works without
 * a process inside (only a socket unit's listener) and costs a child process.
 */
type Where = number | string

/** A listener and the namespace it is in. */
export interface NetListener extends Listener {
  /** Name under /run/netns, or `HOST` (topology/types.ts). */
  readonly netns: string
}

/** A process that holds a socket. Pid and start ticks together name it: pids are used again. */
export interface SocketOwner {
  readonly pid: number
  readonly startTicks: number
  /** Program and its first argument, cleaned. */
  readonly program: string
  /** Unit of its cgroup (`cdp-relay@muse.service`, `session-3.scope`); empty when in none. */
  readonly unit: string
  /** Started with `--user-data-dir=`. */
  readonly browser: boolean
}

export interface OwnedListener extends NetListener {
  /** Every process that holds the socket; empty when none that we may look into does. */
  readonly owners: readonly SocketOwner[]
}

/** Listening sockets only (state 0A): a browser's connections would be most of the text. */
const TABLES = ['grep', '-hs', ' 0A ', '/proc/net/tcp', '/proc/net/tcp6'] as const
/** Two small tables; a call that takes longer, in milliseconds, is stuck. */
const NAMED_DEADLINE_MS = 2000
/** 200 namespaces with a handful of listeners, 150 bytes each, are far below this. */
const MAX_OUTPUT = 16 * 1024 * 1024
/** What everybody dials to reach a browser inside its namespace. */
const DIALLED = '127.0.0.1'

/**
 * The listeners on a port in a namespace, on one address when it is given, each with a process that holds it
 * (systemd's pid 1 for a socket unit); without `pid` when none could be found.
 */
export function listenersIn(
  p: ProcPaths,
  where: Where,
  port: number,
  address?: string,
): Look<(Listener & { readonly pid?: number })[]> {
  const all = socketsIn(p.proc, where, port)
  if (!all.seen) return all
  const rows = {
    seen: true,
    value: all.value.filter((r) => address === undefined || r.address === address),
  } as const
  if (rows.value.length === 0) return rows
  const wanted = new Set(rows.value.map((row) => row.inode))
  const holders = new Map<number, number>()
  // Every process is asked: systemd holds a relay's socket from outside the namespace.
  for (const pid of [...(typeof where === 'number' ? [where] : []), ...listPids(p.proc)]) {
    if (holders.size === wanted.size) break
    for (const inode of socketsOf(p, pid))
      if (wanted.has(inode) && !holders.has(inode)) holders.set(inode, pid)
  }
  const value = rows.value.map((row) => {
    const pid = holders.get(row.inode)
    return pid === undefined ? row : { ...row, pid }
  })
  return { seen: true, value }
}

/**
 * Whose listener takes a connection to 127.0.0.1:<port> in the network of a process: its own, another's, or nobody's.
 * A browser that finds the port taken there starts all the same and listens on `::1`, where nobody asks it.
 */
export function whoseListener(p: ProcPaths, pid: number, port: number): Look<'own' | 'other' | 'nobody'> {
  const rows = socketsIn(p.proc, pid, port)
  if (!rows.seen) return rows
  const takers = takersOf(rows.value, DIALLED)
  if (takers.length === 0) return { seen: true, value: 'nobody' }
  const held = socketInodes(p.proc, pid)
  if (!held.seen) return held
  return { seen: true, value: takers.every((row) => held.value.has(row.inode)) ? 'own' : 'other' }
}

/** Whether this very process takes what is sent to 127.0.0.1:<port>. */
export function holdsListener(p: ProcPaths, pid: number, port: number): Look<boolean> {
  const whose = whoseListener(p, pid, port)
  return whose.seen ? { seen: true, value: whose.value === 'own' } : whose
}

/**
 * The process that takes a connection to an IPv4 address and port. Of several the first: systemd for a socket unit.
 * @returns undefined when nobody listens, or none that may be seen; goes through every process
 */
export function takerOf(
  p: ProcPaths,
  where: Where,
  port: number,
  address = DIALLED,
): Look<SocketOwner | undefined> {
  const rows = socketsIn(p.proc, where, port)
  if (!rows.seen) return rows
  const [row] = takersOf(rows.value, address)
  const pid = row && listPids(p.proc).find((one) => socketsOf(p, one).has(row.inode))
  return { seen: true, value: pid === undefined ? undefined : describeProcess(p, pid) }
}

/**
 * The listeners that take a connection to an IPv4 address: those on that very address before those on any, and of
 * these an IPv4 socket before one of both protocols.
 */
function takersOf<L extends Listener>(rows: readonly L[], address: string): L[] {
  const ways = [[address, `::ffff:${address}`], ['0.0.0.0'], ['::']]
  return ways.map((way) => rows.filter((r) => way.includes(r.address))).find((on) => on.length > 0) ?? []
}

function socketsIn(proc: string, where: Where, port: number): Look<Listener[]> {
  const tables = typeof where === 'string' ? namedTables(where) : tablesOf(proc, where)
  if (!tables.seen) return tables
  return { seen: true, value: parseTcpTable(tables.value).filter((r) => r.port === port) }
}

function namedTables(netns: string): Look<string> {
  const argv = inNetns(netns, ['cat', '/proc/self/net/tcp', '/proc/self/net/tcp6'])
  const got = runSync(argv, { deadlineMs: NAMED_DEADLINE_MS })
  if (got.code === 0 || (got.code === 1 && got.stdout.includes('local_address')))
    return { seen: true, value: got.stdout }
  return { seen: false, why: `cannot look into ${netns}: ${clean(got.stderr.trim())}` }
}

/** Both tables, one after the other. A kernel without IPv6 has no tcp6; without tcp we saw nothing. */
function tablesOf(proc: string, pid: number): Look<string> {
  let text = ''
  for (const table of ['tcp', 'tcp6']) {
    const path = `${proc}/${pid}/net/${table}`
    try {
      text += readFileSync(path, 'latin1')
    } catch (err) {
      const code = errnoOf(err)
      if (table === 'tcp' || code !== 'ENOENT') return { seen: false, why: `cannot read ${path}: ${code}` }
    }
  }
  return { seen: true, value: text }
}

/** Splits what `ip -all netns exec grep …` printed; a namespace that was printed twice counts once. */
export function parseEverywhere(stdout: string): NetListener[] {
  const byName = new Map<string, NetListener[]>()
  for (const part of `\n${stdout}`.split('\nnetns: ').slice(1)) {
    const eol = part.indexOf('\n')
    const name = part.slice(0, eol).trim()
    byName.set(name, listenersOf(name, part.slice(eol + 1)))
  }
  return [...byName.values()].flat()
}

/** An IPv6 socket for an IPv4 address is listed under the IPv4 address. */
function listenersOf(netns: string, tables: string): NetListener[] {
  const plain = (address: string) => address.replace(/^::ffff:(?=\d+\.)/, '')
  return parseTcpTable(tables).map((l) => ({ ...l, netns, address: plain(l.address) }))
}

/** The names under /run/netns that are namespaces; what else lies there is left out. */
export function namespaceNames(p: Pick<Paths, 'netnsDir'>): Look<{ names: string[]; others: string[] }> {
  let entries: string[]
  try {
    entries = readdirSync(p.netnsDir)
  } catch (err) {
    const code = errnoOf(err)
    // `ip netns` makes the directory with the first namespace.
    if (code === 'ENOENT') return { seen: true, value: { names: [], others: [] } }
    return { seen: false, why: `cannot list ${p.netnsDir}: ${code}` }
  }
  const isNetns = (name: string) => {
    const look = lookNetns(p, name)
    return look.seen && look.value.isNamespace
  }
  return { seen: true, value: { names: entries.filter(isNetns), others: entries.filter((n) => !isNetns(n)) } }
}

/**
 * Every listener in every named namespace. A namespace without a process still has listeners (systemd holds
 * a socket unit's from outside), and the kernel shows them only from within, so `ip` goes through them.
 */
export async function listenersEverywhere(
  p: Pick<Paths, 'netnsDir'>,
  deadlineMs = 5000,
): Promise<Look<NetListener[]>> {
  const names = namespaceNames(p)
  if (!names.seen) return names
  if (names.value.names.length === 0) return { seen: true, value: [] }
  // One plain file among them, and `ip -all` (6.1) goes through the rest twice, two files four times.
  if (names.value.others.length > 0) return eachOf(names.value.names, deadlineMs)
  const ran = await run(['ip', '-all', 'netns', 'exec', ...TABLES], { deadlineMs, maxOutput: MAX_OUTPUT })
  if (ran.missing) return { seen: false, why: 'the program ip is missing' }
  if (ran.timedOut) return { seen: false, why: `listeners not listed in ${deadlineMs} ms` }
  const value = parseEverywhere(ran.stdout)
  if (value.length === 0 && ran.stderr.trim() !== '') return { seen: false, why: clean(ran.stderr.trim()) }
  return { seen: true, value }
}

async function eachOf(names: readonly string[], deadlineMs: number): Promise<Look<NetListener[]>> {
  const { mapBounded } = await import('../base/bounded.ts')
  const runs = await mapBounded(names, 16, (n) => run(inNetns(n, TABLES), { deadlineMs }))
  const value = runs.flatMap((ran, i) => listenersOf(names[i] ?? '', ran.stdout))
  // grep: 1 is "nothing listens".
  const failed = runs.find((ran) => ran.code !== 0 && ran.code !== 1)
  if (value.length === 0 && failed !== undefined) {
    return { seen: false, why: clean(failed.stderr.trim()) || 'no listener could be seen' }
  }
  return { seen: true, value }
}

/** The unit in the text of `/proc/<pid>/cgroup`, of cgroup v2 or of v1's `name=systemd` hierarchy. */
export function unitOfCgroup(text: string): string {
  const line = text.split('\n').find((l) => l.startsWith('0::') || l.includes(':name=systemd:'))
  const units = (line ?? '').split('/').filter((part) => /\.(?:service|scope|socket)$/.test(part))
  return clean(units.at(-1) ?? '', 80)
}

/** What is known of one process; `undefined` when it is gone or hidden. */
export function describeProcess(p: ProcPaths, pid: number): SocketOwner | undefined {
  const stat = readStat(p.proc, pid)
  if (stat === undefined) return undefined
  const argv = readArgv(p.proc, pid)
  const [path, first] = argv
  const words = path === undefined ? [stat.comm] : [basename(path), ...(first === undefined ? [] : [first])]
  return {
    pid,
    startTicks: stat.startTicks,
    program: clean(words.join(' '), 60),
    // Gone in this moment: no unit, and whoever acts on it looks again first.
    unit: unitOfCgroup(textOf(`${p.proc}/${pid}/cgroup`) ?? ''),
    browser: argv.some((arg) => arg.startsWith('--user-data-dir=')),
  }
}

/** The inodes of the sockets a process holds; empty when it is gone or hidden. */
export function socketsOf(p: ProcPaths, pid: number): ReadonlySet<number> {
  const held = socketInodes(p.proc, pid)
  return held.seen ? held.value : new Set()
}

function socketInodes(proc: string, pid: number): Look<Set<number>> {
  const dir = `${proc}/${pid}/fd`
  try {
    // One that was closed since the listing has no link any more.
    const inodes = readdirSync(dir).flatMap(
      (fd) => /^socket:\[(\d+)\]$/.exec(linkOf(`${dir}/${fd}`) ?? '')?.[1] ?? [],
    )
    return { seen: true, value: new Set(inodes.map(Number)) }
  } catch (err) {
    return { seen: false, why: `cannot read ${dir}: ${errnoOf(err)}` }
  }
}

/** All the processes that hold each of these sockets. Goes through every process once. */
export function ownersOf(p: ProcPaths, inodes: ReadonlySet<number>): Map<number, SocketOwner[]> {
  const owners = new Map<number, SocketOwner[]>()
  if (inodes.size === 0) return owners
  for (const pid of listPids(p.proc)) {
    const held = [...socketsOf(p, pid)].filter((inode) => inodes.has(inode))
    const owner = held.length === 0 ? undefined : describeProcess(p, pid)
    if (owner === undefined) continue
    for (const inode of held) owners.set(inode, [...(owners.get(inode) ?? []), owner])
  }
  return owners
}
