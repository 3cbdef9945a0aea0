import type { LayerMark, LogLevel, Verdict } from '../../base/types.ts'
import type { RelayAction, RelayLook } from '../../relay/types.ts'

export interface RelayObservation extends RelayLook {
  /** The pause that is in force. */
  readonly paused?: { readonly by: string; readonly reason: string }
}

/** What is remembered of a node between runs. A node that was always well has no memory at all. */
export interface RelayMemory {
  /** Restarts since the relay was last found well without one. */
  readonly attempts: number
  readonly lastAttempt?: { readonly bootMs: number; readonly bootId: string; readonly helped: boolean }
}

export interface RelayPolicy {
  readonly backoffBaseMs: number
  readonly backoffMaxMs: number
}

export interface RelayDecision {
  readonly verdict: Verdict
  readonly layers: readonly LayerMark[]
  /** The level of the line that tells it; absent when there is nothing to tell. */
  readonly level?: LogLevel
  /** One command that a person runs next. */
  readonly next?: string
  readonly actions: readonly RelayAction[]
  /** The fault needs a person now, whatever the actions bring. */
  readonly page: boolean
  /** Why a planned action is held back: paused, or too soon after the last attempt. */
  readonly guard?: { readonly code: 'paused' | 'relay-backoff' | 'out-of-time'; readonly text: string }
}
