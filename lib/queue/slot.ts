import { closeSync, type FSWatcher, renameSync, rmSync, watch, writeSync } from 'node:fs'
import { LockedError } from '../base/errors.ts'
import { type Paths, paths } from '../base/paths.ts'
import { seconds } from '../base/text.ts'
import { readStat } from '../host/proc.ts'
import { assertNodeName } from '../registry/names.ts'
import { tryFlock, waitFlock } from '../store/flock.ts'
import { isStopped, ownCommand } from '../store/process-name.ts'
import { describeSlots } from './depth.ts'
import { openEntry, openQueueDir, type QueueDir, SLOTS } from './dir.ts'
import { leaveName, ownRecord, takeName } from './holder.ts'
import {
  isPriority,
  type Priority,
  parseTicket,
  predecessor,
  sortTickets,
  type Ticket,
  ticketName,
} from './ticket.ts'

/** Longest wait for a slot unless the caller says otherwise, in ms. */
export const QUEUE_TIMEOUT_MS = 60_000
/** A wait longer than this is worth a warning, in ms. */
const SLOW_WAIT_MS = 10_000
/** How often a waiter looks at the list without having been woken; covers a lost inotify event, in ms. */
const RELIST_MS = 1000

export interface SlotOptions {
  /** Default: CDP_PRIORITY of the environment, else `normal`. */
  readonly priority?: Priority
  /** Longest wait in ms; 0 takes a free slot or fails at once. Default 60 s. */
  readonly timeoutMs?: number
  /** What the slot is for, for those who are kept waiting. */
  readonly doing?: string
  /** Called once when the wait has lasted 10 s, with who holds the slots. */
  readonly onSlow?: (message: string) => void
  readonly p?: Paths
}

/** No slot came free in time (exit 75); the message says who holds them and for how long. */
export class QueueTimeout extends LockedError {}

/** A slot of a browser; it is given back by `release`, or by the kernel when this process ends. */
interface Slot {
  readonly slot: string
  release(): void
}

/** The default priority: CDP_PRIORITY when it names one. */
export function defaultPriority(env: NodeJS.ProcessEnv = process.env): Priority {
  return isPriority(env.CDP_PRIORITY) ? env.CDP_PRIORITY : 'normal'
}

/**
 * Runs `fn` while holding one of the node's two CDP slots.
 *
 * @throws QueueTimeout (75) when none came free in time; RootError; UsageError for a bad node name
 */
export async function withCdpSlot<T>(node: string, opts: SlotOptions, fn: () => Promise<T> | T): Promise<T> {
  const slot = await acquireSlot(node, opts)
  try {
    return await fn()
  } finally {
    slot.release()
  }
}

/** Takes a slot; see `withCdpSlot`, which also gives it back. */
export async function acquireSlot(node: string, opts: SlotOptions = {}): Promise<Slot> {
  const p = opts.p ?? paths()
  const priority = opts.priority ?? defaultPriority()
  const dir = openQueueDir(p, assertNodeName(node))
  const record = ownRecord(p, opts.doing ?? ownCommand(), priority)
  try {
    const waiting = line(p, dir).length > 0
    // Whoever comes while others wait gets in line behind them, even when a slot is just free.
    const taken = (waiting ? undefined : takeFree(dir)) ?? (await queueUp(p, dir, priority, record, opts))
    leaveName(dir, taken.slot, record)
    return held(dir, taken)
  } catch (err) {
    dir.close()
    throw err
  }
}

interface Taken {
  readonly slot: string
  readonly fd: number
}

function held(dir: QueueDir, taken: Taken): Slot {
  let mine = true
  return {
    slot: taken.slot,
    release() {
      if (!mine) return
      mine = false
      takeName(dir, taken.slot)
      closeSync(taken.fd)
      dir.close()
    },
  }
}

function takeFree(dir: QueueDir): Taken | undefined {
  for (const slot of SLOTS) {
    const fd = openEntry(dir, slot, 'yes')
    if (tryFlock(fd)) return { slot, fd }
    closeSync(fd)
  }
  return undefined
}

/** The waiters in the order of service. A stopped one (^Z) cannot take its turn: it must not hold up the rest. */
function line(p: Paths, dir: QueueDir): Ticket[] {
  return sortTickets(dir.names()).filter((t) => !isStopped(readStat(p.proc, t.pid)))
}

let sequence = 0

