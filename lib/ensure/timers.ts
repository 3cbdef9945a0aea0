/** What is wrong with a timer or with the service it fires. Pure. */
import { EXIT } from '../base/exit-codes.ts'
import { refusedNext } from './force.ts'
import { SLACK_MS, span } from './limits.ts'
import type { Finding, UnitLook } from './types.ts'

/** A timer that has not fired for this many periods is dead, whatever systemd says of it. */
const STALE_PERIODS = 3
/** An elapse further away than this many periods is not the timer's own (a clock that once was far ahead). */
const FAR_PERIODS = 2
/** systemd could not execute the program (`EXIT_EXEC` in systemd.exec(5)). */
const EXEC_FAILED = 203
/** A unit that fails again within this time of our reset is told and left alone. */
const RESET_AGAIN_MS = 3_600_000

/** What unmasks a unit: without its option, systemctl leaves the mask of this boot in place. */
export function unmask(unit: string, look: UnitLook): string {
  return `systemctl unmask ${look.file === 'masked-runtime' ? '--runtime ' : ''}${unit}`
}

/**
 * The first thing that keeps a timer from firing, or nothing. One finding at most: re-arming mends what
 * comes after it too.
 * @param ranMs when its service was last started, by whomever, in milliseconds of the monotonic clock
 */
export function timerFinding(
  scope: string,
  unit: string,
  look: UnitLook | undefined,
  nowMs: number,
  ranMs?: number,
): Finding | undefined {
  const finding = (
    code: string,
    says: string,
    verbs: ('enable' | 'restart' | 'reset-failed')[],
  ): Finding => ({
    scope,
    code,
    says: `${unit} ${says}`,
    actions: verbs.map((kind) => ({ kind, unit })),
    did: verbs.includes('enable') ? 'enabled and armed' : 'armed again',
  })
  if (look === undefined || look.load === 'not-found') {
    const next = 'scripts/install'
    return { ...finding('timer-missing', 'has no unit file; install the release again', []), next }
  }
  if (look.load === 'masked' || look.file.startsWith('masked')) {
    // Somebody's decision, and a louder one than "disabled": reported, never undone.
    return { ...finding('timer-masked', 'is masked by hand', []), next: unmask(unit, look) }
  }
  if (look.load !== 'loaded') {
    return { ...finding('timer-bad', `cannot be loaded (${look.load})`, []), next: refusedNext(unit, look) }
  }
  const enabled = look.file === 'enabled'
  if (!enabled && look.active !== 'active') {
    return finding('timer-missing', 'is neither enabled nor started', ['enable', 'restart'])
  }
  if (!enabled) {
    const idle = notFiring(look, nowMs, finding, ranMs) !== undefined
    const verbs: ('enable' | 'restart')[] = idle ? ['enable', 'restart'] : ['enable']
    return finding('timer-disabled', `is ${look.file || 'not enabled'}`, verbs)
  }
  if (look.active === 'failed') {
    return finding('timer-failed', `failed (${look.result})`, ['reset-failed', 'restart'])
  }
  if (look.active !== 'active') return finding('timer-stopped', 'is enabled but not started', ['restart'])
  return notFiring(look, nowMs, finding, ranMs)
}

function notFiring(
  look: UnitLook,
  nowMs: number,
  finding: (code: string, says: string, verbs: ['restart']) => Finding,
  ranMs = 0,
): Finding | undefined {
  // While its service runs a timer has no next elapse, and that is well.
  if (look.sub === 'running') return undefined
  const { periodMs, nextMs = Number.POSITIVE_INFINITY } = look
  if (look.sub !== 'waiting') {
    return finding('timer-never', `is ${look.sub}: it never elapses again`, ['restart'])
  }
  if (nextMs === Number.POSITIVE_INFINITY) {
    return finding('timer-infinite', 'is waiting without a next elapse', ['restart'])
  }
  if (periodMs === undefined || periodMs === Number.POSITIVE_INFINITY) {
    return finding('timer-once', 'has no OnUnitActiveSec: it fires once and never again', ['restart'])
  }
  if (nextMs - nowMs > FAR_PERIODS * periodMs + SLACK_MS) {
    return finding('timer-far', `is due only in ${span(nextMs - nowMs)}`, ['restart'])
  }
  // A service that others start more often than that (each end of a browser does) is a run each time, and
  // puts the timer's own elapse off.
  const since = Math.max(look.lastMs ?? 0, look.activeSinceMs ?? 0, ranMs)
  if (nowMs - since > STALE_PERIODS * periodMs + SLACK_MS) {
    const says =
      look.lastMs === undefined
        ? `never triggered in ${span(nowMs - since)}`
        : `last triggered ${span(nowMs - look.lastMs)} ago`
    return finding('timer-stale', `${says}, its period is ${span(periodMs)}`, ['restart'])
  }
  return undefined
}

