import type { CircuitMemory } from '../../api/circuit.ts'
import { circuitState, cooldownLeftMs } from '../../api/circuit.ts'
import type { Below } from '../../api/judge.ts'
import { mapBounded } from '../../base/bounded.ts'
import { now } from '../../base/clock.ts'
import { errorLine } from '../../base/errors.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import type { LayerMark, Node, Now, Receipt, ReceiptAction, Verdict } from '../../base/types.ts'
import type { Code } from '../../report/codes.ts'
import { line, said } from '../../report/line.ts'
import type { Log } from '../../report/log.ts'
import { page, pageRecovered } from '../../report/page.ts'
import { HEALTHY, verdict as verdictOf } from '../../report/verdict.ts'
import { hostNamespaces, readReceipt, writeReceipt } from '../../store/receipts.ts'
import type { RestartContext, RestartOutcome } from './act.ts'
import { type Decision, decide } from './decide.ts'
import { guardText, lookLines, noteLines, openText, spell } from './lines.ts'
import { loadMemory, saveMemory } from './memory.ts'
import { observe } from './observe.ts'
import { PERIOD_MS } from './policy.ts'

export interface RunContext extends RestartContext {
  readonly log: Log
  readonly dryRun: boolean
}

/** What one run made of one node. */
export interface Outcome {
  readonly node: string
  readonly decision: Decision
  /** The verdict at the end: healthy after a restart that helped. */
  readonly verdict: Verdict
  readonly memory: CircuitMemory
  readonly paused: boolean
  readonly actions: readonly ReceiptAction[]
  /** Why a restart that was decided was not made after all. */
  readonly held?: string
  /** A layer below the API that fails. */
  readonly below?: Below
  readonly receipt: Receipt
}

/** Nodes looked at side by side: each has one curl, one socket and one flock helper at a time. */
const WIDTH = 32
/** The next run may need its whole deadline before it writes. */
export const RECEIPT_DUE_MS = 2 * PERIOD_MS

/** Every node, side by side. Never throws: what goes wrong with one node is that node's `unknown`. */
export function superviseAll(ctx: RunContext, nodes: readonly Node[]): Promise<Outcome[]> {
  return mapBounded(nodes, WIDTH, async (node) => {
    const began = performance.now()
    try {
      return await supervise(ctx, node, began)
    } catch (err) {
      return broken(ctx, node, err, began)
    }
  })
}

async function supervise(ctx: RunContext, node: Node, began: number): Promise<Outcome> {
  const look = await observe(ctx, node, now(ctx.p))
  const at = now(ctx.p)
  const stored = loadMemory(ctx.p, node.name, at, ctx.policy)
  const decision = decide(look, stored.value, at, ctx.policy, ctx.deadline.leftMs())
  const { finding, paused } = look
  const below = finding.kind === 'unknown' ? finding.below : undefined
  const base = {
    node: node.name,
    decision,
    verdict: decision.verdict,
    paused,
    actions: [],
    ...(below === undefined ? {} : { below }),
  }
  if (ctx.dryRun) return finish(ctx, node, { ...base, memory: decision.memory }, began)
  if (stored.corrupt) {
    const { why, keptAs } = stored.corrupt
    const more = `; the circuit is open for ${spell(ctx.policy.cooldownMs)}`
    const lost = said('state-corrupt', { why, kept: keptAs, more })
    ctx.log.write(node.name, { level: 'WARN', ...lost, next: `agent-health reset ${node.name}` })
  }
  if (decision.memory !== stored.value) saveMemory(ctx.p, node.name, decision.memory)
  const before = lastCode(ctx, node)
  for (const line of lookLines(node.name, decision, ctx.policy, before)) ctx.log.write(node.name, line)
  if (decision.action.kind !== 'restart-browser') {
    tellPage(ctx, node, decision.verdict, decision.memory)
    return finish(ctx, node, { ...base, memory: decision.memory }, began)
  }
  const { restartForApi } = await import('./act.ts')
  const done = await restartForApi(ctx, node, decision)
  return finish(ctx, node, settle(ctx, node, base, done), began)
}

type Base = Omit<Outcome, 'receipt' | 'memory' | 'held'>

/** Tells how the restart ended, and makes it the run's verdict. */
function settle(ctx: RunContext, node: Node, base: Base, done: RestartOutcome): Omit<Outcome, 'receipt'> {
  const { reason } = base.verdict
  const code = base.verdict.code as Code
  const next = `agent-health status ${node.name}`
  if (done.did === 'nothing') {
    ctx.log.write(node.name, { level: 'WARN', text: `${reason}; not restarted: ${done.why}`, code, next })
    for (const note of noteLines(node.name, done.notes)) ctx.log.write(node.name, note)
    const verdict = done.healthy ? { ...HEALTHY, evidence: [`${reason}; ${done.why}`] } : base.verdict
    tellPage(ctx, node, verdict, done.memory)
    return { ...base, verdict, memory: done.memory, held: done.why }
  }
  const { memory, action, notes } = done
  if (done.did === 'helped') {
    const ok = line('INFO', 'api-restart-ok', { took: spell(action.durationMs), detail: action.detail })
    ctx.log.write(node.name, ok)
    for (const note of noteLines(node.name, notes)) ctx.log.write(node.name, note)
    const verdict: Verdict = { ...HEALTHY, evidence: [`${reason}; ${ok.text}`] }
    tellPage(ctx, node, verdict, memory)
    return { ...base, memory, verdict, actions: [action] }
  }
  const count = `futile restart ${memory.futile} in a row, ${ctx.policy.futileLimit} open the circuit`
  const futile = said('api-restart-futile', { detail: action.detail, count })
  ctx.log.write(node.name, { level: 'FAIL', ...futile, cause: code, next })
  if (notes.includes('tripped') || notes.includes('reopened')) {
    const open = notes.includes('tripped')
      ? ({ code: 'circuit-open', text: openText(node, reason, ctx.policy) } as const)
      : said('circuit-reopened', {
          what: `${reason}; the half-open restart did not help, no restart for ${spell(ctx.policy.cooldownMs)}`,
        })
    ctx.log.write(node.name, { level: 'FAIL_LOUD', ...open, cause: code, next })
  }
  for (const note of noteLines(node.name, notes)) ctx.log.write(node.name, note)
  const verdict: Verdict = {
    ...base.verdict,
    evidence: [...base.verdict.evidence, `still down after restart: ${action.detail}`],
  }
  tellPage(ctx, node, verdict, memory)
  return { ...base, memory, verdict, actions: [action] }
}

