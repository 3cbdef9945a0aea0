import { closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs'
import { attempt } from '../base/attempt.ts'
import { now, wallIso } from '../base/clock.ts'
import { certainMs } from '../base/damping.ts'
import { fromOs, LockedError } from '../base/errors.ts'
import { errnoOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { fromJson, integer, record, stamp, text } from '../base/shape.ts'
import { clean, seconds } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { tryFlock, waitFlock } from './flock.ts'
import { isStopped, lookAtProcess, ownCommand, ownName } from './process-name.ts'

const holderRecord = record({
  pid: integer,
  startTicks: integer,
  pidNs: text,
  since: stamp,
  program: text,
  doing: text,
})

/** Who holds a lock. `stopped`: it will not release it until somebody continues it. */
export type Holder = Omit<ReturnType<typeof holderRecord>, 'pidNs'> & { readonly stopped: boolean }

export interface Held {
  /** Releases the lock; calling it twice does nothing more. */
  release(): void
}

interface LockOptions {
  /** Longest wait in milliseconds; 0 means do not wait (a run under a timer). */
  readonly waitMs: number
  /** Called once when a wait begins, so that a person knows what the program waits for. */
  readonly onWait?: (message: string) => void
}

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
  const held = await take(p, name, doing, async (fd) => {
    if (tryFlock(fd)) return true
    if (opts.waitMs <= 0) return false
    opts.onWait?.(`waiting for ${heldBy(p, name)}`)
    return waitFlock(fd, 'exclusive', opts.waitMs).locked
  })
  if (held === undefined) {
    const look = holder(p, name)
    const by = look.seen ? look.value : undefined
    const next = by === undefined ? `fuser -v ${lockPath(p, name)}` : `ps -fp ${by.pid}`
    throw new LockedError(heldBy(p, name), by, next)
  }
  try {
    return await fn()
  } finally {
    held.release()
  }
}

/** Takes the lock if it is free now; undefined when another holds it. */
export function tryLock(p: Paths, name: string, doing: string): Promise<Held | undefined> {
  return take(p, name, doing, async (fd) => tryFlock(fd))
}

async function take(
  p: Paths,
  name: string,
  doing: string,
  lock: (fd: number) => Promise<boolean>,
): Promise<Held | undefined> {
  const fd = openLock(p, name)
  let open = true
  const close = () => {
    if (open) closeSync(fd)
    open = false
  }
  let locked = false
  try {
    locked = await lock(fd)
  } finally {
    if (!locked) close()
  }
  if (!locked) return undefined
  leaveName(fd, p, doing)
  return {
    release() {
      // First forget who held it, then let go: the next holder's record must not be emptied by us.
      if (open) attempt(() => ftruncateSync(fd, 0))
      close()
    },
  }
}

/**
 * Holds the lock for the time of a short, synchronous `fn`. Never fails for want of the lock: after
 * `waitMs`, or without permission, `fn` runs anyway. For work where doing it twice is better than not at all.
 */
export function besideLock<T>(p: Paths, name: string, waitMs: number, fn: () => T): T {
  const fd = attempt(() => openLock(p, name))
  if (fd !== undefined) attempt(() => tryFlock(fd, 'exclusive', waitMs))
  try {
    return fn()
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** 0600: whoever may open the file may also lock it, and keep supervision waiting. */
function openLock(p: Paths, name: string): number {
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
  const own: ReturnType<typeof holderRecord> = {
    ...ownName(p),
    since: now(p),
    program: clean(ownCommand(), 80),
    doing: clean(doing, 120),
  }
  // The lock is what counts. A full tmpfs only costs the next one the name of the holder.
  attempt(() => {
    ftruncateSync(fd, 0)
    writeSync(fd, JSON.stringify(own))
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
    const code = errnoOf(err)
    if (code === 'ENOENT') return { seen: true, value: undefined }
    return { seen: false, why: `cannot read ${lockPath(p, name)}: ${code}` }
  }
  const h = fromJson(json, holderRecord)
  const live = h === undefined ? 'gone' : lookAtProcess(p, h, h.since.bootId)
  if (h === undefined || live === 'gone') return { seen: true, value: undefined }
  if (live === 'elsewhere') return { seen: false, why: 'the holder is in another PID namespace' }
  const { pid, startTicks, since, program, doing } = h
  const words = { program: clean(program, 80), doing: clean(doing, 120) }
  return { seen: true, value: { pid, startTicks, since, ...words, stopped: isStopped(live) } }
}

/** One sentence: which lock, who holds it, for how long, doing what. */
export function heldBy(p: Paths, name: string): string {
  const look = holder(p, name)
  if (!look.seen) return `the lock ${name}, held by a process that cannot be seen from here: ${look.why}`
  const h = look.value
  if (h === undefined) return `the lock ${name}, held by a process that left no name`
  const age = seconds(certainMs(h.since, now(p)))
  const state = h.stopped ? ', STOPPED: it will not finish until it is continued' : ''
  return `the lock ${name}, held by ${h.program} (pid ${h.pid}${state}) since ${wallIso(h.since.wallMs)} (${age}): ${h.doing}`
}
