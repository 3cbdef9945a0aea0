import { now } from '../../base/clock.ts'
import { certainMs } from '../../base/damping.ts'
import { sleep } from '../../base/deadline.ts'
import type { LayerMark, Node, ReceiptAction } from '../../base/types.ts'
import { type RelaunchResult, relaunchLocked } from '../../browser/relaunch.ts'
import { browserUnit } from '../../browser/verify.ts'
import type { Ended } from '../../host/systemd.ts'
import type { Code } from '../../report/codes.ts'
import { type Line, said } from '../../report/line.ts'
import { page, pageRecovered } from '../../report/page.ts'
import { withLock } from '../../store/lock.ts'
import { readReceipt } from '../../store/receipts.ts'
import { decide, isQuickDeath } from './decide.ts'
import {
  finish,
  leave,
  makeReceipt,
  type Outcome,
  type RunContext,
  remember,
  say,
  tellPages,
  whyCommand,
} from './finish.ts'
import { beginAttempt, endAttempt } from './memory.ts'
import { observe, withUnit } from './observe.ts'
import { saveMemory } from './store.ts'
import type { Decision, Memory, Observation } from './types.ts'

interface Pending {
  readonly decision: Decision
  /** The second look waits for NETVM_CONFIRM_DELAY. */
  readonly later: boolean
  readonly tunnelTried: boolean
  readonly began: number
  readonly actions: readonly ReceiptAction[]
}

/**
 * Confirms a fault by a second look under the node lock, then relaunches the browser if that is what the
 * second look, with the memory as it is by then, still asks for.
 */
export async function confirmPhase(ctx: RunContext, node: Node, pending: Pending): Promise<Outcome> {
  const { tunnelTried, began, actions: before } = pending
  // A slow answer gets a moment; a dead process will not come back by itself.
  if (pending.later) await sleep(ctx.config.confirmDelayMs)
  const doing = `confirming "${pending.decision.verdict.reason}" and acting on it`
  // Asked while the lock is taken, because somebody waits for this browser; what was asked before a wait is old.
  let asked = pending.decision.verdict.code === 'no-process' ? browserUnit(node.name) : undefined
  const onWait = (message: string) => {
    asked = undefined
    ctx.tell(message)
  }
  const opts = { waitMs: ctx.lockWaitMs, onWait }
  return withLock(ctx.p, `node-${node.name}`, doing, opts, async () => {
    const seen = await withUnit(node, await observe(ctx, node, now(ctx.p)), asked)
    const observation = tunnelTried ? { ...seen, tunnelTried } : seen
    // Read again: another run may have acted while this one waited.
    const memory = remember(ctx, node)
    const decision = decide(observation, memory, now(ctx.p), ctx.config)
    if (decision.actions[0]?.kind !== 'relaunch-browser' || !observation.browser) {
      if (decision.memory !== memory) saveMemory(ctx.p, node.name, decision.memory)
      return finish(ctx, node, observation, decision, decision.memory, began, before)
    }
    return attempt(ctx, node, observation, decision, began, before)
  })
}

async function attempt(
  ctx: RunContext,
  node: Node,
  observation: Observation,
  decision: Decision,
  began: number,
  before: readonly ReceiptAction[],
): Promise<Outcome> {
  const { browser } = observation
  if (!browser) throw new TypeError('a relaunch needs a look at the browser')
  let memory = decision.memory
  const startedWallMs = Date.now()
  const result = await relaunchLocked(ctx, node, browser, {
    why: decision.verdict.reason,
    deadline: ctx.deadline,
    ...(observation.unit ? { unit: observation.unit } : {}),
    begin: (ended, alive) => {
      const begun = begin(ctx, node, memory, observation, decision, ended)
      if (begun.problem !== undefined) {
        const why = unrecorded(ctx, node, memory, begun.problem, alive)
        if (why !== undefined) return why
      }
      memory = begun.memory
      for (const line of decision.lines) say(ctx, node, line)
      return undefined
    },
  })
  if (result.did === 'nothing') return declined(ctx, node, observation, decision, result.why, began, before)
  const at = now(ctx.p)
  const heldBefore = memory.held !== undefined
  const ok = result.did === 'ok'
  const seconds = Math.max(1, Math.round(result.durationMs / 1000))
  memory = endAttempt(memory, at, { ok, detail: result.reason, seconds }, ctx.config)
  saveMemory(ctx.p, node.name, memory)
  const action: ReceiptAction = {
    kind: 'relaunch-browser',
    startedWallMs,
    durationMs: result.durationMs,
    helped: ok,
    code: ok ? 'relaunch-ok' : 'relaunch-failed',
    detail: [`before: ${result.ended.how}, ${result.ended.detail}`, result.reason, ...result.notes]
      .filter((s) => s !== '')
      .join('; '),
  }
  report(ctx, node, result, seconds, memory, heldBefore)
  tellPages(ctx, node, { ...decision, pages: decision.pages.filter((e) => e.kind !== 'browser-fault') }, at)
  const { verdict } = result.judgement
  const layers = [...below(decision.layers), ...result.judgement.marks]
  const pid = result.judgement.process?.pid
  const actions = [...before, action]
  const after: Decision = { ...decision, verdict, layers }
  const receipt = makeReceipt(ctx, node, after, memory, at, began, actions, pid)
  await leave(ctx, node, receipt, observation.last)
  return { verdict, decision: after, observation, memory, actions, receipt }
}

