import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { errnoOf, linkOf } from '../base/files.ts'
import type { Look } from '../base/types.ts'

export interface ProcStat {
  /** The kernel's name of the process, cut at 15 characters; it may hold spaces and parentheses. */
  readonly comm: string
  /** One letter of proc(5): R, S, D, T, Z... */
  readonly state: string
  readonly ppid: number
  /** Clock ticks after boot at which the process started; with the pid it names one process of this boot. */
  readonly startTicks: number
}

/** USER_HZ, the unit of `starttime`: 100 on every architecture that Debian's Node 20 runs on. */
const MS_PER_TICK = 10
/** PROC_PID_INIT_INO of include/linux/proc_ns.h: the inode of the machine's first PID namespace. */
const INITIAL_PID_NS = 4026531836
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
export function readStat(proc: string, pid: number | 'self'): ProcStat | undefined {
  const raw = slurp(`${proc}/${pid}/stat`)
  return typeof raw === 'string' ? undefined : parseStat(raw.toString('latin1'))
}

/** The same of a process that runs: undefined for a dead one and a zombie too. */
export function readRunning(proc: string, pid: number): ProcStat | undefined {
  const stat = readStat(proc, pid)
  return stat?.state === 'Z' || stat?.state === 'X' ? undefined : stat
}

/** Sends a signal. @returns the name of the error; none when it was sent, or the process has ended */
export function signal(pid: number, name: NodeJS.Signals): string | undefined {
  try {
    process.kill(pid, name)
    return undefined
  } catch (err) {
    return errnoOf(err) === 'ESRCH' ? undefined : errnoOf(err)
  }
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

/**
 * The inode of the namespace a process runs in, of its network by default. Undefined when that cannot be read: it
 * needs the right to trace the process (PTRACE_MODE_READ).
 */
export function namespaceOf(
  proc: string,
  pid: number | 'self',
  kind: 'net' | 'pid' = 'net',
): number | undefined {
  const inode = Number(/^\w+:\[(\d+)\]$/.exec(linkOf(`${proc}/${pid}/ns/${kind}`) ?? '')?.[1])
  return Number.isSafeInteger(inode) ? inode : undefined
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
  const self = selfPid(proc)
  if (self === undefined)
    return { seen: false, why: `${proc} does not show this process: another PID namespace` }
  const argv = slurp(`${proc}/1/cmdline`)
  if (typeof argv === 'string') return { seen: false, why: `processes of others are hidden: pid 1: ${argv}` }
  const comm = readStat(proc, 1)?.comm ?? 'unreadable'
  if (comm === 'systemd' || comm === 'init') return { seen: true, value: true }
  if (namespaceOf(proc, self, 'pid') === INITIAL_PID_NS) return { seen: true, value: true }
  return { seen: false, why: `pid 1 is ${comm}, not systemd: another PID namespace than the host's` }
}

/** A process and its argument vector. */
export interface Argv {
  readonly pid: number
  readonly argv: readonly string[]
}

/**
 * Every other process whose command line contains `text`, in one pass. `hidden` says why the first of those
 * could not be read that may contain it too.
 * @throws the file system's error when `proc` cannot be listed
 */
export function processesWith(proc: string, text: string): { found: Argv[]; hidden?: string } {
  const needle = Buffer.from(text, 'utf8')
  const own = selfPid(proc)
  const found: Argv[] = []
  let hidden: string | undefined
  for (const pid of listPids(proc)) {
    if (pid === own) continue
    const raw = slurp(`${proc}/${pid}/cmdline`)
    if (typeof raw === 'string') {
      if (raw !== 'ENOENT' && raw !== 'ESRCH') hidden ??= `cannot read the arguments of pid ${pid}: ${raw}`
    } else if (raw.indexOf(needle) >= 0) found.push({ pid, argv: splitArgv(raw) })
  }
  return { found, ...(hidden === undefined ? {} : { hidden }) }
}

/** The pid under which `proc` lists this process; undefined in a table that does not. */
function selfPid(proc: string): number | undefined {
  const pid = Number(linkOf(`${proc}/self`) ?? Number.NaN)
  return Number.isInteger(pid) ? pid : undefined
}

/** The pids of a process's ancestors, nearest first. */
export function ancestors(proc: string, pid: number | 'self'): number[] {
  const line: number[] = []
  // The bound only ends a loop that a changing process table could make.
  for (let at = readStat(proc, pid)?.ppid ?? 0; at > 0 && line.length < 64; ) {
    line.push(at)
    at = readStat(proc, at)?.ppid ?? 0
  }
  return line
}

function splitArgv(raw: Buffer): string[] {
  if (raw.length === 0) return []
  const text = raw.toString('utf8')
  return (text.endsWith('\0') ? text.slice(0, -1) : text).split('\0')
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
    return errnoOf(err)
  }
  try {
    const n = readSync(fd, page, 0, page.length, 0)
    return n < page.length ? page.subarray(0, n) : readFileSync(path)
  } catch (err) {
    return errnoOf(err)
  } finally {
    closeSync(fd)
  }
}
