import { type Deadline, deadlineIn } from '../base/deadline.ts'
import type { Node } from '../base/types.ts'
import { type Ended, start, type UnitState } from '../host/systemd.ts'
import { text } from '../report/codes.ts'
import { withLock } from '../store/lock.ts'
import { type BrowserContext, lookBrowser } from './look.ts'
import { PROFILE_IN_USE, removeSingleton } from './singleton.ts'
import { whyNoStart } from './startable.ts'
import { stopBoundMs, stopBrowser } from './stop.ts'
import type { BrowserJudgement } from './types.ts'
import { browserUnit, lastWords, profileReset, type Verified, verifyBrowser } from './verify.ts'

/** `TimeoutStartSec` of chromebox@.service in milliseconds; the start itself ends at exec. */
const START_MS = 30_000
/**
 * States of the unit without a process in which there is nothing to stop. A unit that is starting is joined by our own
 * start: to stop it would cancel the restart that somebody else asked for.
 */
const AT_REST: readonly (string | undefined)[] = ['inactive', 'failed', 'activating', undefined]
/** What systemctl and the looks around a relaunch take together, generously, in milliseconds. */
const OVERHEAD_MS = 2_000

export type RelaunchResult =
  /** Nothing was touched; `why` is for people (`skip kill: launched 12s ago`). */
  | {
      readonly did: 'nothing'
      readonly why: string
      /** Of the guard that no time lifts, where it is that. */
      readonly code?: 'cannot-start'
      readonly judgement: BrowserJudgement
    }
  | {
      readonly did: 'ok' | 'failed'
      /** From the stop to the healthy look, or to the end of the time. */
      readonly durationMs: number
      /** Failed: the sentence for people, with how the new browser ended if it did. Ok: empty. */
      readonly reason: string
      readonly judgement: BrowserJudgement
      /** How the browser before this relaunch had ended. */
      readonly ended: Ended
      /** How the new browser ended, if it did. */
      readonly died?: Ended
      readonly notes: readonly string[]
    }

export interface RelaunchOptions {
  /** The finding that asks for it; with the program's name it is what the lock says while it is held. */
  readonly why: string
  readonly program?: string
  /** How long to wait for the node lock, in milliseconds. Default 15 s, as under a timer. */
  readonly lockWaitMs?: number
  /** The end of the caller's run. Default 100 s. */
  readonly deadline?: Deadline
  /** The browser's unit, if the caller has asked a moment ago. */
  readonly unit?: UnitState
  /** A second look after the lock was taken; text says why nothing is to be done after all. */
  readonly stillNeeded?: (judgement: BrowserJudgement) => Promise<string | undefined> | string | undefined
  /**
   * Called under the lock, right before anything is touched: record the attempt here. Text says why
   * nothing may be touched after all (`alive`: a browser runs that would be ended, for a start of this `unit`).
   */
  readonly begin?: (
    ended: Ended,
    alive: boolean,
    unit: UnitState | undefined,
  ) => string | undefined | Promise<string | undefined>
}

/** Milliseconds that a relaunch may need; starting one with less left would leave it unverified. */
export function relaunchNeedsMs(config: BrowserContext['config'], alive: boolean): number {
  return (alive ? stopBoundMs(config.stopGraceMs) : 0) + verifyMs(config) + OVERHEAD_MS
}

/** The time in which a new browser must become healthy; bounded, because the run itself is. */
function verifyMs(config: BrowserContext['config']): number {
  return Math.min(60_000, config.relaunchChecks * config.relaunchIntervalMs)
}

/**
 * Restarts a node's browser: takes the node lock, looks again, keeps the fresh-browser guard, stops,
 * starts, and verifies by looking. The one actuator that every supervisor uses.
 *
 * @throws LockedError when another run holds the node
 */
export async function relaunchBrowser(
  ctx: BrowserContext,
  node: Node,
  opts: RelaunchOptions,
): Promise<RelaunchResult> {
  const doing = `${opts.program ?? 'netvm'}: relaunching the browser (${opts.why})`
  const deadline = opts.deadline ?? deadlineIn(100_000)
  return withLock(ctx.p, `node-${node.name}`, doing, { waitMs: opts.lockWaitMs ?? 15_000 }, async () => {
    const judgement = await lookBrowser(ctx, node)
    const why = await opts.stillNeeded?.(judgement)
    if (why !== undefined) return { did: 'nothing', why, judgement }
    return relaunchLocked(ctx, node, judgement, { ...opts, deadline })
  })
}

