import { notAhead } from '../../base/damping.ts'
import type { Now } from '../../base/types.ts'
import type { Memory } from './types.ts'

/** A node that was always healthy. It has no state file. */
export const NO_MEMORY: Memory = { attempts: 0 }

/** True when there is nothing to remember and the state file can go. */
export function isBlank(memory: Memory): boolean {
  return memory.attempts === 0 && memory.lastAttempt === undefined
}

/**
 * What a state file that cannot be read stands for: as if restarts had been tried in vain until now, so
 * that losing the memory delays the next one and never multiplies them.
 * @param attempts enough for the longest back-off
 */
export function cautiousMemory(now: Now, attempts = 5): Memory {
  return { attempts, lastAttempt: { bootMs: now.bootMs, bootId: now.bootId, helped: false } }
}

/** The same memory when its last attempt is not ahead of the clock; else that one counts from now. */
export function reanchor(memory: Memory, now: Now): Memory {
  const last = memory.lastAttempt
  const lastAttempt = last && notAhead(last, now)
  return lastAttempt === last ? memory : { ...memory, ...(lastAttempt && { lastAttempt }) }
}

/** One more restart was tried. */
export function afterRestart(memory: Memory, helped: boolean, now: Now): Memory {
  return {
    ...memory,
    attempts: memory.attempts + 1,
    lastAttempt: { bootMs: now.bootMs, bootId: now.bootId, helped },
  }
}
