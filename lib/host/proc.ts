import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import type { Paths } from '../base/paths.ts'
import type { Look } from '../base/types.ts'

type ProcPaths = Pick<Paths, 'proc'>

export interface ProcStat {
  /** The kernel's name of the process, cut at 15 characters; it may hold spaces and parentheses. */
  readonly comm: string
  /** One letter of proc(5): R, S, D, T, Z... */
  readonly state: string
  readonly ppid: number
  /** Clock ticks after boot at which the process started; with the pid it names one process of this boot. */
  readonly startTicks: number
}

export interface BrowserProcess {
  readonly pid: number
  readonly startTicks: number
  readonly ageMs: number
  readonly state: string
  /** Whether it runs in the namespace that was asked for; undefined when none was, or it cannot be read. */
  readonly inNetns: boolean | undefined
}

/** A process that still holds a profile without being its browser: crash handler, orphaned child. */
export interface Leftover {
  readonly pid: number
  readonly startTicks: number
  readonly comm: string
}

/** USER_HZ, the unit of `starttime`: 100 on every architecture that Debian's Node 20 runs on. */
const MS_PER_TICK = 10
/** PROC_PID_INIT_INO of include/linux/proc_ns.h: the inode of the machine's first PID namespace. */
const INITIAL_PID_NS = 'pid:[4026531836]'
/** A shell that was handed the browser's arguments is a wrapper, never the browser itself. */
const SHELLS = new Set(['sh', 'ash', 'bash', 'busybox', 'dash', 'fish', 'ksh', 'mksh', 'zsh'])

/** The pids that `proc` lists, ascending. Throws when `proc` cannot be listed at all. */
export function listPids(proc: string): number[] {
  const pids: number[] = []
  for (const name of readdirSync(proc)) {
    const first = name.charCodeAt(0)
    if (first >= 49 && first <= 57) {
      const pid = Number(name)
      if (Number.isSafeInteger(pid)) pids.push(pid)
    }
  }
  return pids.sort((a, b) => a - b)
}

/** Reads `/proc/<pid>/stat`; undefined when the process is gone or hidden, or the line is not one. */
export function readStat(proc: string, pid: number): ProcStat | undefined {
  const raw = slurp(`${proc}/${pid}/stat`)
  return typeof raw === 'string' ? undefined : parseStat(raw.toString('latin1'))
}

/** Parses one line of proc(5) stat. The name may be `a) R 1 (b`, so the fields start after the last `)`. */
export function parseStat(line: string): ProcStat | undefined {
  const open = line.indexOf('(')
  const close = line.lastIndexOf(')')
  if (open < 0 || close < open) return undefined
  const fields = line.slice(close + 2).split(' ')
  const state = fields[0] ?? ''
  const ppid = Number(fields[1])
  const startTicks = Number(fields[19])
  if (!/^[A-Za-z]$/.test(state) || !Number.isInteger(ppid) || !Number.isInteger(startTicks)) return undefined
  return { comm: line.slice(open + 1, close), state, ppid, startTicks }
}

/** The argument vector of a process; empty for a zombie, a kernel thread, a gone or a hidden process. */
export function readArgv(proc: string, pid: number): string[] {
  const raw = slurp(`${proc}/${pid}/cmdline`)
  return typeof raw === 'string' ? [] : splitArgv(raw)
}

/** The inode of the network namespace a process runs in. Needs the right to trace it (PTRACE_MODE_READ). */
export function netnsInode(proc: string, pid: number): Look<number> {
  try {
    const target = readlinkSync(`${proc}/${pid}/ns/net`)
    const inode = Number(/^net:\[(\d+)\]$/.exec(target)?.[1])
    if (Number.isSafeInteger(inode)) return { seen: true, value: inode }
    return { seen: false, why: `${proc}/${pid}/ns/net is not a namespace link` }
  } catch (err) {
    return { seen: false, why: `cannot read the network namespace of pid ${pid}: ${errno(err)}` }
  }
}

