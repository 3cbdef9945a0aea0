import { closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, readlinkSync, writeSync } from 'node:fs'
import { now, wallIso } from '../base/clock.ts'
import { certainMs } from '../base/damping.ts'
import { fromOs, LockedError, NetvmError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { fromJson, integer, record, stamp, text } from '../base/shape.ts'
import { clean, seconds } from '../base/text.ts'
import type { Look, Now } from '../base/types.ts'
import { describe, nextAfter, type RunResult, run, runSync } from '../host/exec.ts'

// flock(2), because the kernel drops it when we die, however we die. Node has no binding: flock(1) locks
// the open file description we pass it, which stays locked with us when flock(1) exits (1.3 ms). Node opens
// files O_CLOEXEC, so no other child inherits the lock and outlives us with it.

/** Who holds a lock. */
export interface Holder {
  readonly pid: number
  /** Start time in clock ticks since boot; with pid and boot id it names one process for ever. */
  readonly startTicks: number
  readonly since: Now
  readonly program: string
  readonly doing: string
  /** True when the process is stopped (SIGSTOP, ^Z, a debugger) and will not release by itself. */
  readonly stopped: boolean
}

export interface Held {
  /** Releases the lock; calling it twice does nothing more. */
  release(): void
}

export interface LockOptions {
  /** Longest wait in milliseconds; 0 means do not wait (a run under a timer). */
  readonly waitMs: number
  /** Told once when a wait begins, so that a person knows what the program waits for. */
  readonly onWait?: (message: string) => void
}

/** flock(1)'s exit code when the lock is held by another; 1 is its default too, but also a usage error. */
const CONFLICT = 75
const TRY_DEADLINE_MS = 5000

/**
 * Runs `fn` while holding the lock `name` (`node-<node>`, `fleet`). Not re-entrant: a second call in the
 * same process waits like any other.
 * @param doing what the lock is held for, in words for whoever is kept waiting
 * @throws LockedError (75) when another holds it past `waitMs`: who, since when, doing what; RootError
 */
export async function withLock<T>(
  p: Paths,
  name: string,
  doing: string,
  opts: LockOptions,
  fn: () => Promise<T> | T,
): Promise<T> {
  const held = await take(p, name, doing, opts)
  try {
    return await fn()
  } finally {
    held.release()
  }
}

/** Takes the lock if it is free now; undefined when another holds it. */
export async function tryLock(p: Paths, name: string, doing: string): Promise<Held | undefined> {
  const fd = open(p, name)
  return settle(fd, () => lockNow(fd, name), p, doing)
}

async function take(p: Paths, name: string, doing: string, opts: LockOptions): Promise<Held> {
  const fd = open(p, name)
  const free = settle(fd, () => lockNow(fd, name), p, doing, opts.waitMs > 0)
  if (free !== undefined) return free
  if (opts.waitMs > 0) {
    opts.onWait?.(`waiting for ${heldBy(p, name)}`)
    const wait = ['flock', '-E', String(CONFLICT), '-w', (opts.waitMs / 1000).toFixed(3), '3']
    const r = await run(wait, { fds: [fd], deadlineMs: opts.waitMs + TRY_DEADLINE_MS })
    const held = settle(fd, () => judge(r, name), p, doing)
    if (held !== undefined) return held
  }
  const by = seenHolder(holder(p, name))
  throw new LockedError(
    heldBy(p, name),
    by,
    by === undefined ? `fuser -v ${lockPath(p, name)}` : `ps -fp ${by.pid}`,
  )
}

/** Turns the answer for an open lock file into a held lock; closes the file when there is none. */
function settle(fd: number, ask: () => boolean, p: Paths, doing: string, keep = false): Held | undefined {
  let got = false
  try {
    got = ask()
  } catch (err) {
    closeSync(fd)
    throw err
  }
  if (!got) {
    if (!keep) closeSync(fd)
    return undefined
  }
  leaveName(fd, p, doing)
  let open = true
  return {
    release() {
      if (!open) return
      open = false
      // First forget who held it, then let go: the next holder's record must not be emptied by us.
      ignoring(() => ftruncateSync(fd, 0))
      closeSync(fd)
    },
  }
}

/**
 * Holds the lock for the time of a short, synchronous `fn`. Never fails for want of the lock: after
 * `waitMs`, or without permission, `fn` runs anyway. For work where doing it twice is better than not at all.
 */
export function besideLock<T>(p: Paths, name: string, waitMs: number, fn: () => T): T {
  let fd: number | undefined
  ignoring(() => {
    fd = open(p, name)
    const wait = ['flock', '-w', (waitMs / 1000).toFixed(3), '3']
    runSync(wait, { fds: [fd], deadlineMs: waitMs + TRY_DEADLINE_MS })
  })
  try {
    return fn()
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function lockNow(fd: number, name: string): boolean {
  return judge(
    runSync(['flock', '-E', String(CONFLICT), '-n', '3'], { fds: [fd], deadlineMs: TRY_DEADLINE_MS }),
    name,
  )
}

function judge(r: RunResult, name: string): boolean {
  if (r.code === 0) return true
  // Killed at its deadline while it waited: the lock is as unavailable as at a conflict.
  if (r.code === CONFLICT || r.timedOut) return false
  const next = r.missing ? nextAfter(r) : 'dmesg | tail -n 20'
  throw new NetvmError(`cannot lock ${name}: ${describe(r, TRY_DEADLINE_MS)}`, {
    exitCode: EXIT.UNKNOWN,
    next,
  })
}

/** 0600: whoever may open the file may also lock it, and keep supervision waiting. */
function open(p: Paths, name: string): number {
  try {
    mkdirSync(p.locks, { recursive: true, mode: 0o755 })
    return openSync(lockPath(p, name), 'a+', 0o600)
  } catch (err) {
    throw fromOs(err)
  }
}

function lockPath(p: Paths, name: string): string {
  return `${p.locks}/${name}.lock`
}

function leaveName(fd: number, p: Paths, doing: string): void {
  const own = readOwn(p, 'self')
  const program = process.argv[1]?.split('/').at(-1) ?? 'node'
  const holder: Omit<Holder, 'stopped'> & { pidNs: string } = {
    pid: process.pid,
    startTicks: own?.startTicks ?? 0,
    since: now(p),
    program: clean([program, ...process.argv.slice(2)].join(' '), 80),
    doing: clean(doing, 120),
    pidNs: pidNamespace(p),
  }
  // The lock is what counts. A full tmpfs only costs the next one the name of the holder.
  ignoring(() => {
    ftruncateSync(fd, 0)
    writeSync(fd, JSON.stringify(holder))
  })
}

/**
 * Who holds the lock now; `undefined` when nobody does or its holder is dead (the kernel has released it
 * then). Looks at the record only and never touches the lock.
 */
export function holder(p: Paths, name: string): Look<Holder | undefined> {
  let json: string
  try {
    json = readFileSync(lockPath(p, name), 'utf8')
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code
    if (code === 'ENOENT') return { seen: true, value: undefined }
    return { seen: false, why: `cannot read ${lockPath(p, name)}: ${code}` }
  }
  const h = fromJson(json, holderRecord)
  if (h === undefined || h.since.bootId !== now(p).bootId) return { seen: true, value: undefined }
  if (h.pidNs !== pidNamespace(p)) return { seen: false, why: 'the holder is in another PID namespace' }
  const live = readOwn(p, String(h.pid))
  if (live === undefined || live.startTicks !== h.startTicks) return { seen: true, value: undefined }
  const { pid, startTicks, since, program, doing } = h
  const stopped = live.state === 'T' || live.state === 't'
  return {
    seen: true,
    value: { pid, startTicks, since, program: clean(program, 80), doing: clean(doing, 120), stopped },
  }
}

const holderRecord = record({
  pid: integer,
  startTicks: integer,
  since: stamp,
  program: text,
  doing: text,
  pidNs: text,
})

/** State and start ticks from /proc/<pid>/stat, split at the last `)`: a program may be called `a) R 1 (b`. */
function readOwn(p: Paths, pid: string): { state: string; startTicks: number } | undefined {
  try {
    const stat = readFileSync(`${p.proc}/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // Fields 3 and 22 of proc(5).
    return { state: fields[0] ?? '', startTicks: Number(fields[19]) }
  } catch {
    return undefined
  }
}

function pidNamespace(p: Paths): string {
  try {
    return readlinkSync(`${p.proc}/self/ns/pid`)
  } catch {
    return ''
  }
}

/** One sentence: which lock, who holds it, for how long, doing what. */
export function heldBy(p: Paths, name: string): string {
  const look = holder(p, name)
  if (!look.seen) return `the lock ${name}, held by a process that cannot be seen from here: ${look.why}`
  const h = look.value
  if (h === undefined) return `the lock ${name}, held by a process that left no name`
  const age = seconds(certainMs(h.since, now(p)))
  const state = h.stopped ? ', STOPPED: it will not finish by itself' : ''
  return `the lock ${name}, held by ${h.program} (pid ${h.pid}${state}) since ${wallIso(h.since.wallMs)} (${age}): ${h.doing}`
}

function seenHolder(look: Look<Holder | undefined>): Holder | undefined {
  return look.seen ? look.value : undefined
}

function ignoring(fn: () => void): void {
  try {
    fn()
  } catch {}
}
