import { join } from 'node:path'
import { now } from '../base/clock.ts'
import { elapsedMs } from '../base/damping.ts'
import type { Paths } from '../base/paths.ts'
import { mapOf, record, stamp } from '../base/shape.ts'
import type { Now } from '../base/types.ts'
import { readState, writeState } from '../store/state.ts'

/** What ensure remembers: which failed units it has reset, so that it does so once and not for ever. */
interface Memory {
  readonly resets: Readonly<Record<string, Now>>
}

const file = (p: Paths) => join(p.state, 'ensure', 'resets.json')

function read(p: Paths): Memory {
  // Nothing remembered only means that a unit is reset once more than it should be.
  return readState(file(p), record({ resets: mapOf(stamp) }), (): Memory => ({ resets: {} })).value
}

/** How long ago each unit's failure was reset by us, in milliseconds. */
export function resetAges(p: Paths): Record<string, number> {
  const at = now(p)
  return Object.fromEntries(Object.entries(read(p).resets).map(([unit, then]) => [unit, elapsedMs(then, at)]))
}

/** Entries older than this are dropped when one is added, in milliseconds: one day. */
const KEEP_MS = 86_400_000

export function rememberReset(p: Paths, unit: string): void {
  const at = now(p)
  const kept = Object.entries(read(p).resets).filter(([, then]) => elapsedMs(then, at) < KEEP_MS)
  writeState(file(p), { resets: { ...Object.fromEntries(kept), [unit]: at } })
}
