import { type CircuitMemory, type CircuitPolicy, cautiousMemory, freshMemory } from '../../api/circuit.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import { count, list, number, oneOf, orNull, type Reader, record, stamp } from '../../base/shape.ts'
import type { Now } from '../../base/types.ts'
import { readState } from '../../store/state.ts'

/** The node's memory; a file that cannot be read becomes an open circuit with a whole cooldown ahead. */
export function loadMemory(p: Paths, node: string, at: Now, policy: CircuitPolicy): CircuitMemory {
  const cautious = () => cautiousMemory(at, policy)
  return readState(statePath(p, 'agent-health', node), parseMemory, cautious, () => freshMemory).value
}

/** Checks every field; throws on anything that this program would not have written. */
export const parseMemory: Reader<CircuitMemory> = record({
  strikes: count,
  lastStrike: orNull(stamp),
  futile: count,
  openedAt: orNull(stamp),
  pending: oneOf(['none', 'restart', 'trip', 'probe']),
  changedWallMs: number,
  trips: list(number),
  reviews: list(
    record({ kind: oneOf(['trips-often', 'well-after-cooldown', 'reset-early']), wallMs: number }),
  ),
})
