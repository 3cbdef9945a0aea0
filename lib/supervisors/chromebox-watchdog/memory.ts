import { now } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import { anchoredMs, backoffMs, certainMs, isAhead, type Moment, waitLeftMs } from '../../base/damping.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import { coarse } from '../../base/text.ts'
import type { Now } from '../../base/types.ts'
import { text as textOf } from '../../report/codes.ts'
import { readState } from '../../store/state.ts'
import {
  type Attempt,
  type Guard,
  type Memory,
  memoryRecord,
  type Observation,
  type Policy,
} from './types.ts'

/** `--why` shows this many, and no decision needs more. */
const KEPT_ATTEMPTS = 5

export function emptyMemory(now: Now): Memory {
  return { bootId: now.bootId, failures: 0, quickDeaths: 0, attempts: [] }
}

/**
 * What stands in for a state file that cannot be read. What it held is lost (perhaps a hold), so the
 * next attempt waits the longest back-off there is; a healthy look or an operator's release ends it.
 */
export function cautiousMemory(now: Now, policy: Pick<Policy, 'backoffMaxMs'>): Memory {
  return { ...emptyMemory(now), notBeforeBootMs: now.bootMs + policy.backoffMaxMs }
}

/** An attempt counts as failed from its first moment: a run that is killed in it has not helped. */
export function beginAttempt(
  m: Memory,
  now: Now,
  attempt: { reason: string; ended: string; quickDeath: boolean },
): Memory {
  const { lowerFault: _l, notBeforeBootMs: _n, ...rest } = m
  const { reason, ended, quickDeath } = attempt
  const entry: Attempt = { wallMs: now.wallMs, reason, ended, result: 'pending', detail: '', seconds: 0 }
  return {
    ...rest,
    failures: m.failures + 1,
    quickDeaths: quickDeath ? m.quickDeaths + 1 : 0,
    last: { startBootMs: now.bootMs },
    attempts: [...m.attempts, entry].slice(-KEPT_ATTEMPTS),
  }
}

/**
 * The outcome of the attempt that `beginAttempt` recorded. Success closes a hold; the fifth failure sets it, and one
 * that further attempts would only repeat (`final`) at once.
 */
export function endAttempt(
  m: Memory,
  now: Now,
  { ok, ...outcome }: { ok: boolean } & Pick<Attempt, 'detail' | 'seconds' | 'died' | 'final'>,
  policy: Policy,
): Memory {
  const last = { startBootMs: m.last?.startBootMs ?? now.bootMs, endBootMs: now.bootMs }
  const result = ok ? ('ok' as const) : ('failed' as const)
  const attempts = m.attempts.map((a, i) => (i === m.attempts.length - 1 ? { ...a, result, ...outcome } : a))
  const { held: _h, ...rest } = m
  if (ok) return { ...rest, failures: 0, last, attempts }
  const held = holdOf(m, now, outcome.final ? { ...policy, holdAfter: 1 } : policy)
  return { ...rest, last, attempts, ...(held && { held }) }
}

/** The hold that is in force. A run that was killed in the last attempt allowed has not written it down. */
export function holdOf(m: Memory, now: Now, policy: Policy): Memory['held'] {
  return m.held ?? (m.failures >= policy.holdAfter ? { sinceWallMs: now.wallMs } : undefined)
}

/** The operator's word: everything that stops an attempt is forgotten, the history is kept. */
export function releaseMemory(m: Memory, now: Now): Memory {
  return { ...emptyMemory(now), attempts: m.attempts }
}

/** When the waits began: the end of the last attempt (its start, when it was cut short), and the loss of a state file. */
function waitsOf(m: Memory, policy: Policy): { readonly last?: Moment; readonly caution?: Moment } {
  const { bootId, last, notBeforeBootMs } = m
  return {
    ...(last && { last: { bootId, bootMs: last.endBootMs ?? last.startBootMs } }),
    ...(notBeforeBootMs !== undefined && {
      caution: { bootId, bootMs: notBeforeBootMs - policy.backoffMaxMs },
    }),
  }
}

/**
 * Memory of another boot keeps its counts and its hold, and its waits start again with this boot: a reboot must never
 * earn an attempt that the wait forbade. What is ahead of the clock starts again now.
 */
export function reanchor(m: Memory, now: Now, policy: Policy): Memory {
  const { last, caution } = waitsOf(m, policy)
  if (m.bootId === now.bootId && ![last, caution].some((began) => began && isAhead(began, now))) return m
  const { notBeforeBootMs: _n, last: _l, ...rest } = m
  const waits = m.failures > 0 || m.held !== undefined || m.quickDeaths > 0
  return {
    ...rest,
    bootId: now.bootId,
    // Without an end: what a reboot ended has not died on its own.
    ...(waits && last && { last: { startBootMs: anchoredMs(last, now) } }),
    ...(caution && { notBeforeBootMs: anchoredMs(caution, now) + policy.backoffMaxMs }),
  }
}

