import { checkBoundMs } from '../../api/check.ts'
import type { Config } from '../../base/config.ts'
import { relaunchNeedsMs } from '../../browser/relaunch.ts'
import type { HealthPolicy } from './decide.ts'

/** Period of agent-health.timer, in ms. */
export const PERIOD_MS = 300_000
/** The whole run, in ms: below the unit's TimeoutStartSec of 280 s, which is below the period. */
export const RUN_MS = 250_000
/** Two failures more than three periods apart are not consecutive: a run may have been missed in between. */
const STRIKE_WINDOW_MS = 3 * PERIOD_MS
/** A run under a timer waits this long for the node lock: another supervisor is at work there, in ms. */
export const TIMER_LOCK_MS = 15_000

export function policyOf(config: Config): HealthPolicy {
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