/** Records the attempt before anything is touched: a run that is killed in it has used it up. */
function begin(
  ctx: RunContext,
  node: Node,
  memory: Memory,
  observation: Observation,
  decision: Decision,
  ended: Ended,
): { memory: Memory; problem: string | undefined } {
  const at = now(ctx.p)
  const quickDeath = isQuickDeath(observation, memory, at, ctx.config)
  const how = `${ended.how}: ${ended.detail}`
  const begun = beginAttempt(memory, at, { reason: decision.verdict.reason, ended: how, quickDeath })
  return { memory: begun, problem: saveMemory(ctx.p, node.name, begun) }
}

/**
 * May an attempt that cannot be recorded (a full disk) go on? Without memory nothing contains it, so never
 * against a living browser, and for a dead one not right after another that memory does not know either:
 * it would be one for every crash. The receipt, on another file system, tells of that one.
 */
function unrecorded(
  ctx: RunContext,
  node: Node,
  memory: Memory,
  problem: string,
  alive: boolean,
): string | undefined {
  if (alive) return `not relaunched: ${problem}, so nothing would hold the next attempt back`
  const last = readReceipt(ctx.p, 'chromebox-watchdog', node.name)
  const receipt = last.seen ? last.value : undefined
  const known = memory.attempts.at(-1)?.wallMs ?? 0
  const acted =
    receipt?.actions.some((a) => a.kind === 'relaunch-browser' && a.startedWallMs > known) === true
  if (receipt && acted && certainMs(receipt.at, now(ctx.p)) < ctx.config.backoffBaseMs) {
    return `not relaunched again so soon: ${problem}`
  }
  const lost = said('state-not-kept', { why: `${problem}: this attempt will not be remembered` })
  say(ctx, node, { level: 'WARN', ...lost, next: `df ${ctx.p.state}` })
  return undefined
}

/** The actuator looked once more and left the browser alone: too fresh, or too little time left. */
function declined(
  ctx: RunContext,
  node: Node,
  observation: Observation,
  decision: Decision,
  why: string,
  began: number,
  before: readonly ReceiptAction[],
): Promise<Outcome> {
  const line: Line = {
    level: 'FAIL',
    code: decision.verdict.code as Code,
    text: `${decision.verdict.reason}; ${why}`,
    next: whyCommand(node.name),
  }
  const changed = { ...decision, lines: [line] }
  return finish(ctx, node, observation, changed, decision.memory, began, before)
}

function report(
  ctx: RunContext,
  node: Node,
  result: Extract<RelaunchResult, { did: 'ok' | 'failed' }>,
  seconds: number,
  memory: Memory,
  heldBefore: boolean,
): void {
  const pager = { p: ctx.p, config: ctx.config, now: now(ctx.p), log: ctx.log }
  const notes = result.notes.length > 0 ? ` (${result.notes.join('; ')})` : ''
  if (result.did === 'ok') {
    const was = result.ended.how === 'unknown' ? '' : `, the one before ended: ${result.ended.detail}`
    const closed = heldBefore ? ', hold-down closed' : ''
    const ok = said('relaunch-ok', { seconds })
    say(ctx, node, { level: 'INFO', ...ok, text: `${ok.text}${was}${closed}${notes}` })
    pageRecovered(pager, 'browser-fault', node.name, ok)
    return
  }
  const was = `the one before: ${result.ended.how}, ${result.ended.detail}`
  const cause = result.judgement.verdict.code
  const failed = said('relaunch-failed', { reason: `${result.reason}; ${was}${notes}` })
  say(ctx, node, { level: 'FAIL', ...failed, cause, next: whyCommand(node.name) })
  const held = memory.held !== undefined
  const release = `chromebox-watchdog release ${node.name}`
  const down = { ...said('held-down', { failures: memory.failures, reason: result.reason }), next: release }
  if (held) say(ctx, node, { level: 'FAIL', ...down })
  const paged = held ? down : { ...failed, cause, next: whyCommand(node.name) }
  const told = page(pager, 'browser-fault', node.name, paged)
  // A hold is news of its own: nothing but the half-open attempts happens from here on.
  if (held && !heldBefore && told === undefined) {
    const line: Line = { level: 'PAGE', ...down, text: `browser-fault: ${down.text}` }
    ctx.log.write(node.name, line, { kind: 'browser-fault', page: 'held' })
  }
}

function below(layers: readonly LayerMark[]): LayerMark[] {
  return layers.filter((l) => l.layer === 'netns' || l.layer === 'egress')
}
