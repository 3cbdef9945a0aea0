import { monotonicMs, now } from '../../base/clock.ts'
import type { Deadline } from '../../base/deadline.ts'
import type { Node, Now, Receipt, ReceiptAction, Verdict } from '../../base/types.ts'
import type { BrowserContext } from '../../browser/look.ts'
import { type Line, said } from '../../report/line.ts'
import type { Log } from '../../report/log.ts'
import { page, pageRecovered } from '../../report/page.ts'
import { hostNamespaces, isNews, writeReceipt } from '../../store/receipts.ts'
import { loadMemory } from './store.ts'
import type { Decision, Memory, Observation } from './types.ts'

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
