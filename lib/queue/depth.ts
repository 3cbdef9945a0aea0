import { readdirSync } from 'node:fs'
import { errnoOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { seconds } from '../base/text.ts'
import { isNodeName } from '../registry/names.ts'
import { tryFlock } from '../store/flock.ts'
import { type QueueDir, queueDirIfAny, queueRefusal, SLOTS, withEntry } from './dir.ts'
import { type Client, readClient, type SlotState, slotStates } from './holder.ts'
import { type Priority, sortTickets } from './ticket.ts'

interface Waiter extends Partial<Client> {
  readonly pid: number
  readonly priority: Priority
}

/** One node's queue at one moment. */
export interface Depth {
  readonly node: string
  readonly slots: readonly SlotState[]
  /** In the order of service. Clients in other languages that only lock a slot wait without a ticket. */
  readonly waiting: readonly Waiter[]
}

/** Nodes that have a queue directory. */
export function queueNodes(p: Paths): string[] {
  try {
    return readdirSync(p.queue).filter(isNodeName).sort()
  } catch (err) {
    if (errnoOf(err) === 'ENOENT') return []
    throw queueRefusal(err)
  }
}

export function queueDepth(p: Paths, node: string): Depth {
  const dir = queueDirIfAny(p, node)
  // A look makes nothing: before its first client a node has no directory.
  if (dir === undefined) return { node, slots: SLOTS.map((slot) => ({ slot, held: false })), waiting: [] }
  try {
    return { node, slots: slotStates(p, dir), waiting: waiters(p, dir) }
  } finally {
    dir.close()
  }
}

/** A ticket counts while its owner holds its lock. */
function waiters(p: Paths, dir: QueueDir): Waiter[] {
  return sortTickets(dir.names())
    .filter(({ name }) => withEntry(dir, name, 'no', (fd) => !tryFlock(fd, 'shared')))
    .map(({ name, pid, priority }) => ({ ...readClient(p, dir, name), pid, priority }))
}

/** `slot 0 held by backup.py (pid 71, root) for 12s; slot 1 free`. */
export function describeSlots(p: Paths, dir: QueueDir): string {
  const parts = slotStates(p, dir).map((s) => {
    const name = s.slot.replace('-', ' ').replace('.lock', '')
    if (!s.held) return `${name} free`
    return s.holder === undefined
      ? `${name} held by a process that cannot be seen from here`
      : `${name} held by ${describeClient(s.holder)}`
  })
  return parts.join('; ')
}

export function describeClient(c: Client): string {
  const since = c.forMs === undefined ? 'since an unknown time, it left no record' : `for ${seconds(c.forMs)}`
  return `${c.doing} (pid ${c.pid}, ${c.user}) ${since}`
}
