import { fstatSync, ftruncateSync, readSync, rmSync, statSync, writeSync } from 'node:fs'
import { userInfo } from 'node:os'
import { attempt } from '../base/attempt.ts'
import { now } from '../base/clock.ts'
import { certainMs } from '../base/damping.ts'
import { linkOf, namesIn, textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { present } from '../base/present.ts'
import { fromJson, integer, oneOf, record, text } from '../base/shape.ts'
import { clean } from '../base/text.ts'
import { listPids, readArgv, readStat } from '../host/proc.ts'
import { tryFlock } from '../store/flock.ts'
import { lookAtProcess, ownName } from '../store/process-name.ts'
import { type QueueDir, SLOTS, withEntry } from './dir.ts'
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

/** The text that names this process in a ticket or beside a slot. */
export function ownRecord(p: Paths, doing: string, priority: Priority): string {
  const at = now(p)
  const own: ReturnType<typeof clientRecord> = {
    ...ownName(p),
    bootId: at.bootId,
    sinceBootMs: at.bootMs,
    // A user without an entry in /etc/passwd has no name.
    user: attempt(() => userInfo().username) ?? String(process.getuid?.() ?? '?'),
    doing: clean(doing, 120),
    priority,
  }
  return JSON.stringify(own)
}

/** Leaves our name beside a slot that we hold. The lock is what counts: a full disk only costs the name. */
export function leaveName(dir: QueueDir, slot: string, record: string): void {
  attempt(() =>
    withEntry(dir, recordName(slot), 'yes', (fd) => {
      ftruncateSync(fd, 0)
      writeSync(fd, record, 0)
    }),
  )
}

/** Takes our name away again, before the lock is dropped. */
export function takeName(dir: QueueDir, slot: string): void {
  attempt(() => rmSync(dir.at(recordName(slot)), { force: true }))
}

/** Reads a record; undefined unless its process still lives (pid, start ticks and boot id together). */
export function readClient(p: Paths, dir: QueueDir, name: string): Client | undefined {
  const client = fromJson(readEntry(dir, name), clientRecord)
  if (client === undefined || lookAtProcess(p, client, client.bootId) === 'gone') return undefined
  const { pid, user, doing, priority } = client
  const forMs = certainMs({ bootMs: client.sinceBootMs, bootId: client.bootId }, now(p))
  return { pid, user: clean(user, 40), doing: clean(doing, 120), priority, forMs }
}

function readEntry(dir: QueueDir, name: string): string {
  const bytes = Buffer.alloc(MAX_RECORD)
  const length = attempt(() => withEntry(dir, name, 'no', (fd) => readSync(fd, bytes, 0, MAX_RECORD, 0)))
  return bytes.toString('utf8', 0, length ?? 0)
}

/**
 * Both slots of a node. Asks with a shared lock that is dropped at once: two who ask do not hinder each
 * other, and a client that tries in the same millisecond tries again.
 */
export function slotStates(p: Paths, dir: QueueDir): SlotState[] {
  return SLOTS.map((slot) =>
    withEntry(dir, slot, 'yes', (fd) => {
      if (tryFlock(fd, 'shared')) return { slot, held: false }
      return present({ slot, held: true, holder: readClient(p, dir, recordName(slot)) ?? findHolder(p, fd) })
    }),
  )
}

/** A client in another language leaves no record: the process whose open file carries the lock. */
function findHolder(p: Paths, fd: number): Client | undefined {
  const { ino } = fstatSync(fd)
  for (const pid of listPids(p.proc)) {
    if (!holdsLock(p, pid, ino)) continue
    const doing = clean(readArgv(p.proc, pid).join(' ') || (readStat(p.proc, pid)?.comm ?? '?'), 120)
    const uid = attempt(() => statSync(`${p.proc}/${pid}`).uid)
    return { pid, user: uid === undefined ? '?' : `uid ${uid}`, doing }
  }
  return undefined
}

/** `lock:` lines of /proc/<pid>/fdinfo name the locks of that very open file: proc_pid_fdinfo(5). */
function holdsLock(p: Paths, pid: number, ino: number): boolean {
  const dir = `${p.proc}/${pid}/fd`
  return namesIn(dir).some((n) => {
    if (!/\/slot-\d\.lock$/.test(linkOf(`${dir}/${n}`) ?? '')) return false
    const info = textOf(`${p.proc}/${pid}/fdinfo/${n}`) ?? ''
    return new RegExp(`^lock:.*FLOCK .*:${ino} `, 'm').test(info)
  })
}
