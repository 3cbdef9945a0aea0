import { type Deadline, sleep } from '../base/deadline.ts'
import type { EnsureContext } from '../ensure/observe.ts'
import { askSystemd } from '../host/systemctl.ts'
import { withLock } from '../store/lock.ts'

/** How long to wait for a supervisor that works on the node, in milliseconds: its run ends within its unit's 110 s. */
const LOCK_WAIT_MS = 120_000
/** Deadline of a systemctl call in milliseconds: a browser's stop (15 s) and start together. */
export const JOB_MS = 60_000
/** Between two looks, in milliseconds. */
export const POLL_MS = 100

/** What bringing a node up and taking it down share. */
export interface NodeContext extends EnsureContext {
  /** Prints one line of progress: what part of the node, what was done or seen. */
  readonly say: (part: string, text: string) => void
}

/** Does work under the node's lock. @param doing shown to whoever waits for it. @throws LockedError */
export function underLock<T>(
  ctx: NodeContext,
  name: string,
  doing: string,
  work: () => Promise<T>,
): Promise<T> {
  const opts = { waitMs: LOCK_WAIT_MS, onWait: (message: string) => ctx.say('wait', message) }
  return withLock(ctx.p, `node-${name}`, doing, opts, work)
}

/** The ActiveState of units, in their order. @throws NetvmError (2) when systemd cannot be asked */
export async function states(units: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const shown = await askSystemd(units, ['ActiveState'])
  return new Map(units.map((unit) => [unit, shown[unit]?.ActiveState ?? 'inactive']))
}

/** Looks again until what was seen is good or the time is over. Unknown is asked again like unhealthy. */
export async function poll<T>(
  deadline: Deadline,
  look: () => Promise<T>,
  good: (seen: T) => boolean,
): Promise<T> {
  for (;;) {
    const seen = await look()
    if (good(seen) || deadline.leftMs() === 0) return seen
    await sleep(POLL_MS)
  }
}
