import { existsSync } from 'node:fs'
import { monotonicMs, now } from '../../base/clock.ts'
import { pagePath } from '../../base/paths.ts'
import type { Node, Now, Receipt, ReceiptAction, Verdict } from '../../base/types.ts'
import type { Deadline } from '../../browser/deadline.ts'
import type { BrowserContext } from '../../browser/look.ts'
import { type Line, said } from '../../report/line.ts'
import type { Log } from '../../report/log.ts'
import { page, pageRecovered } from '../../report/page.ts'
import { tryLock } from '../../store/lock.ts'
import { hostNamespaces, isNews, writeReceipt } from '../../store/receipts.ts'
import { decide } from './decide.ts'
import { observe, withUnit } from './observe.ts'
import { loadMemory, saveMemory } from './store.ts'
import type { Decision, Memory, Observation } from './types.ts'

/**
 * All of a run must end below `TimeoutStartSec` (110 s) of its unit: 15 s for the lock, 13 s for two looks
 * and the delay between them, 18 s for a stop, 60 s to verify do not quite fit, and then the next run acts.
 */
export const RUN_MS = 104_000
/** What a person waits for another run; that one ends within RUN_MS. */
export const MANUAL_LOCK_MS = 120_000
export const TIMER_LOCK_MS = 15_000
/** Two periods of the timer: the next run may need its whole deadline before it writes. */
const RECEIPT_DUE_MS = 240_000

export interface RunContext extends BrowserContext {
  readonly log: Log
  readonly deadline: Deadline
  readonly lockWaitMs: number
  /** Told to a person only: what the run waits for. */
  readonly tell: (message: string) => void
  /** The other active rows of this host: asked whether a fault is everybody's. */
  readonly others: readonly Node[]
}

export interface Outcome {
  readonly verdict: Verdict
  readonly decision: Decision
  readonly observation: Observation
  readonly memory: Memory
  readonly actions: readonly ReceiptAction[]
  readonly receipt: Receipt
}

/** Looks and decides, and does nothing: `--dry-run` and `--why`. */
export async function preview(ctx: BrowserContext, node: Node): Promise<Outcome> {
  const began = monotonicMs()
  const observation = await withUnit(node, await observe(ctx, node, now(ctx.p)))
  const memory = loadMemory(ctx.p, ctx.config, node.name).value
  const at = now(ctx.p)
  const decision = decide(observation, memory, at, ctx.config)
  const receipt = makeReceipt(ctx, node, decision, decision.memory, at, began, [])
  return { verdict: decision.verdict, decision, observation, memory: decision.memory, actions: [], receipt }
}

/**
 * One run: look, decide, act when that is allowed, leave a receipt. Silent while the node is well.
 *
 * @throws LockedError when another run holds the node and this one had to act
 */
export async function supervise(ctx: RunContext, node: Node): Promise<Outcome> {
  const began = monotonicMs()
  let observation = await observe(ctx, node, now(ctx.p))
  let memory = remember(ctx, node)
  let decision = decide(observation, memory, now(ctx.p), ctx.config)
  const actions: ReceiptAction[] = []
  if (decision.actions[0]?.kind === 'restart-tunnel') {
    const { repairPhase } = await import('./repair.ts')
    const repaired = await repairPhase(ctx, node, observation)
    observation = repaired.observation
    actions.push(...repaired.actions)
    memory = remember(ctx, node)
    decision = decide(observation, memory, now(ctx.p), ctx.config)
  }
  if (decision.actions.length === 0) {
    const whole = await withUnit(node, observation)
    if (whole !== observation) decision = decide(whole, memory, now(ctx.p), ctx.config)
    observation = whole
  }
  const action = decision.actions[0]
  // An attempt without an end is another run's, still at it, or was cut short: only the lock tells which.
  const underWay = memory.attempts.at(-1)?.result === 'pending' && observation.browser !== undefined
  const unwell = decision.verdict.state === 'unhealthy'
  if (
    action?.kind === 'relaunch-browser' ||
    decision.verdict.code === 'netns-missing' ||
    (underWay && unwell)
  ) {
    // A missing namespace is paged, so it gets the same second look: a node-up may be making it.
    const { confirmPhase } = await import('./act.ts')
    const later = action?.kind === 'relaunch-browser' ? action.confirm === 'after-delay' : !underWay
    return confirmPhase(ctx, node, {
      decision,
      later,
      tunnelTried: observation.tunnelTried === true,
      began,
      actions,
    })
  }
  if (observation.egress?.state === 'ok' && existsSync(pagePath(ctx.p, 'uplink'))) {
    const { uplinkPasses } = await import('../../egress/uplink-page.ts')
    uplinkPasses({ p: ctx.p, config: ctx.config, now: now(ctx.p), log: ctx.log })
  }
  if (decision.memory !== memory) await commit(ctx, node, observation)
  return finish(ctx, node, observation, decision, decision.memory, began, actions)
}

