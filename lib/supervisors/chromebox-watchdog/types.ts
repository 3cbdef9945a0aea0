import type { Config } from '../../base/config.ts'
import type { Look } from '../../base/types.ts'
import type { BrowserJudgement } from '../../browser/types.ts'
import type { EgressVerdict } from '../../egress/types.ts'
import type { UnitState } from '../../host/systemd.ts'
import type * as shared from '../types.ts'

/** What one look at a node saw. A layer above a failing one may be absent: it was not asked. */
export interface Observation extends shared.Observed {
  readonly node: string
  readonly netns: Look<{ readonly exists: boolean; readonly isNamespace: boolean }>
  readonly egress?: EgressVerdict
  /** This run has restarted the tunnel already: D3 allows one restart a run. */
  readonly tunnelTried?: boolean
  readonly browser?: BrowserJudgement
  /** Which browser answered, kept for the next look; see `readAnswers`. */
  readonly identity?: string
  /** What the row says and the browser's unit does not: no relaunch could reach it. Only beside a living browser. */
  readonly notApplied?: string
  /** Asked only when there is no process, and then how the last one ended; see `withUnit`. */
  readonly unit?: UnitState
}

/** The part of the configuration that decides. */
export type Policy = Pick<
  Config,
  'freshBrowserMs' | 'backoffBaseMs' | 'backoffMaxMs' | 'holdAfter' | 'halfOpenMs'
>

export interface Attempt {
  readonly wallMs: number
  readonly reason: string
  /** How the browser before this attempt had ended. */
  readonly ended: string
  /** `pending` is also what a run that was killed in the middle leaves behind. */
  readonly result: 'pending' | 'ok' | 'failed'
  readonly detail: string
  readonly seconds: number
}

/** What a run remembers for the next. Times are milliseconds of the boot named in `bootId`. */
export interface Memory {
  readonly bootId: string
  /** Consecutive attempts that did not end healthy; an attempt counts from the moment it starts. */
  readonly failures: number
  readonly held?: { readonly sinceWallMs: number }
  /** No attempt before this moment: the cautious default after a corrupt state file. */
  readonly notBeforeBootMs?: number
  /** A lower layer failed since the last attempt: its recovery earns a held node one attempt. */
  readonly lowerFault?: 'netns' | 'egress'
  /** Browsers in a row that ended by themselves soon after a successful relaunch. */
  readonly quickDeaths: number
  readonly last?: { readonly startBootMs: number; readonly endBootMs?: number }
  /** The last five, oldest first. */
  readonly attempts: readonly Attempt[]
}

export type Action =
  | { readonly kind: 'relaunch-browser'; readonly reason: string; readonly halfOpen: boolean }
  | { readonly kind: 'restart-tunnel'; readonly reason: string }

export type Guard = shared.Guard<
  'fresh' | 'squatted' | 'refuses' | 'not-applied' | 'held' | 'cautious' | 'backoff' | 'crash-loop'
>

/** Guards of faults that no relaunch ends: a person does. */
export const HOPELESS: ReadonlySet<string> = new Set<Guard['code']>(['squatted', 'refuses', 'not-applied'])

export type Decision = shared.Decision<Action, Memory>
export type Outcome = shared.Outcome<Observation, Action, Memory>
export type Round = shared.Round<Observation, Action, Memory>
export type Acted = shared.Acted<Observation, Action, Memory>
export type Done = shared.Done<Action, Memory>
