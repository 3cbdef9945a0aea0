import type { Config } from '../../base/config.ts'
import { count, flag, number, optional, record, text } from '../../base/shape.ts'
import type { RelayAction, RelayLook } from '../../relay/types.ts'
import type * as Shape from '../types.ts'

export interface Observation extends RelayLook, Shape.Observed {
  /** Taken under the node lock: there was time for a repair before that, and the wait for the lock is no reason against it. */
  readonly again?: true
}

/** Reads a state file's content. @throws when it is not one */
export const parseMemory = record({
  /** Restarts since the relay was last found healthy without one. */
  attempts: count,
  lastAttempt: optional(record({ bootMs: number, bootId: text, helped: flag })),
})

/** What is remembered of a node between runs. A node that was always healthy has no memory at all. */
export type Memory = ReturnType<typeof parseMemory>

export interface Policy extends Pick<Config, 'backoffBaseMs' | 'backoffMaxMs'> {
  /** A person has named the nodes, and asks for them now: the count of attempts stands, their wait does not. */
  readonly named?: boolean
  /** What is left of the run, in ms; absent where nothing will be done. */
  readonly leftMs?: number
}

export type Decision = Shape.Decision<RelayAction, Memory>
export type Outcome = Shape.Outcome<Observation, RelayAction, Memory>

/** How a restart ended. */
export interface Restarted {
  /** Absent: it helped. */
  readonly failure?: string
  readonly durationMs: number
}
