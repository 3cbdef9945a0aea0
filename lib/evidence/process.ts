import { attempt } from '../base/attempt.ts'
import { textOf } from '../base/files.ts'
import { type Paths, profileDir } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { mainProcess, startedAsBrowsers } from '../browser/processes.ts'
import { netnsInode } from '../host/netns.ts'
import { namespaceOf, readRunning, readUptime } from '../host/proc.ts'
import { hostsUnknown, type Sight } from './sight.ts'
import type { LiveFacts } from './types.ts'

/**
 * Is this process the node's, and not one that a user started with the same arguments? With the right to
 * read namespaces the namespace decides. Without it the cgroup does: a user cannot get a process into
 * the unit's cgroup below the system slice. (The uid would not do: in a user namespace all look alike.)
 */
export function isOurs(p: Paths, node: string, pid: number, netns: number | undefined): boolean {
  const inside = netns === undefined ? undefined : namespaceOf(p.proc, pid)
  if (inside !== undefined) return inside === netns
  return runsIn(p, pid, `chromebox@${node}.service`)
}

/** Whether systemd has a process in the system's unit of this name. */
export function runsIn(p: Pick<Paths, 'proc'>, pid: number, unit: string): boolean {
  return inUnit(textOf(`${p.proc}/${pid}/cgroup`) ?? '', unit)
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

const NOT_FOUND = { seen: false, why: `not found, and ${hostsUnknown('PID')}` } as const

/** Per node whether its browser's main process runs, or why that cannot be known. */
export function lookForBrowsers(
  p: Paths,
  nodes: readonly Node[],
  sight: Pick<Sight, 'processes' | 'absenceCounts'>,
): ReadonlyMap<string, LiveFacts['process']> {
  const { proc } = p
  const unseen = (why: string) => new Map(nodes.map(({ name }) => [name, { seen: false, why } as const]))
  if (!sight.processes.seen) return unseen(sight.processes.why)
  const started = attempt(() => startedAsBrowsers(p))
  if (started === undefined) return unseen(`cannot list ${proc}`)
  const uptime = readUptime(proc) ?? 0
  return new Map(
    nodes.map(({ name, netns }) => {
      const inode = netnsInode(p, netns)
      const profile = profileDir(p, name).slice(p.profiles.length + 1)
      const mains = started.flatMap(({ pid, profile: of }) => {
        const stat = of === profile ? readRunning(proc, pid) : undefined
        return stat !== undefined && isOurs(p, name, pid, inode) ? [mainProcess(pid, stat, uptime)] : []
      })
      // Of two the oldest, as the watchdog has it.
      const [value] = mains.sort((a, b) => a.startTicks - b.startTicks)
      return [name, value !== undefined || sight.absenceCounts ? { seen: true, value } : NOT_FOUND]
    }),
  )
}
