import { realpathSync } from 'node:fs'
import { attempt } from '../base/attempt.ts'
import { errnoOf, linkOf, textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import type { Look } from '../base/types.ts'
import { unitOfCgroup } from '../host/listeners.ts'
import {
  type Argv,
  ageMs,
  ancestors,
  canSeeAll,
  type ProcStat,
  processesWith,
  readRunning,
  readUptime,
} from '../host/proc.ts'
import type { MainProcess } from './types.ts'

/** A process that still holds a profile without being its browser: crash handler, orphaned child. */
export interface Leftover {
  readonly pid: number
  readonly startTicks: number
  readonly comm: string
}

const OPTION = '--user-data-dir='
/** A shell that was handed the browser's arguments is a wrapper, never the browser itself. */
const SHELLS = new Set(['sh', 'ash', 'bash', 'busybox', 'dash', 'fish', 'ksh', 'mksh', 'zsh'])

/** Chromium and Chrome by the names of their programs; an upgrade renames the old one (`chromium.dpkg-tmp`). */
const BROWSER = /^(?:chrom(?:e|ium)|google-chrome|headless[_-]shell)/

type Programs = Pick<Paths, 'proc'> & Partial<Pick<Paths, 'browser'>>

/** The profiles that a browser's main process was started with; none of its children, which have a `--type=`. */
function profilesOf(argv: readonly string[]): string[] {
  if (argv.some((arg) => arg.startsWith('--type='))) return []
  return argv.slice(1).flatMap((arg) => (arg.startsWith(OPTION) ? [arg.slice(OPTION.length)] : []))
}

/**
 * Every process that was started as the browser of a profile below the directory of all profiles, in one pass.
 * @returns the profile's path below that directory
 * @throws the file system's error when the process table cannot be listed
 */
export function startedAsBrowsers(p: Programs & Pick<Paths, 'profiles'>): { pid: number; profile: string }[] {
  const below = `${p.profiles}/`
  return processesWith(p.proc, `${OPTION}${below}`).found.flatMap(({ pid, argv }) => {
    const dirs = profilesOf(argv).filter((dir) => dir.startsWith(below))
    // Whose program it is costs a link, so it is asked of the few that have the option.
    return dirs.length > 0 && isBrowser(p, { pid, argv })
      ? dirs.map((dir) => ({ pid, profile: dir.slice(below.length) }))
      : []
  })
}

/**
 * The main browser processes of a profile: the exact argument `--user-data-dir=<dir>`, no `--type=`
 * (children have one), a browser's program, no zombie, never this process or one it descends from, and of two where one is
 * the other's ancestor only the descendant (the ancestor is a wrapper: sudo, timeout, strace). None found counts
 * only when every process could be seen: "cannot see" is not "no process".
 */
export function findBrowsers(p: Programs, profileDir: string): Look<MainProcess[]> {
  const { proc } = p
  const scan = scanProfile(
    proc,
    `${OPTION}${profileDir}`,
    (found) => profilesOf(found.argv).includes(profileDir) && isBrowser(p, found),
  )
  if (!scan.seen || scan.value.length === 0) return scan as Look<never[]>
  const uptime = readUptime(proc)
  if (uptime === undefined) return { seen: false, why: `cannot read ${proc}/uptime` }
  const wrappers = new Set(scan.value.flatMap(({ pid }) => ancestors(proc, pid)))
  const browsers = scan.value.filter(({ pid }) => !wrappers.has(pid))
  return { seen: true, value: browsers.map(({ pid, stat }) => mainProcess(pid, stat, uptime)) }
}

/** @param uptime seconds since boot */
export function mainProcess(pid: number, { startTicks, state }: ProcStat, uptime: number): MainProcess {
  return { pid, startTicks, ageMs: ageMs(startTicks, uptime), state }
}

/**
 * What is left of a profile besides its browser: processes with an option whose value is the profile or a
 * path in it (`--database=<dir>/…` of the crash handler, `--user-data-dir=<dir>` of an orphaned child). A
 * file name without an option (an editor with the profile's log open) is none.
 */
export function profileLeftovers({ proc }: Pick<Paths, 'proc'>, profileDir: string): Look<Leftover[]> {
  const value = `=${profileDir}`
  // Children forked from the zygote have all their arguments in one string, separated by spaces.
  const scan = scanProfile(
    proc,
    value,
    ({ argv }) => !profilesOf(argv).includes(profileDir) && argv.some((arg) => namesProfile(arg, value)),
  )
  if (!scan.seen) return scan
  const leftovers = scan.value.map(({ pid, stat }) => ({ pid, startTicks: stat.startTicks, comm: stat.comm }))
  return { seen: true, value: leftovers }
}

function namesProfile(arg: string, value: string): boolean {
  for (let at = arg.indexOf(value); at >= 0; at = arg.indexOf(value, at + 1)) {
    const after = arg[at + value.length]
    if (after !== undefined && after !== '/' && after !== ' ') continue
    if (/(^| )--[A-Za-z0-9-]+$/.test(arg.slice(0, at))) return true
  }
  return false
}

/** Living processes whose command line holds `text` and whose arguments pass `accept`. */
function scanProfile(
  proc: string,
  text: string,
  accept: (found: Argv) => boolean,
): Look<{ readonly pid: number; readonly stat: ProcStat }[]> {
  let all: ReturnType<typeof processesWith>
  try {
    all = processesWith(proc, text)
  } catch (err) {
    return { seen: false, why: `cannot list ${proc}: ${errnoOf(err)}` }
  }
  const above = new Set(ancestors(proc, 'self'))
  const hits = all.found.flatMap((found) => {
    const { pid } = found
    if (above.has(pid) || !accept(found) || SHELLS.has(programOf(proc, found).name)) return []
    const stat = readRunning(proc, pid)
    return stat === undefined ? [] : [{ pid, stat }]
  })
  if (hits.length > 0) return { seen: true, value: hits }
  if (all.hidden !== undefined) return { seen: false, why: all.hidden }
  const sight = canSeeAll(proc)
  return sight.seen ? { seen: true, value: [] } : sight
}

/**
 * Whether a process runs a browser: by the name of its program, as the one that is installed, or because systemd started
 * it as a node's browser, whatever that is. The profile alone is an argument that anybody may give.
 */
export function isBrowser(p: Programs, found: Argv): boolean {
  const { path, name } = programOf(p.proc, found)
  if (BROWSER.test(name)) return true
  if (SHELLS.has(name)) return false
  if (p.browser !== undefined && path === attempt(() => realpathSync(p.browser ?? ''))) return true
  return unitOfCgroup(textOf(`${p.proc}/${found.pid}/cgroup`) ?? '').startsWith('chromebox@')
}

/** Another user's program is not readable without privilege; then argv[0] has to do. */
function programOf(proc: string, { pid, argv }: Argv): { path: string; name: string } {
  const path = linkOf(`${proc}/${pid}/exe`)?.replace(/ \(deleted\)$/, '') ?? argv[0] ?? ''
  return { path, name: path.slice(path.lastIndexOf('/') + 1).replace(/^-/, '') }
}
