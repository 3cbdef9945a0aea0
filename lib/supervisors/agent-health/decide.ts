import type { CircuitMemory, CircuitPolicy, CircuitState, Note } from '../../api/circuit.ts'
import { circuitState, cooldownLeftMs, stepCircuit } from '../../api/circuit.ts'
import type { Finding } from '../../api/judge.ts'
import type { Look, Now, Verdict } from '../../base/types.ts'
import { HEALTHY } from '../../report/verdict.ts'

/** What was seen of one node before anything is decided. */
export interface Observation {
  readonly finding: Finding
  /** Age of the browser's main process in ms; `undefined` inside a seen look: there is no process. */
  readonly browserAgeMs: Look<number | undefined>
  /** A person's pause is in force: watch, do not act. */
  readonly paused: boolean
  readonly evidence: readonly string[]
}

export interface HealthPolicy extends CircuitPolicy {
  /** A browser younger than this is neither struck nor restarted (NETVM_FRESH_BROWSER), in ms. */
  readonly freshBrowserMs: number
  /** A restart and its verification need this much of the run's deadline, in ms. */
  readonly restartNeedsMs: number
}

/** Why a restart that the breaker wants is not made. */
export type Guard =
  | { readonly kind: 'paused' }
  | { readonly kind: 'fresh'; readonly ageMs: number; readonly eligibleInMs: number }
  | { readonly kind: 'age-unknown'; readonly why: string }
  | { readonly kind: 'no-browser' }
  | { readonly kind: 'no-time'; readonly leftMs: number }

export type Action =
  | { readonly kind: 'none' }
  | { readonly kind: 'held'; readonly guard: Guard }
  | { readonly kind: 'restart-browser'; readonly reason: string }

export interface Decision {
  readonly verdict: Verdict
  readonly action: Action
  /** The memory after this look, before any restart. */
  readonly memory: CircuitMemory
  readonly circuit: CircuitState
  readonly cooldownLeftMs: number
  readonly notes: readonly Note[]
}

export function verdictOf(finding: Finding, evidence: readonly string[]): Verdict {
  if (finding.kind === 'ok') return { ...HEALTHY, evidence }
  const { code, reason } = finding
  if (finding.kind === 'unknown') return { state: 'unknown', layer: finding.layer, code, reason, evidence }
  return { state: 'unhealthy', layer: 'api', code, reason, evidence }
}

/** The guard that forbids a restart now, if there is one (DESIGN §7: both supervisors keep it). */
export function guardOf(look: Observation, policy: HealthPolicy, leftMs: number): Guard | undefined {
  if (look.paused) return { kind: 'paused' }
  if (!look.browserAgeMs.seen) return { kind: 'age-unknown', why: look.browserAgeMs.why }
  const age = look.browserAgeMs.value
  // A missing process is chromebox-watchdog's fault to act on; two owners would start it twice.
  if (age === undefined) return { kind: 'no-browser' }
  if (age < policy.freshBrowserMs) {
    return { kind: 'fresh', ageMs: age, eligibleInMs: policy.freshBrowserMs - age }
  }
  if (leftMs < policy.restartNeedsMs) return { kind: 'no-time', leftMs }
  return undefined
}

/**
 * A page that is still loading fails like a sick one, and a paused node may be under somebody's hands:
 * such failures are told, and not counted.
 */
function uncounted(look: Observation, policy: HealthPolicy): boolean {
  const age = look.browserAgeMs.seen ? look.browserAgeMs.value : undefined
  return look.paused || (age !== undefined && age < policy.freshBrowserMs)
}

/**
 * What one run makes of one node. Pure: no clock and no I/O.
 *
 * @param leftMs what is left of the run's total deadline
 */
export function decide(
  look: Observation,
  before: CircuitMemory,
  now: Now,
  policy: HealthPolicy,
  leftMs: number,
): Decision {
  const { finding } = look
  const spared = finding.kind === 'failure' && uncounted(look, policy)
  const step = stepCircuit(before, spared ? 'unknown' : finding.kind, now, policy)
  const guard = guardOf(look, policy, leftMs)
  let action: Action = { kind: 'none' }
  if (finding.kind === 'failure' && (step.wantsRestart || spared)) {
    action = guard ? { kind: 'held', guard } : { kind: 'restart-browser', reason: finding.reason }
  }
  return {
    verdict: verdictOf(look.finding, look.evidence),
    action,
    memory: step.memory,
    circuit: circuitState(step.memory, now, policy),
    cooldownLeftMs: cooldownLeftMs(step.memory, now, policy),
    notes: step.notes,
  }
}
