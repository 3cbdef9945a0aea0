import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { patience } from './unit.ts'

/** Between two looks, in milliseconds of real time. */
const POLL_MS = 10

/**
 * Looks until `look` holds. Only a failing test reaches the deadline, which is in milliseconds of a quick machine
 * (tests/kit/unit.ts makes it one of this machine).
 */
export async function until(
  what: string,
  look: () => boolean | Promise<boolean>,
  deadlineMs = 30_000,
): Promise<void> {
  const end = performance.now() + patience(deadlineMs)
  while (!(await look())) {
    assert.ok(performance.now() < end, `not within ${patience(deadlineMs)} ms: ${what}`)
    await pause(POLL_MS)
  }
}

/** The same for what has to happen while this process is busy: nothing else of it runs until then. */
export function blockUntil(what: string, look: () => boolean, deadlineMs = 30_000): void {
  const end = performance.now() + patience(deadlineMs)
  while (!look()) {
    assert.ok(performance.now() < end, `not within ${patience(deadlineMs)} ms: ${what}`)
    blockFor(POLL_MS)
  }
}

/** Keeps this process busy for so long, without taking a processor from the others. */
export function blockFor(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