/** Paged while the circuit is open (page() says it once), recovered when the API is well. */
function tellPage(ctx: RunContext, node: Node, verdict: Verdict, memory: CircuitMemory): void {
  const pager = { p: ctx.p, config: ctx.config, now: now(ctx.p), log: ctx.log }
  if (verdict.state === 'healthy') {
    pageRecovered(pager, 'api-fault', node.name, said('api-recovered'))
  } else if (verdict.state === 'unhealthy' && memory.openedAt !== null) {
    page(pager, 'api-fault', node.name, {
      code: 'circuit-open',
      cause: verdict.code,
      text: openText(node, verdict.reason, ctx.policy),
      next: `agent-health status ${node.name}`,
    })
  }
}

function lastCode(ctx: RunContext, node: Node): string | undefined {
  const last = readReceipt(ctx.p, 'agent-health', node.name)
  return last.seen ? last.value?.verdict.code : undefined
}

/** Our own failure (a full disk, a file without permission) says nothing of the node, and kills nothing. */
function broken(ctx: RunContext, node: Node, err: unknown, began: number): Outcome {
  const verdict: Verdict = { ...verdictOf('run-failed', [], { why: errorLine(err) }), layer: 'api' }
  const at = now(ctx.p)
  const { value: memory } = loadQuietly(ctx, node, at)
  const decision: Decision = {
    verdict,
    action: { kind: 'none' },
    memory,
    circuit: circuitState(memory, at, ctx.policy),
    cooldownLeftMs: cooldownLeftMs(memory, at, ctx.policy),
    notes: [],
  }
  if (!ctx.dryRun) {
    ctx.log.write(node.name, {
      level: 'WARN',
      text: `cannot tell: ${verdict.reason}`,
      code: 'run-failed',
      next: `agent-health --dry-run ${node.name}`,
    })
  }
  const base = { node: node.name, decision, verdict, memory, paused: false, actions: [] }
  return finish(ctx, node, base, began)
}

function loadQuietly(ctx: RunContext, node: Node, at: Now) {
  try {
    return loadMemory(ctx.p, node.name, at, ctx.policy)
  } catch {
    return loadMemory(ctx.p, `${node.name}.none`, at, ctx.policy)
  }
}

/** Leaves the receipt, healthy or not. */
function finish(ctx: RunContext, node: Node, o: Omit<Outcome, 'receipt'>, began: number): Outcome {
  const at = now(ctx.p)
  const receipt: Receipt = {
    version: 1,
    supervisor: 'agent-health',
    node: node.name,
    verdict: o.verdict,
    layers: marks(o.verdict, o.below),
    actions: o.actions,
    at,
    durationMs: Math.round(performance.now() - began),
    hostNs: hostNamespaces(ctx.p),
    nextDueBootMs: at.bootMs + RECEIPT_DUE_MS,
    extra: facts(ctx, o, at),
  }
  if (!ctx.dryRun) {
    try {
      writeReceipt(ctx.p, receipt)
    } catch (err) {
      const why = `cannot write the receipt: ${(err as NodeJS.ErrnoException).code ?? String(err)}`
      const lost = said('state-not-kept', { why })
      ctx.log.write(node.name, { level: 'WARN', ...lost, next: `df ${ctx.p.receipts}` })
    }
  }
  return { ...o, receipt }
}

function facts(ctx: RunContext, o: Omit<Outcome, 'receipt'>, at: Now): Receipt['extra'] {
  const guard = o.decision.action.kind === 'held' ? guardText(o.decision.action.guard) : o.held
  const left = cooldownLeftMs(o.memory, at, ctx.policy)
  return {
    circuit: circuitState(o.memory, at, ctx.policy),
    strikes: o.memory.strikes,
    futile: o.memory.futile,
    ...(left > 0 ? { nextProbeBootMs: at.bootMs + left } : {}),
    ...(guard === undefined ? {} : { guard }),
    ...(o.paused ? { paused: true } : {}),
  }
}

function marks(verdict: Verdict, below: Below | undefined): LayerMark[] {
  if (verdict.state === 'healthy') return [{ layer: 'api', state: 'ok' }]
  const { code, reason: note } = verdict
  if (verdict.state === 'unhealthy') return [{ layer: 'api', state: 'fail', code, note }]
  const layer = verdict.layer ?? 'api'
  const seen: LayerMark = below ? { layer, state: 'fail', ...below } : { layer, state: 'unknown', code, note }
  return layer === 'api' ? [seen] : [seen, { layer: 'api', state: 'not-checked' }]
}

/** The worst of the nodes that nobody paused. */
export function exitOf(outcomes: readonly Outcome[]): ExitCode {
  const counted = outcomes.filter((o) => !o.paused)
  if (counted.some((o) => o.verdict.state === 'unhealthy')) return EXIT.UNHEALTHY
  return counted.some((o) => o.verdict.state === 'unknown') ? EXIT.UNKNOWN : EXIT.OK
}
