import type { Config } from '../../base/config.ts'
import type { LayerMark, Look, Receipt, Verdict } from '../../base/types.ts'
import type { BrowserJudgement } from '../../browser/types.ts'
import type { UnitState } from '../../host/systemd.ts'
import type { Code } from '../../report/codes.ts'
import type { Line } from '../../report/line.ts'
import type { PageKind } from '../../report/page.ts'
import type { EgressFinding } from './egress-port.ts'

/** What one look at a node saw. A layer above a failing one may be absent: it was not asked. */
export interface Observation {
  readonly node: string
  /** The pause that is in force: the node is looked at and told, and left alone. */
  readonly paused?: { readonly reason: string; readonly by: string }
  readonly netns: Look<{ readonly exists: boolean; readonly isNamespace: boolean }>
  readonly egress?: EgressFinding
  /** This run has restarted the tunnel already: D3 allows one restart a run. */
  readonly tunnelTried?: boolean
  readonly browser?: BrowserJudgement
  /** Which browser answered, kept for the next look; see `readAnswers`. */
  readonly identity?: string
  /** What the last run left; its successor keeps a history of what was news. */
  readonly last?: Receipt
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
  | {
      readonly kind: 'relaunch-browser'
      readonly reason: string
      /** A dead process needs no second opinion later, only a second look. */
      readonly confirm: 'at-once' | 'after-delay'
      readonly halfOpen: boolean
    }
  | { readonly kind: 'restart-tunnel'; readonly reason: string; readonly confirm: 'at-once' }

/** What keeps a run from acting. */
export interface Guard {
  /** A code of the table. */
  readonly name: 'fresh' | 'squatted' | 'not-applied' | 'held' | 'cautious' | 'backoff' | 'crash-loop'
  readonly text: string
  /** Milliseconds until this guard lets go; absent when time alone will not do it. */
  readonly eligibleInMs?: number
}

/** A fault that needs a person, or the end of one; `code` and `text` are what the page says. */
export interface PageEvent {
  readonly kind: PageKind
  readonly failing: boolean
  readonly code: Code
  readonly text: string
}

export interface Decision {
  readonly verdict: Verdict
  readonly layers: readonly LayerMark[]
  readonly actions: readonly Action[]
  readonly guard?: Guard
  /** The same object as the one given when nothing changed: the caller writes no state then. */
  readonly memory: Memory
  readonly pages: readonly PageEvent[]
  readonly lines: readonly Line[]
}
