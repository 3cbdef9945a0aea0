import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { patience } from './unit.ts'

/** Between two looks, in milliseconds of real time. */
const POLL_MS = 50

/**
 * Looks until `look` gives something truthy, and returns that; a look that throws is none. Throws with the last thing
 * seen when the deadline is over. Only a failing test reaches it, so it is in milliseconds of a quick machine
 * (tests/kit/unit.ts makes it one of this machine).
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  deadlineMs = 30_000,
  everyMs = POLL_MS,
): Promise<Exclude<T, null | undefined | false | '' | 0>> {
  const end = performance.now() + patience(deadlineMs)
  for (;;) {
    let last: unknown
    try {
      last = await look()
      if (last) return last as Exclude<T, null | undefined | false | '' | 0>
    } catch (error) {
      last = error
    }
    if (performance.now() > end)
      throw new Error(`not within ${patience(deadlineMs)} ms: ${what}; last seen: ${String(last)}`)
    await pause(everyMs)
  }
}

/** The same for what has to happen while this process is busy: nothing else of it runs until then. */
export function blockUntil(what: string, look: () => boolean, deadlineMs = 30_000): void {
  const end = performance.now() + patience(deadlineMs)
  while (!look()) {
    assert.ok(performance.now() < end, `not within ${patience(deadlineMs)} ms: ${what}`)
    blockFor(10)
  }
}

/** Keeps this process busy for so long, without taking a processor from the others. */
export function blockFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
