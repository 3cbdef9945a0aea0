import { certainMs, isAhead, notAhead, waitLeftMs } from '../base/damping.ts'
import { count, list, number, oneOf, orNull, record, stamp } from '../base/shape.ts'
import type { Now } from '../base/types.ts'

/** closed: restarts may happen. open: none. half-open: the cooldown has passed, one probe may restart once. */
export type CircuitState = 'closed' | 'open' | 'half-open'

export interface CircuitPolicy {
  /** Consecutive failures before a restart (NETVM_API_STRIKES). */
  readonly strikeLimit: number
  /** Two failures further apart than this are not consecutive, in ms: three timer periods. */
  readonly strikeWindowMs: number
  /** Consecutive futile restarts that open the circuit (NETVM_FUTILE_LIMIT). */
  readonly futileLimit: number
  /** How long an open circuit forbids restarts, in ms (NETVM_CIRCUIT_COOLDOWN). */
  readonly cooldownMs: number
}

const REVIEWS = ['trips-often', 'well-after-cooldown', 'reset-early'] as const

/** Decision D4 of CONTRACT.md: a hint to a person that the breaker's settings deserve a look. */
export type ReviewKind = (typeof REVIEWS)[number]

/** Reads a state file's content. @throws on anything that this program would not have written */
export const parseMemory = record({
  strikes: count,
  lastStrike: orNull(stamp),
  futile: count,
  /** Set while the circuit is open or half-open; half-open is derived, so it cannot get stuck. */
  openedAt: orNull(stamp),
  /**
   * A restart that is under way. It is written before the browser is touched, so that a run which dies in
   * the middle has already been counted as futile: `trip` opens the circuit, `probe` keeps it open.
   */
  pending: oneOf(['none', 'restart', 'trip', 'probe']),
  /** When the circuit last opened or closed, wall clock, for people. */
  changedWallMs: number,
  /** Closed → open transitions of the last 7 days, wall clock. Read by people and review notices only. */
  trips: list(number),
  reviews: list(record({ kind: oneOf(REVIEWS), wallMs: number })),
})

/** What is remembered of one node between runs. */
export type CircuitMemory = ReturnType<typeof parseMemory>

export type CircuitEvent =
  | 'ok'
  | 'failure'
  | 'unknown'
  | 'restart-started'
  | 'restart-helped'
  | 'restart-futile'
  | 'reset'

export type Note = 'struck' | 'futile' | 'tripped' | 'reopened' | 'closed' | ReviewKind

export interface Step {
  readonly memory: CircuitMemory
  /** The breaker would restart the browser now, if no guard forbids it. */
  readonly wantsRestart: boolean
  readonly notes: readonly Note[]
}

/** The trips that count: people and review notices look no further back. */
export const WEEK_MS = 7 * 24 * 3600 * 1000
const KEPT_REVIEWS = 10
/** Decision D4: "more than twice in a week" is too touchy. */
const TOUCHY_TRIPS = 2

export const freshMemory: CircuitMemory = {
  strikes: 0,
  lastStrike: null,
  futile: 0,
  openedAt: null,
  pending: 'none',
  changedWallMs: 0,
  trips: [],
  reviews: [],
}

/** What a lost or unreadable memory becomes: an open circuit with the whole cooldown ahead. */
export function cautiousMemory(now: Now, policy: CircuitPolicy): CircuitMemory {
  return { ...freshMemory, futile: policy.futileLimit, openedAt: now, changedWallMs: now.wallMs }
}

/** Milliseconds until an open circuit becomes half-open; 0 when it is half-open or closed. */
export function cooldownLeftMs(memory: CircuitMemory, now: Now, policy: Cooldown): number {
  return memory.openedAt === null ? 0 : waitLeftMs(memory.openedAt, policy.cooldownMs, now)
}

type Cooldown = Pick<CircuitPolicy, 'cooldownMs'>

export function circuitState(memory: CircuitMemory, now: Now, policy: Cooldown): CircuitState {
  if (memory.openedAt === null) return 'closed'
  return cooldownLeftMs(memory, now, policy) > 0 ? 'open' : 'half-open'
}

/** A stamp that lies ahead of this boot's clock would keep the circuit open for ever: it counts from now. */
function tamed(memory: CircuitMemory, now: Now): CircuitMemory {
  const ahead = (stamp: Now | null) => stamp !== null && isAhead(stamp, now)
  if (!ahead(memory.openedAt) && !ahead(memory.lastStrike)) return memory
  return {
    ...memory,
    openedAt: memory.openedAt && notAhead(memory.openedAt, now),
    ...(ahead(memory.lastStrike) ? { strikes: 0, lastStrike: null } : {}),
  }
}

type Cell = (memory: CircuitMemory, now: Now, policy: CircuitPolicy) => Step

