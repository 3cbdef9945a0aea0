import { now } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { type Paths, statePath } from '../base/paths.ts'
import { writeState } from '../store/state.ts'
import { readMemory, releaseMemory } from '../supervisors/chromebox-watchdog/memory.ts'

/**
 * Lets go of whatever keeps the watchdog from acting on a node (HELD DOWN, a back-off): somebody brings the
 * node up by hand. The caller holds the node lock. Returns a line when there was something to release.
 */
export function releaseNode(p: Paths, config: Config, node: string): string | undefined {
  const memory = readMemory(p, config, node)
  const { held, failures, notBeforeBootMs } = memory
  if (!held && failures === 0 && notBeforeBootMs === undefined) return undefined
  writeState(statePath(p, 'chromebox-watchdog', node), releaseMemory(memory, now(p)))
  return held ? 'released from HELD DOWN' : 'back-off forgotten'
}
