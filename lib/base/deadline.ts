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

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
