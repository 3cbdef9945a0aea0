import type { Now } from '../../base/types.ts'
import type { Attempt, Memory, Policy } from './types.ts'

/** `--why` shows this many, and no decision needs more. */
const KEPT_ATTEMPTS = 5

export function emptyMemory(now: Now): Memory {
  return { bootId: now.bootId, failures: 0, quickDeaths: 0, attempts: [] }
}

/**
 * What stands in for a state file that cannot be read. What it held is lost (perhaps a hold), so the
 * next attempt waits the longest back-off there is; a healthy look or an operator's release ends it.
 */
export function cautiousMemory(now: Now, policy: Policy): Memory {
  return { ...emptyMemory(now), notBeforeBootMs: now.bootMs + policy.backoffMaxMs }
}

/** An attempt counts as failed from its first moment: a run that is killed in it has not helped. */
export function beginAttempt(
  m: Memory,
  now: Now,
  attempt: { reason: string; ended: string; quickDeath: boolean },
): Memory {
  const { lowerFault: _l, notBeforeBootMs: _n, ...rest } = m
  const entry: Attempt = {
    wallMs: now.wallMs,
    reason: attempt.reason,
    ended: attempt.ended,
    result: 'pending',
    detail: '',
    seconds: 0,
  }
  return {
    ...rest,
    failures: m.failures + 1,
    quickDeaths: attempt.quickDeath ? m.quickDeaths + 1 : 0,
    last: { startBootMs: now.bootMs },
    attempts: [...m.attempts, entry].slice(-KEPT_ATTEMPTS),
  }
}

/** The outcome of the attempt that `beginAttempt` recorded. Success closes a hold; the fifth failure sets it. */
export function endAttempt(
  m: Memory,
  now: Now,
  outcome: { ok: boolean; detail: string; seconds: number },
  policy: Policy,
): Memory {
  const last = { startBootMs: m.last?.startBootMs ?? now.bootMs, endBootMs: now.bootMs }
  const entry = m.attempts.at(-1)
  const result = outcome.ok ? 'ok' : 'failed'
  const attempts = entry
    ? [
        ...m.attempts.slice(0, -1),
        { ...entry, result, detail: outcome.detail, seconds: outcome.seconds } as const,
      ]
    : m.attempts
  const { held: _h, ...rest } = m
  if (outcome.ok) return { ...rest, failures: 0, last, attempts }
  const held = holdOf(m, now, policy)
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

/**
 * Reads what a state file holds. Throws on anything that this version would not have written: the
 * caller then keeps the file aside and goes on with `cautiousMemory`.
 */
export function parseMemory(raw: unknown): Memory {
  const o = record(raw, 'state')
  if (o.version !== undefined && o.version !== 1) throw new Error(`version ${String(o.version)} is not 1`)
  const { held, last, lowerFault } = o
  if (lowerFault !== undefined && lowerFault !== 'netns' && lowerFault !== 'egress') {
    throw new Error('lowerFault is neither netns nor egress')
  }
  const end = last === undefined ? undefined : record(last, 'last').endBootMs
  return {
    bootId: text(o.bootId, 'bootId'),
    failures: number(o.failures, 'failures'),
    quickDeaths: number(o.quickDeaths, 'quickDeaths'),
    ...(held === undefined
      ? {}
      : { held: { sinceWallMs: number(record(held, 'held').sinceWallMs, 'held') } }),
    ...(o.notBeforeBootMs === undefined
      ? {}
      : { notBeforeBootMs: number(o.notBeforeBootMs, 'notBeforeBootMs') }),
    ...(lowerFault === undefined ? {} : { lowerFault }),
    ...(last === undefined
      ? {}
      : {
          last: {
            startBootMs: number(record(last, 'last').startBootMs, 'last.startBootMs'),
            ...(end === undefined ? {} : { endBootMs: number(end, 'last.endBootMs') }),
          },
        }),
    attempts: list(o.attempts, 'attempts').slice(-KEPT_ATTEMPTS).map(parseAttempt),
  }
}

function parseAttempt(raw: unknown): Attempt {
  const o = record(raw, 'attempt')
  const result = o.result
  if (result !== 'pending' && result !== 'ok' && result !== 'failed') throw new Error('attempt.result')
  return {
    wallMs: number(o.wallMs, 'attempt.wallMs'),
    reason: text(o.reason, 'attempt.reason'),
    ended: text(o.ended, 'attempt.ended'),
    result,
    detail: text(o.detail, 'attempt.detail'),
    seconds: number(o.seconds, 'attempt.seconds'),
  }
}

function record(v: unknown, what: string): Record<string, unknown> {
  if (typeof v !== 'object' || v === null || Array.isArray(v)) throw new Error(`${what} is not an object`)
  return v as Record<string, unknown>
}

function list(v: unknown, what: string): unknown[] {
  if (!Array.isArray(v)) throw new Error(`${what} is not a list`)
  return v
}

function text(v: unknown, what: string): string {
  if (typeof v !== 'string') throw new Error(`${what} is not text`)
  return v
}

function number(v: unknown, what: string): number {
  if (typeof v !== 'number' || !Number.isFinite(v) || v < 0) throw new Error(`${what} is not a number ≥ 0`)
  return v
}