/** Milliseconds a process has run, from its start ticks and the uptime in seconds; never negative. */
export function ageMs(startTicks: number, uptimeSeconds: number): number {
  return Math.max(0, Math.round(uptimeSeconds * 1000 - startTicks * MS_PER_TICK))
}

/** Seconds since boot of `<proc>/uptime`, suspend included; undefined when it cannot be read. */
export function readUptime(proc: string): number | undefined {
  const raw = slurp(`${proc}/uptime`)
  const seconds = typeof raw === 'string' ? Number.NaN : Number.parseFloat(raw.toString('latin1'))
  return Number.isFinite(seconds) ? seconds : undefined
}

/**
 * Whether a process that is not listed is really not there. The right to see is found by trying: pid 1
 * belongs to root, so a shell that `hidepid` keeps out cannot read it, whatever its uid says. In a PID
 * namespace of its own a shell sees some other program as pid 1, and none of the host's processes.
 */
export function canSeeAll(proc: string): Look<true> {
  let self: string
  try {
    self = readlinkSync(`${proc}/self`)
  } catch (err) {
    return { seen: false, why: `${proc} does not show this process (${errno(err)}): another PID namespace` }
  }
  const argv = slurp(`${proc}/1/cmdline`)
  if (typeof argv === 'string') return { seen: false, why: `processes of others are hidden: pid 1: ${argv}` }
  const comm = readStat(proc, 1)?.comm ?? 'unreadable'
  if (comm === 'systemd' || comm === 'init') return { seen: true, value: true }
  try {
    if (readlinkSync(`${proc}/${self}/ns/pid`) === INITIAL_PID_NS) return { seen: true, value: true }
  } catch {
    // Not knowing is the answer below.
  }
  return { seen: false, why: `pid 1 is ${comm}, not systemd: another PID namespace than the host's` }
}

/**
 * The main browser processes of a profile: the exact argument `--user-data-dir=<dir>`, no `--type=`
 * (children have one), no zombie, never this process or one it descends from, and of two where one is
 * the other's ancestor only the descendant (the ancestor is a wrapper: sudo, timeout, strace). With
 * `netns` each says whether it runs there; a browser outside is listed too. None found counts only when
 * every process could be seen: "cannot see" is not "no process".
 */
export function findBrowsers(
  p: ProcPaths,
  node: { readonly profileDir: string },
  netns?: number,
): Look<BrowserProcess[]> {
  const token = `--user-data-dir=${node.profileDir}`
  const scan = scanProfile(p.proc, Buffer.from(token, 'utf8'), (argv) => {
    return argv.includes(token, 1) && !argv.some((arg) => arg.startsWith('--type='))
  })
  if (!scan.seen) return scan
  const uptime = readUptime(p.proc)
  if (scan.value.length > 0 && uptime === undefined)
    return { seen: false, why: `cannot read ${p.proc}/uptime` }
  const wrappers = new Set(scan.value.flatMap(({ pid }) => ancestors(p.proc, pid)))
  const browsers = scan.value
    .filter(({ pid }) => !wrappers.has(pid))
    .map(({ pid, stat }) => {
      const ns = netns === undefined ? undefined : netnsInode(p.proc, pid)
      const inNetns = ns?.seen ? ns.value === netns : undefined
      const age = ageMs(stat.startTicks, uptime ?? 0)
      return { pid, startTicks: stat.startTicks, ageMs: age, state: stat.state, inNetns }
    })
  return { seen: true, value: browsers }
}

/**
 * What is left of a profile besides its browser: processes with an option whose value is the profile or a
 * path in it (`--database=<dir>/…` of the crash handler, `--user-data-dir=<dir>` of an orphaned child). A
 * file name without an option (an editor with the profile's log open) is none.
 */
export function profileLeftovers(p: ProcPaths, node: { readonly profileDir: string }): Look<Leftover[]> {
  const value = `=${node.profileDir}`
  const main = `--user-data-dir=${node.profileDir}`
  const scan = scanProfile(p.proc, Buffer.from(value, 'utf8'), (argv) => {
    const isMain = argv.includes(main) && !argv.some((arg) => arg.startsWith('--type='))
    // Children forked from the zygote have all their arguments in one string, parted by spaces.
    return !isMain && argv.some((arg) => namesProfile(arg, value))
  })
  if (!scan.seen) return scan
  return {
    seen: true,
    value: scan.value.map(({ pid, stat }) => ({ pid, startTicks: stat.startTicks, comm: stat.comm })),
  }
}

