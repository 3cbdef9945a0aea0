import type { Verdict } from '../base/types.ts'
import { type Code, entryOf, text, type Values } from './codes.ts'

export const HEALTHY: Verdict = { state: 'healthy', code: 'ok', reason: '', evidence: [] }

/**
 * The verdict that a code stands for: a fault is unhealthy, everything else is unknown. The layer is the table's; add
 * one where the table has none.
 */
export function verdict<C extends Code>(code: C, evidence: readonly string[], ...values: Values<C>): Verdict {
  const entry = entryOf(code)
  const layer = entry?.layer
  return {
    state: entry?.kind === 'fault' ? 'unhealthy' : 'unknown',
    ...(layer === undefined ? {} : { layer }),
    code,
    reason: text(code, ...values),
    evidence: evidence.filter((e) => e !== ''),
  }
}
