import { checkBoundMs } from '../../api/check.ts'
import { type CircuitMemory, type Note, stepCircuit } from '../../api/circuit.ts'
import type { Finding } from '../../api/judge.ts'
import { now } from '../../base/clock.ts'
import { errorLine, LockedError } from '../../base/errors.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import { type RelaunchResult, relaunchBrowser } from '../../browser/relaunch.ts'
import type { BrowserJudgement } from '../../browser/types.ts'
import type { Decision, HealthPolicy } from './decide.ts'
import { saveMemory } from './memory.ts'
import { checkThroughSlot, type HealthContext } from './observe.ts'

export interface RestartContext extends HealthContext {
  readonly policy: HealthPolicy
  readonly lockWaitMs: number
}

export type RestartOutcome =
  /** Nothing was touched; `why` is for people. */
  | {
      readonly did: 'nothing'
      readonly why: string
      readonly memory: CircuitMemory
      /** The second look found the API healthy. */
      readonly healthy: boolean
      readonly notes: readonly Note[]
    }
  | {
      readonly did: 'helped' | 'futile'
      readonly memory: CircuitMemory
      readonly notes: readonly Note[]
      readonly action: ReceiptAction
      /** The last look at the API. */
      readonly finding: Finding
    }

/** Wait for a slot while the node lock is held or a restart is being verified, in ms. */
const SHORT_SLOT_WAIT_MS = 10_000
/** A page that has just loaded may still log in: the API gets this many looks, in this rhythm. */
const VERIFY_LOOKS = 3
const VERIFY_PAUSE_MS = 5_000

/**
 * Restarts the browser through the actuator that all supervisors share, and looks at the API again. The
 * attempt is on disk, counted as futile, before anything is touched; only a good look takes that back.
 */
export async function restartForApi(
  ctx: RestartContext,
  node: Node,
  decision: Decision,
): Promise<RestartOutcome> {
  const { reason } = decision.verdict
  const wallMs = Date.now()
  const began = performance.now()
  let begun: CircuitMemory | undefined
  let result: RelaunchResult | undefined
  let failure = ''
  let second: Finding | undefined
  try {
    result = await relaunchBrowser(ctx, node, {
      why: reason,
      program: 'agent-health',
      lockWaitMs: ctx.lockWaitMs,
      // What is left after the relaunch belongs to the look that judges it.
      deadline: { leftMs: () => Math.max(0, ctx.deadline.leftMs() - checkBoundMs(ctx.config) / 2) },
      stillNeeded: async (judgement) => {
        const look = await lookAgain(ctx, node, judgement)
        second = look.finding
        return look.why
      },
      begin: () => {
        const next = stepCircuit(decision.memory, 'restart-started', now(ctx.p), ctx.policy).memory
        saveMemory(ctx.p, node.name, next)
        begun = next
      },
    })
  } catch (err) {
    if (begun === undefined) return nothingDone(ctx, node, decision, refusal(err))
    failure = errorLine(err)
  }
  if (begun === undefined || result?.did === 'nothing') {
    const why = result?.did === 'nothing' ? result.why : failure
    return nothingDone(ctx, node, decision, why, second)
  }
  const finding: Finding =
    result?.did === 'ok'
      ? await verify(ctx, node)
      : { kind: 'unknown', code: 'browser-not-back', reason: result?.reason ?? failure, layer: 'process' }
  const helped = finding.kind === 'ok'
  const step = stepCircuit(begun, helped ? 'restart-helped' : 'restart-futile', now(ctx.p), ctx.policy)
  saveMemory(ctx.p, node.name, step.memory)
  const action: ReceiptAction = {
    kind: 'restart-browser',
    startedWallMs: wallMs,
    durationMs: Math.round(performance.now() - began),
    helped,
    code: helped ? 'api-restart-ok' : 'api-restart-futile',
    detail: helped ? `${reason} is gone` : finding.reason,
  }
  return { did: helped ? 'helped' : 'futile', memory: step.memory, notes: step.notes, action, finding }
}

function refusal(err: unknown): string {
  return err instanceof LockedError ? err.message : `nothing done: ${errorLine(err)}`
}

/** A second look that found the API healthy is the newest there is: it ends the strikes. */
function nothingDone(
  ctx: RestartContext,
  node: Node,
  decision: Decision,
  why: string,
  second?: Finding,
): RestartOutcome {
  if (second?.kind !== 'ok')
    return { did: 'nothing', why, memory: decision.memory, healthy: false, notes: [] }
  const { memory, notes } = stepCircuit(decision.memory, 'ok', now(ctx.p), ctx.policy)
  saveMemory(ctx.p, node.name, memory)
  return { did: 'nothing', why, memory, healthy: true, notes }
}

interface SecondLook {
  /** Why nothing is to be done after all. */
  readonly why?: string
  readonly finding?: Finding
}

/** Under the node lock: the fault must still be the API's, in a browser that is otherwise healthy. */
async function lookAgain(ctx: RestartContext, node: Node, judgement: BrowserJudgement): Promise<SecondLook> {
  const { verdict, process } = judgement
  if (process === undefined) return { why: 'no browser process: chromebox-watchdog brings it back' }
  if (verdict.state !== 'healthy') return { why: `${verdict.reason}: chromebox-watchdog's to repair` }
  if (process.ageMs < ctx.config.freshBrowserMs) return {}
  const finding = await checkThroughSlot(ctx, node, 'high', SHORT_SLOT_WAIT_MS)
  if (finding.kind === 'ok') return { why: 'a second look found the API healthy', finding }
  return finding.kind === 'unknown' ? { why: `a second look could not tell: ${finding.reason}` } : {}
}

async function verify(ctx: RestartContext, node: Node): Promise<Finding> {
  let finding = await checkThroughSlot(ctx, node, 'high', SHORT_SLOT_WAIT_MS)
  for (let i = 1; i < VERIFY_LOOKS && finding.kind !== 'ok'; i++) {
    if (ctx.deadline.leftMs() < checkBoundMs(ctx.config) + VERIFY_PAUSE_MS) break
    await new Promise((resolve) => setTimeout(resolve, VERIFY_PAUSE_MS))
    finding = await checkThroughSlot(ctx, node, 'high', SHORT_SLOT_WAIT_MS)
  }
  return finding
}