/** The same for a caller that holds the node lock and has just looked (`judgement`). */
export async function relaunchLocked(
  ctx: BrowserContext,
  node: Node,
  judgement: BrowserJudgement,
  opts: RelaunchOptions & { readonly deadline: Deadline },
): Promise<RelaunchResult> {
  const { config } = ctx
  const unknown = judgement.verdict.state === 'unknown' && judgement.verdict.layer === 'process'
  if (unknown) return { did: 'nothing', why: judgement.verdict.reason, judgement }
  const age = judgement.process?.ageMs
  if (age !== undefined && age < config.freshBrowserMs) {
    return { did: 'nothing', why: `skip kill: launched ${Math.floor(age / 1000)}s ago`, judgement }
  }
  const before = opts.unit ?? (await browserUnit(node.name))
  const alive = age !== undefined || !AT_REST.includes(before?.active)
  if (opts.deadline.leftMs() < relaunchNeedsMs(config, alive)) {
    return { did: 'nothing', why: 'too little time left in this run, the next one relaunches', judgement }
  }
  const noStart = whyNoStart(ctx.p, node.name, before)
  if (noStart !== undefined) {
    const code = 'cannot-start'
    return { did: 'nothing', code, why: text(code, { why: noStart }), judgement }
  }
  const ended: Ended = alive
    ? { how: 'unknown', detail: 'it was running' }
    : (before?.ended ?? { how: 'unknown', detail: 'systemctl did not say' })
  const refused = await opts.begin?.(ended, alive, before)
  if (refused !== undefined) return { did: 'nothing', why: refused, judgement }
  const began = performance.now()
  const beganWallMs = Date.now()
  const notes: string[] = []
  const fail = (reason: string, seen = judgement): RelaunchResult => {
    const durationMs = Math.round(performance.now() - began)
    return { did: 'failed', durationMs, reason, judgement: seen, ended, notes }
  }
  const load = before?.load ?? ''
  if (alive && load !== '' && load !== 'loaded') {
    // A stopped browser that nothing can start again is worse than a failing one.
    return fail(
      `chromebox@${node.name}.service is ${load}, so nothing was stopped: it could not be started again`,
    )
  }
  // Whatever the unit says, a browser of the profile may run beside it (a hand-started one).
  if (alive || judgement.verdict.evidence.length > 0) {
    const stopped = await stopBrowser(ctx, node)
    notes.push(...stopped.notes)
    if (stopped.stillThere) return fail(stopped.stillThere, await lookBrowser(ctx, node))
  }
  let got = await startAndVerify(ctx, node, opts.deadline)
  if (typeof got !== 'string' && isProfileInUse(got)) {
    const removed = removeSingleton(ctx.p, node.name)
    notes.push(removed.seen ? removed.value : `Singleton links left alone: ${removed.why}`)
    if (removed.seen) got = await startAndVerify(ctx, node, opts.deadline)
  }
  // What was seen before the stop is no longer so.
  if (typeof got === 'string') return fail(got, await lookBrowser(ctx, node))
  const reset = profileReset(ctx, node.name, beganWallMs)
  if (reset) notes.push(reset)
  const durationMs = Math.round(performance.now() - began)
  const died = got.ended === undefined ? {} : { died: got.ended }
  const shared = { durationMs, judgement: got.judgement, ended, notes, ...died }
  if (got.ok) return { did: 'ok', reason: '', ...shared }
  return { did: 'failed', reason: await failure(node, got, beganWallMs), ...shared }
}

async function startAndVerify(
  ctx: BrowserContext,
  node: Node,
  deadline: Deadline,
): Promise<Verified | string> {
  const unit = `chromebox@${node.name}.service`
  // A failed unit starts as it is: it has no start limit to forget.
  const started = await start(unit, START_MS)
  if (!started.ok) return started.detail
  const leftMs = Math.max(1000, deadline.leftMs() - 1000)
  return verifyBrowser(ctx, node, deadlineIn(Math.min(verifyMs(ctx.config), leftMs)))
}

function isProfileInUse(got: Verified): boolean {
  return got.ended?.how === 'exit-code' && got.ended.status === PROFILE_IN_USE
}

async function failure(node: Node, got: Verified, sinceWallMs: number): Promise<string> {
  const { reason, evidence } = got.judgement.verdict
  const facts = [...evidence]
  if (got.ended) facts.push(`it ended: ${got.ended.detail}`)
  const words = await lastWords(node.name, sinceWallMs, isProfileInUse(got))
  if (words !== '') facts.push(`it said: ${words}`)
  return facts.length > 0 ? `${reason} (${facts.join('; ')})` : reason
}