function namesProfile(arg: string, value: string): boolean {
  for (let at = arg.indexOf(value); at >= 0; at = arg.indexOf(value, at + 1)) {
    const after = arg[at + value.length]
    if (after !== undefined && after !== '/' && after !== ' ') continue
    if (/(^| )--[A-Za-z0-9-]+$/.test(arg.slice(0, at))) return true
  }
  return false
}

type Hit = { readonly pid: number; readonly stat: ProcStat }

/** Processes whose raw command line holds `needle` and whose arguments pass `accept`. */
function scanProfile(proc: string, needle: Buffer, accept: (argv: string[]) => boolean): Look<Hit[]> {
  let pids: number[]
  try {
    pids = listPids(proc)
  } catch (err) {
    return { seen: false, why: `cannot list ${proc}: ${errno(err)}` }
  }
  const own = selfPid(proc)
  const never = new Set(own === undefined ? [] : [own, ...ancestors(proc, own)])
  const hits: Hit[] = []
  let hidden = ''
  for (const pid of pids) {
    if (never.has(pid)) continue
    const raw = slurp(`${proc}/${pid}/cmdline`)
    if (typeof raw === 'string') {
      if (raw !== 'ENOENT' && raw !== 'ESRCH') hidden ||= `cannot read the arguments of pid ${pid}: ${raw}`
      continue
    }
    if (raw.indexOf(needle) < 0) continue
    const argv = splitArgv(raw)
    if (!accept(argv) || isShell(proc, pid, argv)) continue
    const stat = readStat(proc, pid)
    if (stat === undefined || stat.state === 'Z' || stat.state === 'X') continue
    hits.push({ pid, stat })
  }
  if (hits.length > 0) return { seen: true, value: hits }
  if (hidden !== '') return { seen: false, why: hidden }
  const all = canSeeAll(proc)
  return all.seen ? { seen: true, value: [] } : all
}

function selfPid(proc: string): number | undefined {
  try {
    const pid = Number(readlinkSync(`${proc}/self`))
    return Number.isInteger(pid) ? pid : undefined
  } catch {
    return undefined
  }
}

function ancestors(proc: string, pid: number): number[] {
  const line: number[] = []
  // The bound only ends a loop that a changing process table could make.
  for (let at = readStat(proc, pid)?.ppid ?? 0; at > 0 && line.length < 64; ) {
    line.push(at)
    at = readStat(proc, at)?.ppid ?? 0
  }
  return line
}

function isShell(proc: string, pid: number, argv: readonly string[]): boolean {
  let program = argv[0] ?? ''
  try {
    program = readlinkSync(`${proc}/${pid}/exe`).replace(/ \(deleted\)$/, '')
  } catch {
    // Another user's program is not readable without privilege; then argv[0] has to do.
  }
  return SHELLS.has(program.slice(program.lastIndexOf('/') + 1).replace(/^-/, ''))
}

function splitArgv(raw: Buffer): string[] {
  if (raw.length === 0) return []
  const text = raw.toString('utf8')
  return (text.endsWith('\0') ? text.slice(0, -1) : text).split('\0')
}

function errno(err: unknown): string {
  return (err as NodeJS.ErrnoException).code ?? String(err)
}

const page = Buffer.allocUnsafe(16_384)

/**
 * A whole small file, or the errno's name. Into one shared buffer, because a healthy run reads hundreds
 * of command lines: the result is valid until the next call.
 */
function slurp(path: string): Buffer | string {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (err) {
    return errno(err)
  }
  try {
    const n = readSync(fd, page, 0, page.length, 0)
    return n < page.length ? page.subarray(0, n) : readFileSync(path)
  } catch (err) {
    return errno(err)
  } finally {
    closeSync(fd)
  }
}
