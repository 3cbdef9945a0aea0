import { checkBoundMs } from '../../api/check.ts'
import type { CircuitMemory, CircuitPolicy } from '../../api/circuit.ts'
import type { Finding } from '../../api/judge.ts'
import type { Config } from '../../base/config.ts'
import type { Look, Node } from '../../base/types.ts'
import { relaunchNeedsMs } from '../../browser/relaunch.ts'
import type { BrowserJudgement } from '../../browser/types.ts'
import type * as Shape from '../types.ts'

/** What was seen of one node before anything is decided. */
export interface Observation extends Shape.Observed {
  readonly node: Pick<Node, 'name' | 'apiCheck'>
  readonly finding: Finding
  /** Age of the browser's main process in ms; `undefined` inside a seen look: there is no process. */
  readonly browserAgeMs: Look<number | undefined>
  readonly evidence: readonly string[]
  /** The second look, under the node lock. */
  readonly again?: SecondLook
}

export interface SecondLook {
  readonly judgement: BrowserJudgement
  /** Asked only of a browser that may be restarted for it. */
  readonly finding?: Finding
}

export interface Policy extends CircuitPolicy {
  /** A browser younger than this is neither struck nor restarted (NETVM_FRESH_BROWSER), in ms. */
  readonly freshBrowserMs: number
  /** A restart and its verification need this much of the run's deadline, in ms. */
  readonly restartNeedsMs: number
  /** What is left of that deadline, in ms; absent where nothing will be done. */
  readonly leftMs?: number
}

/** Period of agent-health.timer, in ms. */
export const PERIOD_MS = 300_000
/** Two failures more than three periods apart are not consecutive: a run may have been missed in between. */
const STRIKE_WINDOW_MS = 3 * PERIOD_MS
/** A run under a timer waits this long for the node lock: another supervisor is at work there, in ms. */
export const TIMER_LOCK_MS = 15_000

export function policyOf(config: Config): Policy {
  return {
    strikeLimit: config.apiStrikes,
    strikeWindowMs: STRIKE_WINDOW_MS,
    futileLimit: config.futileLimit,
    cooldownMs: config.circuitCooldownMs,
    freshBrowserMs: config.freshBrowserMs,
    // Lock, the look under it (half of the bound: it is not interrupted as a rule), restart, look again.
    restartNeedsMs: TIMER_LOCK_MS + checkBoundMs(config) + relaunchNeedsMs(config, true),
  }
}

/** Why a restart that the breaker wants is not made, as `--json` reports it. */
export type Held =
  | { readonly kind: 'paused' }
  | { readonly kind: 'fresh'; readonly ageMs: number; readonly eligibleInMs: number }
  | { readonly kind: 'age-unknown'; readonly why: string }
  | { readonly kind: 'no-browser' }
  | { readonly kind: 'no-time'; readonly leftMs: number }

export interface Guard extends Shape.Guard {
  /** Of the first look; a second one that finds nothing to repair has words only. */
  readonly held?: Held
}

export interface Action {
  readonly kind: 'restart-browser'
  readonly reason: string
}

/** How a restart ended; `finding` is the last look at the API. */
export interface Restarted {
  readonly finding: Finding
  readonly durationMs: number
}

export type Decision = Shape.Decision<Action, CircuitMemory>
export type Outcome = Shape.Outcome<Observation, Action, CircuitMemory>
