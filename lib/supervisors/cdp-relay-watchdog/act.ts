import { now } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import type { Paths } from '../../base/paths.ts'
import { seconds } from '../../base/text.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import { askInside, askRelay } from '../../relay/look.ts'
import { type ActResult, removeListener, restartRelay, verifyRelay } from '../../relay/repair.ts'
import type { Code } from '../../report/codes.ts'
import { line, said } from '../../report/line.ts'
import type { Log } from '../../report/log.ts'
import { isPaused, readIntent } from '../../store/intent.ts'
import { withLock } from '../../store/lock.ts'
import { decide } from './decide.ts'
import { afterRestart } from './memory.ts'
import type { RelayDecision, RelayMemory, RelayObservation } from './types.ts'

/** How each action ends: helped, and not. */
const CODES = {
  'remove-listener': ['listener-removed', 'listener-kept'],
  'restart-relay': ['relay-restart-ok', 'relay-restart-failed'],
} as const

export interface RepairContext {
  readonly p: Paths
  readonly config: Config
  readonly log: Log
  /** Milliseconds to wait for a node's lock. */
  readonly lockWaitMs: number
  /** Runs at most a few systemd jobs at once, whatever the number of nodes. */
  readonly gate: <T>(job: () => Promise<T>) => Promise<T>
  readonly onWait?: (message: string) => void
}

export interface Repair {
  /** What was decided on the second look, under the lock. */
  readonly decision: RelayDecision
  readonly actions: readonly ReceiptAction[]
  /** `undefined` when the second look found nothing to do. */
  readonly outcome?: { readonly helped: boolean; readonly code: Code; readonly text: string }
  readonly memory: RelayMemory
}

/**
 * Takes the node's lock, looks again, and acts on what is seen then: the fault may be gone, the browser may
 * have died in the meantime, or somebody may have paused the node.
 * @throws LockedError when another run holds the node
 */
export function repair(
  ctx: RepairContext,
  node: Node,
  first: RelayObservation,
  memory: RelayMemory,
): Promise<Repair> {
  const options = { waitMs: ctx.lockWaitMs, ...(ctx.onWait === undefined ? {} : { onWait: ctx.onWait }) }
  return withLock(ctx.p, `node-${node.name}`, 'restarting the relay', options, async () => {
    const again = await lookAgain(ctx, node, first)
    const decision = decide(again, memory, now(ctx.p), ctx.config)
    if (decision.actions.length === 0) return { decision, actions: [], memory }
    const { code, reason } = decision.verdict
    const doing = `${reason}; restarting the relay`
    ctx.log.write(node.name, { level: 'WARN', code: code as Code, text: doing })
    return act(ctx, node, decision, memory)
  })
}

/** The two questions that decide, asked anew; the rest of the close look is a second old and is checked by the actions. */
async function lookAgain(ctx: RepairContext, node: Node, first: RelayObservation): Promise<RelayObservation> {
  const [asked, inner] = await Promise.all([
    askRelay(node, ctx.config.innerDeadlineMs),
    askInside(node, ctx.config),
  ])
  const { browser: _, paused: __, ...rest } = first
  const { intent } = readIntent(ctx.p, node.name)
  return {
    ...rest,
    ...asked,
    ...(intent && isPaused(intent, now(ctx.p)) ? { paused: intent } : {}),
    ...(first.close === undefined ? {} : { close: { ...first.close, inner } }),
  }
}

async function act(
  ctx: RepairContext,
  node: Node,
  decision: RelayDecision,
  memory: RelayMemory,
): Promise<Repair> {
  const started = performance.now()
  const actions: ReceiptAction[] = []
  const record = async (kind: keyof typeof CODES, work: () => Promise<ActResult>): Promise<ActResult> => {
    const startedWallMs = Date.now()
    const at = performance.now()
    const result = await work()
    const durationMs = Math.round(performance.now() - at)
    const code = CODES[kind][result.ok ? 0 : 1]
    actions.push({ kind, code, startedWallMs, durationMs, helped: result.ok, detail: result.detail })
    return result
  }
  let failure: string | undefined
  for (const action of decision.actions) {
    if (action.kind === 'remove-listener') {
      const removed = await record(action.kind, () => removeListener(ctx.p, action))
      const told = removed.ok
        ? line('WARN', 'listener-removed', { what: removed.detail })
        : line('FAIL', 'listener-kept', { what: removed.detail })
      ctx.log.write(
        node.name,
        removed.ok || decision.next === undefined ? told : { ...told, next: decision.next },
      )
      continue
    }
    const done = await record(action.kind, async () => {
      const bound = await ctx.gate(() => restartRelay(node, action))
      return bound.ok ? verifyRelay(node, ctx.config) : bound
    })
    if (!done.ok) failure = done.detail
  }
  const helped = failure === undefined
  const outcome = helped
    ? said('relay-restart-ok', { took: seconds(performance.now() - started) })
    : said('relay-restart-failed', { reason: `${decision.verdict.reason}; ${failure}` })
  return {
    decision,
    actions,
    outcome: { helped, ...outcome },
    memory: afterRestart(memory, helped, now(ctx.p)),
  }
}
