import { existsSync } from 'node:fs'
import { monotonicMs, now } from '../../base/clock.ts'
import { pagePath } from '../../base/paths.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import type { BrowserContext } from '../../browser/look.ts'
import { tryLock } from '../../store/lock.ts'
import { decide } from './decide.ts'
import { finish, makeReceipt, type Outcome, type RunContext, remember } from './finish.ts'
import { observe, withUnit } from './observe.ts'
import { loadMemory, saveMemory } from './store.ts'
import type { Observation } from './types.ts'

/**
 * All of a run must end below `TimeoutStartSec` (110 s) of its unit: 15 s for the lock, 13 s for two looks
 * and the delay between them, 18 s for a stop, 60 s to verify do not quite fit, and then the next run acts.
 */
export const RUN_MS = 104_000
/** What a person waits for another run; that one ends within RUN_MS. */
export const MANUAL_LOCK_MS = 120_000
export const TIMER_LOCK_MS = 15_000

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
