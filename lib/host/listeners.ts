import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { run } from './exec.ts'
import { parseTcpTable } from './listener.ts'
import { inNetns, lookNetns } from './netns.ts'
import { listPids, readArgv, readStat } from './proc.ts'

/** A listening TCP socket and the namespace it is in. */
export interface NetListener {
  /** Name under /run/netns, or `HOST` (ownership.ts). */
  readonly netns: string
  /** IPv4 text, also when the socket is an IPv6 one for it; `0.0.0.0` or `::` for any. */
  readonly address: string
  readonly port: number
  readonly inode: number
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

/** Listening sockets only (state 0A): a browser's connections would be most of the text. */
const TABLES = ['grep', '-hs', ' 0A ', '/proc/net/tcp', '/proc/net/tcp6'] as const
/** 200 namespaces with a handful of listeners, 150 bytes each, are far below this. */
const MAX_OUTPUT = 16 * 1024 * 1024

/** Splits what `ip -all netns exec grep …` printed; a namespace that was printed twice counts once. */
export function parseEverywhere(stdout: string): NetListener[] {
  const byName = new Map<string, NetListener[]>()
  for (const part of `\n${stdout}`.split('\nnetns: ').slice(1)) {
    const eol = part.indexOf('\n')
    byName.set(part.slice(0, eol).trim(), listenersOf(part.slice(0, eol).trim(), part.slice(eol + 1)))
  }
  return [...byName.values()].flat()
}

function listenersOf(netns: string, tables: string): NetListener[] {
  return parseTcpTable(tables).map((l) => ({
    ...l,
    netns,
    address: l.address.replace(/^::ffff:(?=\d+\.)/, ''),
  }))
}

/** The names under /run/netns that are namespaces; what else lies there is left out. */
export function namespaceNames(p: Pick<Paths, 'netnsDir'>): Look<{ names: string[]; others: string[] }> {
  let entries: string[]
  try {
    entries = readdirSync(p.netnsDir)
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code ?? String(err)
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
  if (ran.timedOut) return { seen: false, why: `listeners not told in ${deadlineMs} ms` }
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
export function describeProcess(p: Pick<Paths, 'proc'>, pid: number): SocketOwner | undefined {
  const stat = readStat(p.proc, pid)
  if (stat === undefined) return undefined
  const argv = readArgv(p.proc, pid)
  let cgroup = ''
  try {
    cgroup = readFileSync(`${p.proc}/${pid}/cgroup`, 'utf8')
  } catch {
    // Gone in this moment: no unit, and whoever acts on it looks again first.
  }
  const [path, first] = argv
  const words = path === undefined ? [stat.comm] : [basename(path), ...(first === undefined ? [] : [first])]
  return {
    pid,
    startTicks: stat.startTicks,
    program: clean(words.join(' '), 60),
    unit: unitOfCgroup(cgroup),
    browser: argv.some((arg) => arg.startsWith('--user-data-dir=')),
  }
}

/** The inodes of the sockets a process holds; empty when it is gone or hidden. */
export function socketsOf(p: Pick<Paths, 'proc'>, pid: number): Set<number> {
  const held = new Set<number>()
  let fds: string[] = []
  try {
    fds = readdirSync(`${p.proc}/${pid}/fd`)
  } catch {
    return held
  }
  for (const fd of fds) {
    try {
      const match = /^socket:\[(\d+)\]$/.exec(readlinkSync(`${p.proc}/${pid}/fd/${fd}`))
      if (match !== null) held.add(Number(match[1]))
    } catch {
      // Closed since it was listed.
    }
  }
  return held
}

/** All the processes that hold each of these sockets. Goes through every process once. */
export function ownersOf(p: Pick<Paths, 'proc'>, inodes: ReadonlySet<number>): Map<number, SocketOwner[]> {
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