/** Milliseconds until a held node has its half-open attempt. A lower layer that failed since earns it one sooner. */
export function holdLeftMs(m: Memory, now: Now, policy: Policy): number {
  const { last } = waitsOf(m, policy)
  const waitMs = m.lowerFault === undefined ? policy.halfOpenMs : policy.backoffBaseMs
  return last === undefined ? 0 : waitLeftMs(last, waitMs, now)
}

/** A lower layer fails: see `Memory.lowerFault`. */
export function lowerFault(m: Memory, layer: 'netns' | 'egress'): Memory {
  return m.lowerFault === layer ? m : { ...m, lowerFault: layer }
}

/** SIGKILL and SIGTERM. */
const FROM_OUTSIDE: ReadonlySet<number> = new Set([9, 15])

/**
 * True when the browser that the last attempt brought back ended on its own within the guard time. A
 * KILL or TERM from outside is no crash; a browser that answers and then dies every few seconds is.
 */
export function isQuickDeath(o: Observation, m: Memory, now: Now, policy: Policy): boolean {
  if (o.browser?.verdict.code !== 'no-process' || m.attempts.at(-1)?.result !== 'ok') return false
  const bootMs = m.last?.endBootMs
  if (bootMs === undefined || certainMs({ bootMs, bootId: m.bootId }, now) >= policy.freshBrowserMs)
    return false
  const ended = o.unit?.ended
  return !(ended?.how === 'signal' && FROM_OUTSIDE.has(ended.status ?? 0))
}

/**
 * What earlier attempts forbid now, in the order in which people want to hear of it.
 * @param quick browsers in a row that ended on their own, the last one included
 */
export function waits(m: Memory, quick: number, now: Now, policy: Policy): Guard[] {
  const { last, caution } = waitsOf(m, policy)
  const waitFrom = (waitMs: number) => (last === undefined ? 0 : waitLeftMs(last, waitMs, now))
  const found: Guard[] = []
  const add = (code: Guard['code'], eligibleInMs: number, words: (wait: string) => string) => {
    const wait = coarse(eligibleInMs, Math.ceil)
    if (eligibleInMs > 0) found.push({ code, text: words(wait), eligibleInMs })
  }
  const { failures } = m
  if (m.held) add('held', holdLeftMs(m, now, policy), (wait) => textOf('held', { failures, wait }))
  else {
    const failed = `${failures} failed relaunch${failures === 1 ? '' : 'es'}`
    add('backoff', waitFrom(backoffMs(failures, policy)), (wait) => textOf('backoff', { failed, wait }))
  }
  const cautious = caution === undefined ? 0 : waitLeftMs(caution, policy.backoffMaxMs, now)
  add('cautious', cautious, (wait) => textOf('cautious', { wait }))
  const loop = waitFrom(backoffMs(quick - policy.holdAfter, policy))
  add('crash-loop', loop, (wait) => textOf('crash-loop', { times: quick, wait }))
  return found
}

/**
 * May an attempt that cannot be recorded (a full disk) go on? Without memory nothing contains it, so never
 * against a living browser, and for a dead one not right after another that memory does not know either:
 * it would be one for every crash. The receipt, on another file system, has a record of that one.
 * @param alive a browser runs that would be ended
 * @returns why not, or undefined
 */
export function unrecorded(
  { last }: Observation,
  memory: Memory,
  { problem, alive }: { readonly problem: string; readonly alive: boolean },
  now: Now,
  policy: Policy,
): string | undefined {
  if (alive) return `not relaunched: ${problem}, so nothing would hold the next attempt back`
  const known = memory.attempts.at(-1)?.wallMs ?? 0
  const acted = last?.actions.some((a) => a.kind === 'relaunch-browser' && a.startedWallMs > known)
  const soon = last && acted && certainMs(last.at, now) < policy.backoffBaseMs
  return soon ? `not relaunched again so soon: ${problem}` : undefined
}

/**
 * Reads what a state file holds. Throws on anything that this version would not have written: the
 * caller then keeps the file aside and goes on with `cautiousMemory`.
 */
export function parseMemory(raw: unknown): Memory {
  const { version: _, ...m } = memoryRecord(raw)
  return { ...m, attempts: m.attempts.slice(-KEPT_ATTEMPTS) }
}

/** The memory of a node for whoever is no run of the watchdog. */
export function readMemory(p: Paths, config: Config, node: string): Memory {
  const at = now(p)
  const cautious = () => cautiousMemory(at, config)
  return readState(statePath(p, 'chromebox-watchdog', node), parseMemory, cautious, () => emptyMemory(at))
    .value
}
