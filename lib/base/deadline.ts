import { monotonicMs } from './clock.ts'

/** The end of a run: everything it does shares one. Counted on the monotonic clock of this process. */
export interface Deadline {
  /** Milliseconds left; never negative. */
  leftMs(): number
}

/** @param ms from now */
export function deadlineIn(ms: number): Deadline {
  const end = monotonicMs() + ms
  return { leftMs: () => Math.max(0, end - monotonicMs()) }
}

/**
 * Polls until `done` holds or the time is over.
 * @param everyMs between two polls, in milliseconds
 * @returns whether it held in the end
 */
export async function until(
  done: () => boolean | Promise<boolean>,
  ms: number,
  everyMs: number,
): Promise<boolean> {
  const deadline = deadlineIn(ms)
  while (!(await done())) {
    if (deadline.leftMs() === 0) return false
    await sleep(everyMs)
  }
  return true
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
