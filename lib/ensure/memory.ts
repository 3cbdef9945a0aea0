import { join } from 'node:path'
import { now } from '../base/clock.ts'
import { elapsedMs } from '../base/damping.ts'
import type { Paths } from '../base/paths.ts'
import { mapOf, record, stamp } from '../base/shape.ts'
import type { Now } from '../base/types.ts'
import { readState, writeState } from '../store/state.ts'

/** What ensure remembers: which failed units it has reset and when, so that it does so once and not for ever. */
const shape = record({ resets: mapOf(stamp) })
const none: { readonly resets: Record<string, Now> } = { resets: {} }
const file = (p: Paths) => join(p.state, 'ensure', 'resets.json')
// Nothing remembered only means that a unit is reset once more than it should be.
const read = (p: Paths) => Object.entries(readState(file(p), shape, () => none).value.resets)

/** How long ago each unit's failure was reset by us, in milliseconds. */
export function resetAges(p: Paths): Record<string, number> {
  const at = now(p)
  return Object.fromEntries(read(p).map(([unit, then]) => [unit, elapsedMs(then, at)]))
}

/** Entries older than this are dropped when one is added, in milliseconds: one day. */
const KEEP_MS = 86_400_000

export function rememberReset(p: Paths, unit: string): void {
  const at = now(p)
  const kept = read(p).filter(([, then]) => elapsedMs(then, at) < KEEP_MS)
  writeState(file(p), { resets: { ...Object.fromEntries(kept), [unit]: at } })
}
