import { now } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { type Paths, statePath } from '../base/paths.ts'
import { readState, writeState } from '../store/state.ts'
import {
  cautiousMemory,
  emptyMemory,
  parseMemory,
  releaseMemory,
} from '../supervisors/chromebox-watchdog/memory.ts'

/**
 * Lets go of whatever keeps the watchdog from acting on a node (HELD DOWN, a back-off): somebody brings the
 * node up by hand. The caller holds the node lock. Returns a line when there was something to release.
 */
export function releaseNode(p: Paths, config: Config, node: string): string | undefined {
  const path = statePath(p, 'chromebox-watchdog', node)
  const at = now(p)
  const read = readState(
    path,
    parseMemory,
    () => cautiousMemory(at, config),
    () => emptyMemory(at),
  )
  const { held, failures, notBeforeBootMs } = read.value
  if (!held && failures === 0 && notBeforeBootMs === undefined) return undefined
  writeState(path, releaseMemory(read.value, at))
  return held ? 'released from HELD DOWN' : 'back-off forgotten'
}
