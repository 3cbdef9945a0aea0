import {
  type CircuitMemory,
  type CircuitPolicy,
  cautiousMemory,
  freshMemory,
  parseMemory,
} from '../../api/circuit.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import type { Now } from '../../base/types.ts'
import { readState } from '../../store/state.ts'

/** The node's memory; a file that cannot be read becomes an open circuit with a whole cooldown ahead. */
export function loadMemory(p: Paths, node: string, at: Now, policy: CircuitPolicy): CircuitMemory {
  const cautious = () => cautiousMemory(at, policy)
  return readState(statePath(p, 'agent-health', node), parseMemory, cautious, () => freshMemory).value
}

export { parseMemory }
