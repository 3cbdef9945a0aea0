/** What is wrong with a timer or with the service it fires. Pure. */
import { EXIT } from '../base/exit-codes.ts'
import { act, isMasked, repair, report, SLACK_MS, type Subject, span, unmask } from './finding.ts'
import { refusedNext } from './force.ts'
import type { Finding, UnitLook, Verb } from './types.ts'

/** A timer that has not fired for this many periods is dead, whatever systemd says of it. */
const STALE_PERIODS = 3
/** An elapse further away than this many periods is not the timer's own (a clock that once was far ahead). */
const FAR_PERIODS = 2
/** systemd could not execute the program (`EXIT_EXEC` in systemd.exec(5)). */
const EXEC_FAILED = 203
/** A unit that fails again within this time of our reset is reported and left alone. */
const RESET_AGAIN_MS = 3_600_000

/**
 * The first thing that keeps a timer from firing, or nothing. One finding at most: re-arming repairs what
 * comes after it too.
 * @param ranMs when its service was last started, by whomever, in milliseconds of the monotonic clock
 */
export function timerFinding(timer: Subject, nowMs: number, ranMs = 0): Finding | undefined {
  const { scope, unit, look } = timer
  const drift = (code: string, says: string, ...verbs: Verb[]) => {
    const did = verbs.includes('enable') ? 'enabled and armed' : 'armed again'
    return repair(scope, code, `${unit} ${says}`, act(unit, ...verbs), did)
  }
  const bad = notLoaded(timer, 'timer')
  if (bad !== undefined || look === undefined) return bad
  const enabled = look.file === 'enabled'
  if (!enabled && look.active !== 'active') {
    return drift('timer-missing', 'is neither enabled nor started', 'enable', 'restart')
  }
  const idle = notFiring(look, nowMs, ranMs)
  if (!enabled) {
    const verbs: Verb[] = idle ? ['enable', 'restart'] : ['enable']
    return drift('timer-disabled', `is ${look.file || 'not enabled'}`, ...verbs)
  }
  if (look.active === 'failed') {
    return drift('timer-failed', `failed (${look.result})`, 'reset-failed', 'restart')
  }
  if (look.active !== 'active') return drift('timer-stopped', 'is enabled but not started', 'restart')
  return idle && drift(...idle, 'restart')
}

/** A unit that systemd has not loaded: a timer, or the service behind it. */
function notLoaded({ scope, unit, look }: Subject, kind: 'timer' | 'service'): Finding | undefined {
  const finding = (what: string, says: string, next: string) =>
    report(scope, `${kind}-${what}`, `${unit} ${says}`, next)
  if (look === undefined || look.load === 'not-found') {
    return finding('missing', 'has no unit file; install the release again', 'scripts/install')
  }
  if (look.load === 'masked' || (kind === 'timer' && isMasked(look))) {
    return finding('masked', 'is masked by hand', unmask(unit, look))
  }
  if (look.load === 'loaded') return undefined
  return finding('bad', `cannot be loaded (${look.load})`, refusedNext(unit, look))
}

/** Code and words for an active timer that will not fire in time. */
function notFiring(look: UnitLook, nowMs: number, ranMs: number): [code: string, says: string] | undefined {
  // While its service runs a timer has no next elapse, and that is as it should be.
  if (look.sub === 'running') return undefined
  const { periodMs, nextMs = Number.POSITIVE_INFINITY } = look
  if (look.sub !== 'waiting') return ['timer-never', `is ${look.sub}: it never elapses again`]
  if (nextMs === Number.POSITIVE_INFINITY) return ['timer-infinite', 'is waiting without a next elapse']
  if (periodMs === undefined || periodMs === Number.POSITIVE_INFINITY) {
    return ['timer-once', 'has no OnUnitActiveSec: it fires once and never again']
  }
  if (nextMs - nowMs > FAR_PERIODS * periodMs + SLACK_MS) {
    return ['timer-far', `is due only in ${span(nextMs - nowMs)}`]
  }
  // A service that others start more often than that (each end of a browser does) is a run each time, and
  // puts the timer's own elapse off.
  const since = Math.max(look.lastMs ?? 0, look.activeSinceMs ?? 0, ranMs)
  if (nowMs - since <= STALE_PERIODS * periodMs + SLACK_MS) return undefined
  const says =
    look.lastMs === undefined
      ? `never triggered in ${span(nowMs - since)}`
      : `last triggered ${span(nowMs - look.lastMs)} ago`
  return ['timer-stale', `${says}, its period is ${span(periodMs)}`]
}

/**
 * A timer whose service does not end waits for it for ever, and systemd calls that `running`. A service that
 * is still starting is judged by `serviceFinding`.
 */
export function heldFinding(timer: Subject, { unit, look }: Subject, nowMs: number): Finding | undefined {
  const { periodMs, lastMs } = timer.look ?? {}
  if (timer.look?.sub !== 'running' || look?.active !== 'active') return undefined
  if (periodMs === undefined || lastMs === undefined) return undefined
  if (nowMs - lastMs <= STALE_PERIODS * periodMs + SLACK_MS) return undefined
  const triggered = `${timer.unit} last triggered ${span(nowMs - lastMs)} ago, its period is ${span(periodMs)}`
  const says = `${triggered}: ${unit} has not ended since`
  return repair(timer.scope, 'timer-held', says, act(unit, 'stop'), `${unit} stopped`)
}

/**
 * What is wrong with the service behind a timer. Its verdicts (exit 1 and 2) are not: they are its work.
 * @param periodMs the timer's
 * @param resetAgoMs when we last reset its failure
 */
export function serviceFinding(
  service: Subject,
  periodMs: number | undefined,
  nowMs: number,
  resetAgoMs: number | undefined,
): Finding | undefined {
  const { scope, unit, look } = service
  const bad = notLoaded(service, 'service')
  if (bad !== undefined || look === undefined) return bad
  if (look.active === 'activating' && look.startedMs !== undefined) {
    const limit = Math.min(look.startTimeoutMs ?? Number.POSITIVE_INFINITY, periodMs ?? 300_000)
    const age = nowMs - look.startedMs
    if (age <= limit + SLACK_MS) return undefined
    const says = `${unit} has been activating for ${span(age)} and blocks the runs after it`
    // Ended by a signal it is `failed`, which here says nothing but that we ended it.
    return repair(scope, 'activating-too-long', says, act(unit, 'stop', 'reset-failed'), 'stopped')
  }
  if (look.active !== 'failed' || isVerdict(look)) return undefined
  const limit = look.result === 'start-limit-hit'
  const code = limit ? 'start-limit-hit' : 'unit-failed'
  const says = `${unit} failed (${look.result}${look.exit?.exited ? ` ${look.exit.status}` : ''})`
  const next = `journalctl -u ${unit} -n 30`
  if (look.exit?.exited && look.exit.status === EXEC_FAILED) {
    const gone = `${says}: its program is missing or cannot be executed; scripts/install puts it back`
    return { ...report(scope, 'program-gone', gone, next), page: true }
  }
  if (resetAgoMs !== undefined && resetAgoMs < RESET_AGAIN_MS) {
    const again = `${says}, again after a reset ${span(resetAgoMs)} ago`
    return { ...report(scope, code, again, next), page: true }
  }
  return { ...repair(scope, code, says, act(unit, 'reset-failed'), `reset; ${next} says why`), page: limit }
}

function isVerdict(look: UnitLook): boolean {
  if (look.result !== 'exit-code' || !look.exit?.exited) return false
  return look.exit.status === EXIT.UNHEALTHY || look.exit.status === EXIT.UNKNOWN
}
