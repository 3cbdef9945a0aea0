import type { Config } from '../../base/config.ts'
import { amount, flag, list, oneOf, optional, record, text } from '../../base/shape.ts'
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
  /** This run has restarted the tunnel already: decision D3 of CONTRACT.md allows one restart a run. */
  readonly tunnelTried?: boolean
  readonly browser?: BrowserJudgement
  /** Which browser answered, kept for the next look; see `readAnswers`. */
  readonly identity?: string
  /** What the row says and the browser's unit does not: no relaunch could reach it. Only beside a living browser. */
  readonly notApplied?: string
  /** Why the running browser cannot write its profile; see `whyUnwritable`. */
  readonly unwritable?: string
  /** Asked only of a failing browser; where there is no process, how the last one ended. See `withUnit`. */
  readonly unit?: UnitState
  /** Why a start cannot succeed (`whyNoStart`), and what is known of the program on disk (`lookProgram`). */
  readonly noStart?: string
  readonly program?: string
}

/** The part of the configuration that decides. */
export type Policy = Pick<
  Config,
  'freshBrowserMs' | 'backoffBaseMs' | 'backoffMaxMs' | 'holdAfter' | 'halfOpenMs'
>

const attempt = record({
  wallMs: amount,
  reason: text,
  /** How the browser before this attempt had ended. */
  ended: text,
  /** `pending` is also what a run that was killed in the middle leaves behind. */
  result: oneOf(['pending', 'ok', 'failed']),
  detail: text,
  seconds: amount,
  /** How the browser that it started ended, if it did before it was healthy. */
  died: optional(text),
  /** It would only be repeated: the browser refused its profile, which is no fault of the program. */
  final: optional(flag),
})

export type Attempt = ReturnType<typeof attempt>

export const memoryRecord = record({
  version: optional(oneOf([1])),
  bootId: text,
  /** Consecutive attempts that did not end healthy; an attempt counts from the moment it starts. */
  failures: amount,
  held: optional(record({ sinceWallMs: amount })),
  /** No attempt before this moment: the cautious default after a corrupt state file. */
  notBeforeBootMs: optional(amount),
  /** A lower layer failed since the last attempt: its recovery earns a held node one attempt. */
  lowerFault: optional(oneOf(['netns', 'egress'])),
  /** Browsers in a row that ended on their own soon after a successful relaunch. */
  quickDeaths: amount,
  last: optional(record({ startBootMs: amount, endBootMs: optional(amount) })),
  /** The last five, oldest first. */
  attempts: list(attempt),
})

/** What a run remembers for the next. Times are milliseconds of the boot named in `bootId`. */
export type Memory = Omit<ReturnType<typeof memoryRecord>, 'version'>

export type Action =
  | { readonly kind: 'relaunch-browser'; readonly reason: string; readonly halfOpen: boolean }
  | { readonly kind: 'restart-tunnel'; readonly reason: string }

export type Guard = shared.Guard<
  | 'fresh'
  | 'squatted'
  | 'refuses'
  | 'not-applied'
  | 'cannot-start'
  | 'held'
  | 'cautious'
  | 'backoff'
  | 'crash-loop'
>

/** Guards that no time lifts: each is paged, and a person ends it. */
export const NEEDS_PERSON: ReadonlySet<string> = new Set<Guard['code']>([
  'squatted',
  'refuses',
  'not-applied',
  'cannot-start',
])

export type Decision = shared.Decision<Action, Memory>
export type Outcome = shared.Outcome<Observation, Action, Memory>
export type Round = shared.Round<Observation, Action, Memory>
export type Acted = shared.Acted<Observation, Action, Memory>
export type Done = shared.Done<Action, Memory>
