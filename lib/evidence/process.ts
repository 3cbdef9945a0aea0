import { readFileSync, readlinkSync } from 'node:fs'
import { type Paths, profileDir } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import type { MainProcess } from '../browser/types.ts'
import { lookNetns } from '../host/netns.ts'
import { ageMs, listPids, netnsInode, readArgv, readStat, readUptime } from '../host/proc.ts'
import type { Sight } from './sight.ts'
import type { LiveFacts } from './types.ts'

interface Candidate {
  readonly pid: number
  readonly node: string
}

/** Main browser processes of any profile: one pass over /proc serves every node. */
function candidates(p: Paths): Candidate[] {
  const prefix = `--user-data-dir=${p.profiles}/`
  const own = Number(readlinkOr(`${p.proc}/self`) ?? process.pid)
  const found: Candidate[] = []
  for (const pid of listPids(p.proc)) {
    if (pid === own) continue
    const argv = readArgv(p.proc, pid)
    if (argv.length < 2 || argv.some((a) => a.startsWith('--type='))) continue
    for (const arg of argv.slice(1))
      if (arg.startsWith(prefix)) found.push({ pid, node: arg.slice(prefix.length) })
  }
  return found
}

/**
 * Is this process the node's, and not one that a user started with the same arguments? With the right to
 * read namespaces the namespace decides. Without it the cgroup does: a user cannot get a process into
 * the unit's cgroup below the system slice. (The uid would not do: in a user namespace all look alike.)
 */
export function isOurs(p: Paths, node: string, pid: number, netns: number | undefined): boolean {
  const inside = netns === undefined ? undefined : netnsInode(p.proc, pid)
  if (inside?.seen) return inside.value === netns
  return inUnit(readOr(`${p.proc}/${pid}/cgroup`) ?? '', `chromebox@${node}.service`)
}

/** Whether a /proc/<pid>/cgroup names the system's unit of this name (a user's manager has units of any name). */
export function inUnit(cgroup: string, unit: string): boolean {
  return cgroup.split('\n').some((line) => {
    const path = line.split(':').slice(2).join(':')
    const parts = path.split('/')
    const user = parts.some((s) => s === 'user.slice' || s.startsWith('user-') || s.startsWith('user@'))
    return !user && parts.includes('system.slice') && parts.includes(unit)
  })
}

/** Per node whether its browser's main process runs, or why that cannot be known. */
export function lookForBrowsers(
  p: Paths,
  nodes: readonly Node[],
  sight: Pick<Sight, 'processes' | 'absenceCounts'>,
): ReadonlyMap<string, LiveFacts['process']> {
  const out = new Map<string, LiveFacts['process']>()
  let found: Candidate[] = []
  let why = sight.processes.seen ? '' : sight.processes.why
  if (sight.processes.seen)
    try {
      found = candidates(p)
    } catch {
      why = `cannot list ${p.proc}`
    }
  const uptime = readUptime(p.proc) ?? 0
  for (const node of nodes) {
    if (why !== '') {
      out.set(node.name, { seen: false, why })
      continue
    }
    const ns = lookNetns(p, node.netns)
    const netns = ns.seen ? ns.value.inode : undefined
    const dir = profileDir(p, node.name).slice(p.profiles.length + 1)
    let main: MainProcess | undefined
    for (const { pid } of found.filter((c) => c.node === dir)) {
      const stat = readStat(p.proc, pid)
      if (stat === undefined || stat.state === 'Z' || stat.state === 'X') continue
      if (!isOurs(p, node.name, pid, netns)) continue
      const { startTicks, state } = stat
      // Of two the oldest, as the watchdog has it.
      if (main === undefined || startTicks < main.startTicks)
        main = { pid, startTicks, ageMs: ageMs(startTicks, uptime), state }
    }
    out.set(
      node.name,
      main !== undefined || sight.absenceCounts
        ? { seen: true, value: main }
        : { seen: false, why: 'not found, and no receipt says which PID namespace is the host’s' },
    )
  }
  return out
}

function readOr(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function readlinkOr(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}