/** Takes a ticket, waits for its turn, and gives the ticket back however that ends. */
async function queueUp(
  p: Paths,
  dir: QueueDir,
  priority: Priority,
  record: string,
  opts: SlotOptions,
): Promise<Taken> {
  const timeoutMs = opts.timeoutMs ?? QUEUE_TIMEOUT_MS
  const end = performance.now() + timeoutMs
  sweep(dir)
  const ticket = takeTicket(dir, priority, record)
  const onSlow = opts.onSlow
  const slow =
    onSlow &&
    setTimeout(() => onSlow(`waiting ${seconds(SLOW_WAIT_MS)} for ${describeSlots(p, dir)}`), SLOW_WAIT_MS)
  try {
    while (performance.now() < end) {
      const before = predecessor(line(p, dir), ticket.name)
      if (before !== undefined) await outlive(dir, before.name, end)
      else {
        const taken = await takeNext(p, dir, ticket.name, end)
        if (taken !== undefined) return taken
      }
    }
  } finally {
    clearTimeout(slow)
    rmSync(dir.at(ticket.name), { force: true })
    closeSync(ticket.fd)
  }
  throw new QueueTimeout(
    `no CDP slot of ${dir.node} within ${seconds(timeoutMs)}: ${describeSlots(p, dir)}`,
    undefined,
    `cdp-queue depth ${dir.node}`,
  )
}

/** A ticket is locked before it gets its name, so a ticket without a lock is a dead waiter's. */
function takeTicket(dir: QueueDir, priority: Priority, record: string): { name: string; fd: number } {
  const arrivedUs = Number(process.hrtime.bigint() / 1000n)
  const name = ticketName(priority, arrivedUs, process.pid, (sequence++).toString(36))
  const fd = openEntry(dir, `new-${name}`, 'only')
  try {
    writeSync(fd, record, 0)
    tryFlock(fd)
    renameSync(dir.at(`new-${name}`), dir.at(name))
    return { name, fd }
  } catch (err) {
    rmSync(dir.at(`new-${name}`), { force: true })
    closeSync(fd)
    throw err
  }
}

/** Removes what a client left that died between making its ticket and naming it. */
function sweep(dir: QueueDir): void {
  const longAgoUs = Number(process.hrtime.bigint() / 1000n) - 60_000_000
  for (const name of dir.names()) {
    const ticket = name.startsWith('new-') ? parseTicket(name.slice('new-'.length)) : undefined
    if (ticket !== undefined && ticket.arrivedUs < longAgoUs) rmSync(dir.at(name), { force: true })
  }
}

/**
 * Waits until the waiter before us has been served, has given up or is dead, a second at most; removes what
 * the dead left.
 */
async function outlive(dir: QueueDir, name: string, end: number): Promise<void> {
  const fd = openEntry(dir, name, 'no')
  if (fd === undefined) return
  try {
    const waitMs = Math.min(RELIST_MS, end - performance.now())
    const gone = await waitFlock(fd, 'shared', waitMs).locked
    if (gone) rmSync(dir.at(name), { force: true })
  } finally {
    closeSync(fd)
  }
}

/**
 * At the head: waits for whichever slot comes free first. Ends without one when the time is up or
 * somebody with a better place has come.
 */
async function takeNext(p: Paths, dir: QueueDir, mine: string, end: number): Promise<Taken | undefined> {
  const tries = SLOTS.map((slot) => {
    const fd = openEntry(dir, slot, 'yes')
    return { slot, fd, wait: waitFlock(fd, 'exclusive', end - performance.now()) }
  })
  const overtaken = () => predecessor(line(p, dir), mine) !== undefined
  const stop = () => {
    for (const t of tries) t.wait.cancel()
  }
  const unwatch = onChange(dir, () => {
    if (overtaken()) stop()
  })
  try {
    // The first that gets its lock; none when all have ended without one.
    const first = await Promise.any(
      tries.map((t) => t.wait.locked.then((locked) => (locked ? t : Promise.reject()))),
    ).catch(() => undefined)
    for (const t of tries) {
      if (t === first) continue
      t.wait.cancel()
      closeSync(t.fd)
    }
    return first && { slot: first.slot, fd: first.fd }
  } finally {
    unwatch()
  }
}

/** Calls `fn` now, when the directory changes, and every second; out of inotify instances, every second only. */
function onChange(dir: QueueDir, fn: () => void): () => void {
  let watcher: FSWatcher | undefined
  try {
    watcher = watch(dir.path, { persistent: false }, fn)
    watcher.on('error', () => watcher?.close())
  } catch {}
  const timer = setInterval(fn, RELIST_MS)
  fn()
  return () => {
    clearInterval(timer)
    watcher?.close()
  }
}
