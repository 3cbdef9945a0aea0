import { errnoOf, linkOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import type { Look } from '../base/types.ts'
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

/** The profiles that a browser's main process was started with; none of its children, which have a `--type=`. */
function profilesOf(argv: readonly string[]): string[] {
  if (argv.some((arg) => arg.startsWith('--type='))) return []
  return argv.slice(1).flatMap((arg) => (arg.startsWith(OPTION) ? [arg.slice(OPTION.length)] : []))
}

/**
 * Every process that was started as the browser of a profile below the directory of all profiles, in one pass.
 * Wrappers are among them, and whoever started something else with these arguments.
 * @returns the profile's path below that directory
 * @throws the file system's error when the process table cannot be listed
 */
export function startedAsBrowsers(p: Pick<Paths, 'proc' | 'profiles'>): { pid: number; profile: string }[] {
  const below = `${p.profiles}/`
  return processesWith(p.proc, `${OPTION}${below}`).found.flatMap(({ pid, argv }) =>
    profilesOf(argv).flatMap((dir) =>
      dir.startsWith(below) ? [{ pid, profile: dir.slice(below.length) }] : [],
    ),
  )
}

/**
 * The main browser processes of a profile: the exact argument `--user-data-dir=<dir>`, no `--type=`
 * (children have one), no zombie, never this process or one it descends from, and of two where one is
 * the other's ancestor only the descendant (the ancestor is a wrapper: sudo, timeout, strace). None found counts
 * only when every process could be seen: "cannot see" is not "no process".
 */
export function findBrowsers({ proc }: Pick<Paths, 'proc'>, profileDir: string): Look<MainProcess[]> {
  const scan = scanProfile(proc, `${OPTION}${profileDir}`, (argv) => profilesOf(argv).includes(profileDir))
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
    (argv) => !profilesOf(argv).includes(profileDir) && argv.some((arg) => namesProfile(arg, value)),
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
  accept: (argv: readonly string[]) => boolean,
): Look<{ readonly pid: number; readonly stat: ProcStat }[]> {
  let all: ReturnType<typeof processesWith>
  try {
    all = processesWith(proc, text)
  } catch (err) {
    return { seen: false, why: `cannot list ${proc}: ${errnoOf(err)}` }
  }
  const above = new Set(ancestors(proc, 'self'))
  const hits = all.found.flatMap(({ pid, argv }) => {
    if (above.has(pid) || !accept(argv) || isShell(proc, { pid, argv })) return []
    const stat = readRunning(proc, pid)
    return stat === undefined ? [] : [{ pid, stat }]
  })
  if (hits.length > 0) return { seen: true, value: hits }
  if (all.hidden !== undefined) return { seen: false, why: all.hidden }
  const sight = canSeeAll(proc)
  return sight.seen ? { seen: true, value: [] } : sight
}

/** Another user's program is not readable without privilege; then argv[0] has to do. */
function isShell(proc: string, { pid, argv }: Argv): boolean {
  const program = linkOf(`${proc}/${pid}/exe`)?.replace(/ \(deleted\)$/, '') ?? argv[0] ?? ''
  return SHELLS.has(program.slice(program.lastIndexOf('/') + 1).replace(/^-/, ''))
}