const step = (memory: CircuitMemory, notes: readonly Note[] = [], wantsRestart = false): Step => ({
  memory,
  wantsRestart,
  notes,
})

const keep: Cell = (memory) => step(memory)

const NO_STRIKES = { strikes: 0, lastStrike: null } as const
const NO_FAULT = { ...NO_STRIKES, futile: 0, pending: 'none' } as const

/** Consecutive means: same boot, and no further apart than the window. */
const strike: Cell = (memory, now, policy) => {
  const last = memory.lastStrike
  const follows = last !== null && last.bootId === now.bootId && certainMs(last, now) <= policy.strikeWindowMs
  const strikes = follows ? Math.min(memory.strikes + 1, policy.strikeLimit) : 1
  return step({ ...memory, strikes, lastStrike: now }, ['struck'], strikes >= policy.strikeLimit)
}

const healthyAgain: Cell = (memory) => {
  const { strikes, futile, lastStrike, pending } = memory
  const clear = strikes === 0 && futile === 0 && lastStrike === null && pending === 'none'
  return step(clear ? memory : { ...memory, ...NO_FAULT })
}

const close: Cell = (memory, now) =>
  step({ ...memory, ...NO_FAULT, openedAt: null, changedWallMs: now.wallMs }, ['closed'])

const reviewed =
  (kind: ReviewKind, then: Cell): Cell =>
  (before, now, policy) => {
    const { memory, notes, wantsRestart } = then(before, now, policy)
    const reviews = [...memory.reviews, { kind, wallMs: now.wallMs }].slice(-KEPT_REVIEWS)
    return step({ ...memory, reviews }, [...notes, kind], wantsRestart)
  }

/** Counts the restart as futile before it is made; only a later `ok` or `restart-helped` takes that back. */
const begin: Cell = (memory, now, policy) => {
  const begun = { ...memory, ...NO_STRIKES, futile: memory.futile + 1 }
  if (begun.futile < policy.futileLimit) return step({ ...begun, pending: 'restart' })
  return step({ ...begun, pending: 'trip', openedAt: now, changedWallMs: now.wallMs })
}

const beginProbe: Cell = (memory, now) =>
  step({ ...memory, ...NO_STRIKES, futile: memory.futile + 1, openedAt: now, pending: 'probe' })

/** The cooldown starts anew when the failure is known, not when the restart began. */
const futile: Cell = (memory, now, policy) => {
  const settled: CircuitMemory = { ...memory, pending: 'none' }
  if (memory.pending === 'trip') {
    const trips = [...memory.trips, now.wallMs].filter((t) => Math.abs(now.wallMs - t) <= WEEK_MS)
    const opened: Cell = () => step({ ...settled, trips, openedAt: now }, ['futile', 'tripped'])
    return (trips.length > TOUCHY_TRIPS ? reviewed('trips-often', opened) : opened)(settled, now, policy)
  }
  if (memory.pending === 'probe') return step({ ...settled, openedAt: now }, ['futile', 'reopened'])
  return step(settled, memory.pending === 'restart' ? ['futile'] : [])
}

/** A failing half-open probe may restart once, without a second strike. */
const probe: Cell = (memory) => step(memory, [], true)

/** State × event. While open nothing but a success or an operator moves the circuit. */
const TABLE: Readonly<Record<CircuitState, Readonly<Record<CircuitEvent, Cell>>>> = {
  closed: {
    ok: healthyAgain,
    failure: strike,
    unknown: keep,
    'restart-started': begin,
    'restart-helped': healthyAgain,
    'restart-futile': futile,
    reset: healthyAgain,
  },
  open: {
    ok: close,
    failure: keep,
    unknown: keep,
    'restart-started': keep,
    'restart-helped': close,
    'restart-futile': futile,
    reset: reviewed('reset-early', close),
  },
  'half-open': {
    ok: reviewed('well-after-cooldown', close),
    failure: probe,
    unknown: keep,
    'restart-started': beginProbe,
    'restart-helped': close,
    'restart-futile': futile,
    reset: close,
  },
}

/**
 * One event of the breaker. Pure: the clock comes in as `now`. A pending restart that another event
 * finds was left by a run that died: it is settled as futile first.
 */
export function stepCircuit(
  before: CircuitMemory,
  event: CircuitEvent,
  now: Now,
  policy: CircuitPolicy,
): Step {
  let memory = tamed(before, now)
  const notes: Note[] = []
  if (memory.pending !== 'none' && event === 'failure') {
    const openedAt = memory.openedAt
    const settled = futile(memory, now, policy)
    // The time already waited counts: the run died long ago, its cooldown began then.
    memory = { ...settled.memory, openedAt }
    notes.push(...settled.notes)
  }
  const next = TABLE[circuitState(memory, now, policy)][event](memory, now, policy)
  return { ...next, notes: [...notes, ...next.notes] }
}
