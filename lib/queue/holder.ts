import {
  closeSync,
  fstatSync,
  ftruncateSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { userInfo } from 'node:os'
import { now } from '../base/clock.ts'
import { certainMs } from '../base/damping.ts'
import type { Paths } from '../base/paths.ts'
import { fromJson, integer, oneOf, record, text } from '../base/shape.ts'
import { clean } from '../base/text.ts'
import { listPids, readArgv, readStat } from '../host/proc.ts'
import { openEntry, openSlot, type QueueDir, SLOTS } from './dir.ts'
import { tryFlock } from './flock.ts'
import { PRIORITIES, type Priority } from './ticket.ts'

/** Who is in a slot, or waits for one. */
export interface Client {
  readonly pid: number
  readonly user: string
  /** The program, and what it wants the browser for. */
  readonly doing: string
  readonly priority?: Priority
  /** How long it has held or waited, in ms; absent when a foreign client left no record. */
  readonly forMs?: number
}

export interface SlotState {
  readonly slot: string
  readonly held: boolean
  /** Absent when free, or when the holder cannot be seen from here. */
  readonly holder?: Client
}

const clientRecord = record({
  pid: integer,
  startTicks: integer,
  bootId: text,
  pidNs: text,
  sinceBootMs: integer,
  user: text,
  doing: text,
  priority: oneOf(PRIORITIES),
})

const MAX_RECORD = 4096

// The record of a holder has a file of its own beside the slot: a shell client that opens the slot with
// `9>slot-0.lock` empties it.
const recordName = (slot: string): string => `${slot.replace(/\.lock$/, '')}.holder`

function pidNamespace(p: Paths): string {
  try {
    return readlinkSync(`${p.proc}/self/ns/pid`)
  } catch {
    return ''
  }
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? '?')
  }
}

/** The text that names this process in a ticket or beside a slot. */
export function ownRecord(p: Paths, doing: string, priority: Priority): string {
  const at = now(p)
  const own: ReturnType<typeof clientRecord> = {
    pid: process.pid,
    startTicks: readStat(p.proc, process.pid)?.startTicks ?? 0,
    bootId: at.bootId,
    pidNs: pidNamespace(p),
    sinceBootMs: at.bootMs,
    user: userName(),
    doing: clean(doing, 120),
    priority,
  }
  return JSON.stringify(own)
}

/** Leaves our name beside a slot that we hold. The lock is what counts: a full disk only costs the name. */
export function leaveName(dir: QueueDir, slot: string, record: string): void {
  try {
    const fd = openEntry(dir, recordName(slot), 'yes') as number
    try {
      ftruncateSync(fd, 0)
      writeSync(fd, record, 0)
    } finally {
      closeSync(fd)
    }
  } catch {}
}

/** Takes our name away again, before the lock is dropped. */
export function takeName(dir: QueueDir, slot: string): void {
  try {
    rmSync(dir.at(recordName(slot)), { force: true })
  } catch {}
}

/** Reads a record; undefined unless its process still lives (pid, start ticks and boot id together). */
export function readClient(p: Paths, dir: QueueDir, name: string): Client | undefined {
  const client = fromJson(readEntry(dir, name), clientRecord)
  const at = now(p)
  if (client === undefined || client.bootId !== at.bootId) return undefined
  if (client.pidNs === pidNamespace(p)) {
    if (readStat(p.proc, client.pid)?.startTicks !== client.startTicks) return undefined
  }
  const { pid, user, doing, priority } = client
  const forMs = certainMs({ bootMs: client.sinceBootMs, bootId: client.bootId }, at)
  return { pid, user: clean(user, 40), doing: clean(doing, 120), priority, forMs }
}

function readEntry(dir: QueueDir, name: string): string {
  let fd: number | undefined
  try {
    fd = openEntry(dir, name, 'no')
    if (fd === undefined) return ''
    const bytes = Buffer.alloc(MAX_RECORD)
    return bytes.subarray(0, readSync(fd, bytes, 0, MAX_RECORD, 0)).toString('utf8')
  } catch {
    return ''
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/**
 * Both slots of a node. Asks with a shared lock that is dropped at once: two who ask do not hinder each
 * other, and a client that tries in the same millisecond tries again.
 */
export function slotStates(p: Paths, dir: QueueDir): SlotState[] {
  return SLOTS.map((slot) => {
    const fd = openSlot(dir, slot)
    try {
      if (tryFlock(fd, 'shared')) return { slot, held: false }
      const holder = readClient(p, dir, recordName(slot)) ?? findHolder(p, fd)
      return holder === undefined ? { slot, held: true } : { slot, held: true, holder }
    } finally {
      closeSync(fd)
    }
  })
}

/** A client in another language leaves no record: the process whose open file carries the lock. */
function findHolder(p: Paths, fd: number): Client | undefined {
  const { ino } = fstatSync(fd)
  for (const pid of listPids(p.proc)) {
    if (!holdsLock(p, pid, ino)) continue
    const doing = clean(readArgv(p.proc, pid).join(' ') || (readStat(p.proc, pid)?.comm ?? '?'), 120)
    return { pid, user: owner(p, pid), doing }
  }
  return undefined
}

/** `lock:` lines of /proc/<pid>/fdinfo name the locks of that very open file: proc_pid_fdinfo(5). */
function holdsLock(p: Paths, pid: number, ino: number): boolean {
  const dir = `${p.proc}/${pid}/fd`
  let fds: string[]
  try {
    fds = readdirSync(dir)
  } catch {
    return false
  }
  return fds.some((n) => {
    try {
      if (!/\/(slot-\d\.lock)$/.test(readlinkSync(`${dir}/${n}`))) return false
      const info = readFileSync(`${p.proc}/${pid}/fdinfo/${n}`, 'utf8')
      return new RegExp(`^lock:.*FLOCK .*:${ino} `, 'm').test(info)
    } catch {
      return false
    }
  })
}

function owner(p: Paths, pid: number): string {
  try {
    return `uid ${statSync(`${p.proc}/${pid}`).uid}`
  } catch {
    return '?'
  }
}
