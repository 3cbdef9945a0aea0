import { now } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import { readState, type StateRead, writeState } from '../../store/state.ts'
import { cautiousMemory, emptyMemory, parseMemory } from './memory.ts'
import type { Memory } from './types.ts'

export function loadMemory(p: Paths, config: Config, node: string): StateRead<Memory> {
  const at = now(p)
  const path = statePath(p, 'chromebox-watchdog', node)
  return readState(
    path,
    parseMemory,
    () => cautiousMemory(at, config),
    () => emptyMemory(at),
  )
}

/** @returns why it could not be written (a full disk), or undefined */
export function saveMemory(p: Paths, node: string, memory: Memory): string | undefined {
  const path = statePath(p, 'chromebox-watchdog', node)
  try {
    writeState(path, memory)
    return undefined
  } catch (err) {
    return `cannot write ${path}: ${(err as NodeJS.ErrnoException).code ?? String(err)}`
  }
}
