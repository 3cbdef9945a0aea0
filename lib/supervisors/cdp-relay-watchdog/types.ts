import type { Config } from '../../base/config.ts'
import type { RelayAction, RelayLook } from '../../relay/types.ts'
import type * as Shape from '../types.ts'

export interface Observation extends RelayLook, Shape.Observed {
  /** Taken under the node lock: there was time for a repair before that, and the wait for the lock is no reason against it. */
  readonly again?: true
}

/** What is remembered of a node between runs. A node that was always healthy has no memory at all. */
export interface Memory {
  /** Restarts since the relay was last found healthy without one. */
  readonly attempts: number
  readonly lastAttempt?: { readonly bootMs: number; readonly bootId: string; readonly helped: boolean }
}

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
