import type { Now } from './types.ts'

// The one rule for time. Pure; all numbers are milliseconds.
//
// Two clocks, neither enough alone: boot time (CLOCK_BOOTTIME) is true and starts again with every boot, and a moment of
// another boot says nothing in it; the wall clock goes on over a reboot, and may have been far ahead or behind when a
// stamp was made. So what may kill or restart something counts what has certainly passed, and what people read
// counts the wall clock where nothing else is left. A stamp that is ahead counts as now: it freezes nothing.

/** A moment of a boot. */
export type Moment = Pick<Now, 'bootMs' | 'bootId'>

/** The clocks, and what CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC: the time spent suspended since boot. */
export interface Clocks extends Now {
  /** Negative where somebody shows us another machine's uptime (a container): a shift then, and no sleep. */
  readonly aheadMs: number
}

/** Of two boots, one is not known (''): it may be the same one. */
const unsure = (then: Moment, now: Moment): boolean =>
  then.bootId !== now.bootId && (then.bootId === '' || now.bootId === '')

/**
 * A stamp that this boot's clock did not make: within one boot none can lie ahead of it, but by what passed since the
 * clock was read. So is one of a boot that is not known.
 */
export function isAhead(then: Moment, now: Moment): boolean {
  return unsure(then, now) || (then.bootId === now.bootId && then.bootMs > now.bootMs)
}

/** The same moment, moved to now when it is ahead. Who writes a memory keeps this, or it would count as now for ever. */
export function notAhead<T extends Moment>(then: T, now: Moment): T {
  return isAhead(then, now) ? { ...then, bootMs: now.bootMs, bootId: now.bootId } : then
}

/**
 * The moment in this boot from which a wait counts that began `then`: the boot's start (0) for one of another boot, now
 * for one that is ahead.
 */
export function anchoredMs(then: Moment, now: Moment): number {
  if (isAhead(then, now)) return now.bootMs
  return then.bootId === now.bootId ? then.bootMs : 0
}

/** What has certainly passed since `then`; never negative. For back-offs, holds, circuits and strikes. */
export function certainMs(then: Moment, now: Moment): number {
  return now.bootMs - anchoredMs(then, now)
}

/** What has passed as far as anybody can tell, never less than what is certain. For people, pages and pauses. */
export function elapsedMs(then: Now, now: Now): number {
  const certain = certainMs(then, now)
  return then.bootId === now.bootId ? certain : Math.max(certain, now.wallMs - then.wallMs)
}

/** What is left of a wait that began at `since`: at least 0, at most the wait itself. */
export function waitLeftMs(since: Moment, waitMs: number, now: Moment): number {
  return Math.max(0, waitMs - certainMs(since, now))
}

/** The wait after so many failures in a row: nothing after none, then doubling from the base up to the maximum. */
export function backoffMs(
  failures: number,
  policy: { readonly backoffBaseMs: number; readonly backoffMaxMs: number },
): number {
  if (failures < 1) return 0
  return Math.min(policy.backoffMaxMs, policy.backoffBaseMs * 2 ** Math.min(30, failures - 1))
}

/**
 * Boot time of a moment that systemd or the journal has stamped on CLOCK_MONOTONIC, which does not count sleep. All the
 * sleep of this boot may lie before the moment, or all after it: the wall clock's stamp, made in the same instant, says
 * where within these bounds. Without sleep they are one, so a step of the wall clock changes nothing.
 * @param stamp without a wall clock's stamp the moment is as old as it can be
 */
export function bootTimeMs(
  stamp: { readonly monoMs: number; readonly wallMs?: number | undefined },
  now: Clocks,
): number {
  const leastMs = now.bootMs - now.aheadMs - stamp.monoMs
  const mostMs = leastMs + Math.max(0, now.aheadMs)
  const wallMs = stamp.wallMs === undefined ? mostMs : now.wallMs - stamp.wallMs
  return now.bootMs - Math.min(mostMs, Math.max(leastMs, wallMs))
}
