import { type Paths, statePath } from '../../base/paths.ts'
import { stamp as parseNow } from '../../base/shape.ts'
import type { Now } from '../../base/types.ts'
import { readState, type StateRead, writeState } from '../../store/state.ts'
import {
  type CircuitMemory,
  type CircuitPolicy,
  cautiousMemory,
  freshMemory,
  type Review,
} from './circuit.ts'

const SUPERVISOR = 'agent-health'
const PENDING = ['none', 'restart', 'trip', 'probe']
const REVIEWS = ['trips-often', 'well-after-cooldown', 'reset-early']

/** The node's memory; a file that cannot be read becomes an open circuit with a whole cooldown ahead. */
export function loadMemory(p: Paths, node: string, at: Now, policy: CircuitPolicy): StateRead<CircuitMemory> {
  const cautious = () => cautiousMemory(at, policy)
  return readState(statePath(p, SUPERVISOR, node), parseMemory, cautious, () => freshMemory)
}

/** Written durably. @throws the file system's error: then nothing may be done that had to be recorded */
export function saveMemory(p: Paths, node: string, memory: CircuitMemory): void {
  writeState(statePath(p, SUPERVISOR, node), memory)
}

/** Checks every field; throws on anything that this program would not have written. */
export function parseMemory(v: unknown): CircuitMemory {
  const m = v as Record<keyof CircuitMemory, unknown>
  if (!isCount(m.strikes) || !isCount(m.futile)) throw new Error('a count is none')
  if (typeof m.pending !== 'string' || !PENDING.includes(m.pending)) throw new Error('pending is none')
  if (typeof m.changedWallMs !== 'number' || !Number.isFinite(m.changedWallMs))
    throw new Error('a time is none')
  if (!Array.isArray(m.trips) || !m.trips.every((t) => Number.isFinite(t))) throw new Error('trips are none')
  if (!Array.isArray(m.reviews) || !m.reviews.every(isReview)) throw new Error('reviews are none')
  return {
    strikes: m.strikes,
    lastStrike: stamp(m.lastStrike, 'lastStrike'),
    futile: m.futile,
    openedAt: stamp(m.openedAt, 'openedAt'),
    pending: m.pending as CircuitMemory['pending'],
    changedWallMs: m.changedWallMs,
    trips: m.trips as number[],
    reviews: m.reviews as Review[],
  }
}

function isCount(v: unknown): v is number {
  return typeof v === 'number' && Number.isSafeInteger(v) && v >= 0
}

function isReview(v: unknown): v is Review {
  const r = v as Review | null
  return REVIEWS.includes(String(r?.kind)) && Number.isFinite(r?.wallMs)
}

const stamp = (v: unknown, what: string): Now | null => (v === null ? null : parseNow(v, what))