/** The memory of the last run; a file that could not be read is said, and stands as the cautious one. */
export function remember(ctx: RunContext, node: Node): Memory {
  const read = loadMemory(ctx.p, ctx.config, node.name)
  if (read.corrupt) {
    const { why, keptAs: kept } = read.corrupt
    const more = '; no relaunch before the longest back-off is over'
    const next = `chromebox-watchdog release ${node.name}`
    say(ctx, node, { level: 'WARN', ...said('state-corrupt', { why, kept, more }), next })
  }
  return read.value
}

/** Writes what the look changed. With the lock busy another run writes its own, newer truth. */
async function commit(ctx: RunContext, node: Node, observation: Observation): Promise<void> {
  const held = await tryLock(ctx.p, `node-${node.name}`, 'writing what the last look changed')
  if (!held) return
  try {
    const before = remember(ctx, node)
    const { memory } = decide(observation, before, now(ctx.p), ctx.config)
    if (memory !== before) saveMemory(ctx.p, node.name, memory)
  } finally {
    held.release()
  }
}

/** Says and leaves behind what a run found that does not (or does no longer) act. */
export async function finish(
  ctx: RunContext,
  node: Node,
  observation: Observation,
  decision: Decision,
  memory: Memory,
  began: number,
  actions: readonly ReceiptAction[],
): Promise<Outcome> {
  const at = now(ctx.p)
  for (const line of decision.lines) say(ctx, node, line)
  tellPages(ctx, node, decision, at)
  const { identity, last } = observation
  const receipt = makeReceipt(ctx, node, decision, memory, at, began, actions, undefined, identity)
  await leave(ctx, node, receipt, last)
  return { verdict: decision.verdict, decision, observation, memory, actions, receipt }
}

export function tellPages(ctx: RunContext, node: Node, decision: Decision, at: Now): void {
  const pager = { p: ctx.p, config: ctx.config, now: at, log: ctx.log }
  const next = decision.lines.find((l) => l.next !== undefined)?.next ?? whyCommand(node.name)
  for (const event of decision.pages) {
    const { kind, code, text } = event
    if (event.failing) page(pager, kind, node.name, { code, text, next })
    else pageRecovered(pager, kind, node.name, { code, text })
  }
}

export function say(ctx: RunContext, node: Node, line: Line): void {
  ctx.log.write(node.name, line)
}

export const whyCommand = (node: string): string => `chromebox-watchdog ${node} --why`

/**
 * Writes the receipt, and keeps it for `--why` when it says what the one before (`last`) did not; a full /run is
 * said and does not end the run.
 */
export async function leave(
  ctx: RunContext,
  node: Node,
  receipt: Receipt,
  last: Receipt | undefined,
): Promise<void> {
  try {
    writeReceipt(ctx.p, receipt)
    if (isNews(receipt, last)) (await import('../../store/receipt-history.ts')).keepReceipt(ctx.p, receipt)
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code ?? String(err)
    const next = `df ${ctx.p.receipts}`
    const why = `cannot write the receipt: ${code}`
    say(ctx, node, { level: 'WARN', ...said('state-not-kept', { why }), next })
  }
}

export function makeReceipt(
  ctx: BrowserContext,
  node: Node,
  decision: Pick<Decision, 'verdict' | 'layers' | 'guard'>,
  memory: Memory,
  at: Now,
  began: number,
  actions: readonly ReceiptAction[],
  pid?: number,
  identity?: string,
): Receipt {
  const extra: Record<string, string | number | boolean> = {
    failures: memory.failures,
    held: memory.held !== undefined,
  }
  if (decision.guard) {
    extra.guard = decision.guard.text
    extra.guardCode = decision.guard.name
  }
  if (decision.guard?.eligibleInMs !== undefined) {
    extra.eligibleBootMs = at.bootMs + decision.guard.eligibleInMs
  }
  if (pid !== undefined) extra.browserPid = pid
  if (identity !== undefined) extra.browserIdentity = identity
  return {
    version: 1,
    supervisor: 'chromebox-watchdog',
    node: node.name,
    verdict: decision.verdict,
    layers: decision.layers,
    actions,
    at,
    durationMs: Math.round(monotonicMs() - began),
    hostNs: hostNamespaces(ctx.p),
    nextDueBootMs: at.bootMs + RECEIPT_DUE_MS,
    extra,
  }
}