/**
 * A timer whose service does not end waits for it for ever, and systemd calls that `running`. A service that
 * is still starting is judged by itself.
 */
export function heldFinding(
  scope: string,
  timer: string,
  look: UnitLook | undefined,
  unit: string,
  service: UnitLook | undefined,
  nowMs: number,
): Finding | undefined {
  const { periodMs, lastMs } = look ?? {}
  if (look?.sub !== 'running' || service?.active !== 'active') return undefined
  if (periodMs === undefined || lastMs === undefined) return undefined
  if (nowMs - lastMs <= STALE_PERIODS * periodMs + SLACK_MS) return undefined
  const says = `${timer} last triggered ${span(nowMs - lastMs)} ago, its period is ${span(periodMs)}`
  return {
    scope,
    code: 'timer-held',
    says: `${says}: ${unit} has not ended since`,
    actions: [{ kind: 'stop', unit }],
    did: `${unit} stopped`,
  }
}

/** What is wrong with the service behind a timer. Its verdicts (exit 1 and 2) are not: they are its work. */
export function serviceFinding(
  scope: string,
  unit: string,
  look: UnitLook | undefined,
  nowMs: number,
  resetAgoMs: number | undefined,
): Finding | undefined {
  if (look === undefined || look.load === 'not-found') {
    return {
      scope,
      code: 'service-missing',
      says: `${unit} has no unit file; install the release again`,
      actions: [],
      did: '',
      next: 'scripts/install',
    }
  }
  if (look.load !== 'loaded') {
    const masked = look.load === 'masked'
    return {
      scope,
      code: masked ? 'service-masked' : 'service-bad',
      says: `${unit} ${masked ? 'is masked by hand' : `cannot be loaded (${look.load})`}`,
      actions: [],
      did: '',
      next: masked ? unmask(unit, look) : refusedNext(unit, look),
    }
  }
  if (look.active === 'activating' && look.startedMs !== undefined) {
    const limit = Math.min(look.startTimeoutMs ?? Number.POSITIVE_INFINITY, look.periodMs ?? 300_000)
    const age = nowMs - look.startedMs
    if (age <= limit + SLACK_MS) return undefined
    return {
      scope,
      code: 'activating-too-long',
      says: `${unit} has been activating for ${span(age)} and blocks the runs after it`,
      // Ended by a signal it is `failed`, which here says nothing but that we ended it.
      actions: [
        { kind: 'stop', unit },
        { kind: 'reset-failed', unit },
      ],
      did: 'stopped',
    }
  }
  if (look.active !== 'failed' || isVerdict(look)) return undefined
  const limit = look.result === 'start-limit-hit'
  const code = limit ? 'start-limit-hit' : 'unit-failed'
  const says = `${unit} failed (${look.result}${look.exit?.exited ? ` ${look.exit.status}` : ''})`
  const next = `journalctl -u ${unit} -n 30`
  if (look.exit?.exited && look.exit.status === EXEC_FAILED) {
    const gone = `${says}: its program is missing or cannot be executed; scripts/install puts it back`
    return { scope, code: 'program-gone', says: gone, actions: [], did: '', next, page: true }
  }
  if (resetAgoMs !== undefined && resetAgoMs < RESET_AGAIN_MS) {
    const again = `${says}, again after a reset ${span(resetAgoMs)} ago`
    return { scope, code, says: again, actions: [], did: '', next, page: true }
  }
  return {
    scope,
    code,
    says,
    actions: [{ kind: 'reset-failed', unit }],
    did: `reset; ${next} says why`,
    page: limit,
  }
}

function isVerdict(look: UnitLook): boolean {
  if (look.result !== 'exit-code' || !look.exit?.exited) return false
  return look.exit.status === EXIT.UNHEALTHY || look.exit.status === EXIT.UNKNOWN
}
