import { rmSync } from 'node:fs'
import { hostname } from 'node:os'
import { mapBounded } from '../../base/bounded.ts'
import { now } from '../../base/clock.ts'
import { type Config, loadConfig } from '../../base/config.ts'
import { errorLine, LockedError } from '../../base/errors.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import type { Node, Now, Receipt, ReceiptAction, Verdict } from '../../base/types.ts'
import { localNodes, type ParsedRegistry, readRegistry } from '../../registry/read.ts'
import type { Code } from '../../report/codes.ts'
import { pageConfigFault, pageConfigWell } from '../../report/config-fault.ts'
import { said } from '../../report/line.ts'
import { type Log, makeLog } from '../../report/log.ts'
import { page, pageRecovered } from '../../report/page.ts'
import { exitBeside, tellRefused } from '../../report/refused.ts'
import { HEALTHY, verdict as verdictOf } from '../../report/verdict.ts'
import { isPaused, readIntent } from '../../store/intent.ts'
import { hostNamespaces, writeReceipt } from '../../store/receipts.ts'
import { readState, writeState } from '../../store/state.ts'
import { type Repair, repair } from './act.ts'
import { decide } from './decide.ts'
import { cautiousMemory, isBlank, NO_MEMORY, parseMemory, reanchor } from './memory.ts'
import { observeFleet } from './observe.ts'
import type { RelayDecision, RelayMemory, RelayObservation } from './types.ts'

export const SUPERVISOR = 'cdp-relay-watchdog'
/** Whole run, in ms: below the unit's start timeout, which is below its period of five minutes. */
const RUN_DEADLINE_MS = 250_000
/** Lock, second look, stop, restart and verification at their own deadlines. A repair without this much left waits. */
const REPAIR_BUDGET_MS = 35_000
/** Period of the timer, and what it and a slow run may be late. */
const PERIOD_MS = 300_000
const PERIOD_SLACK_MS = 60_000
/** When the next run should have replaced a receipt. */
const DUE_MS = PERIOD_MS + PERIOD_SLACK_MS
/** Repairs under way at once; each has one or two children at a time. */
const MAX_REPAIRS = 64
/** systemd jobs under way at once: a fault of the whole fleet must not stop and start everything in one instant. */
const MAX_JOBS = 8

export interface RunOptions {
  /** Empty: every active row of this host. */
  readonly nodes: readonly string[]
  readonly dryRun: boolean
  /** A person waits for a lock; a timer does not. */
  readonly lockWaitMs: number
  readonly onWait?: (message: string) => void
  /** A person sees a fault of the configuration where it was typed: nobody is paged for it. Default false. */
  readonly byHand?: boolean
  /** Called once when the run knows its nodes: what was typed wrong is answered with its one line and no more. */
  readonly onStart?: () => Promise<void>
}

export interface NodeResult {
  readonly node: string
  readonly decision: RelayDecision
  /** The verdict at the end of the run: after a repair that helped it is healthy. */
  readonly verdict: Verdict
  readonly actions: readonly ReceiptAction[]
  readonly outcome?: Repair['outcome']
  readonly durationMs: number
}

export interface RunResult {
  readonly results: readonly NodeResult[]
  /** Rows of the whole fleet that nobody could look at. */
  readonly refused: ParsedRegistry['errors']
  readonly registry: Pick<ParsedRegistry, 'path'>
  readonly exit: ExitCode
}

interface Context {
  readonly p: Paths
  readonly config: Config
  readonly log: Log
  readonly at: Now
  readonly started: number
  readonly options: RunOptions
  readonly gate: Gate
}

type Gate = <T>(job: () => Promise<T>) => Promise<T>

/** Lets `limit` jobs run at once, in the order they were asked for. */
export function makeGate(limit: number): Gate {
  let free = limit
  const waiting: (() => void)[] = []
  return async (job) => {
    if (free > 0) free--
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await job()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}

/**
 * One run over the fleet, or over the nodes that were named.
 * @throws ConfigError (78) when configuration or registry cannot be used, UsageError (64) for an unknown node
 */
export async function runRelayWatchdog(p: Paths, options: RunOptions): Promise<RunResult> {
  const log = makeLog(SUPERVISOR, p)
  const started = performance.now()
  let config: Config
  let registry: ParsedRegistry
  try {
    config = loadConfig(p)
    registry = readRegistry(p, config)
  } catch (err) {
    if (!options.dryRun && options.byHand !== true) pageConfigFault(p, log, err)
    throw err
  }
  const at = now(p)
  const nodes = localNodes(registry, options.nodes, hostname(), 'its relay is not watched here')
  await options.onStart?.()
  if (!options.dryRun) {
    pageConfigWell({ p, config, now: at, log })
    if (options.nodes.length === 0) tellRefused(p, SUPERVISOR, log, registry, at, DUE_MS)
  }
  const ctx: Context = { p, config, log, at, started, options, gate: makeGate(MAX_JOBS) }
  const looks = await observeFleet(p, config, nodes, registry.nodes)
  const results = await mapBounded(looks, MAX_REPAIRS, (look, i) => judge(ctx, nodes[i] as Node, look))
  // Who names nodes asks about these.
  const refused = options.nodes.length === 0 ? registry.errors : []
  return { results, refused, registry, exit: exitBeside(worst(results), refused) }
}

/** Never throws: what goes wrong with one node is its own verdict, and costs the others nothing. */
async function judge(ctx: Context, node: Node, look: RelayObservation): Promise<NodeResult> {
  try {
    return await judgeNode(ctx, node, look)
  } catch (err) {
    const locked = err instanceof LockedError
    const reason = errorLine(err)
    const code = locked ? 'locked' : 'run-failed'
    const verdict: Verdict = { ...verdictOf(code, [], { why: reason }), layer: 'relay' }
    const decision: RelayDecision = {
      verdict,
      layers: [{ layer: 'relay', state: 'unknown', code, note: reason }],
      actions: [],
      page: false,
    }
    const result = { node: node.name, decision, verdict, actions: [], durationMs: took(ctx) }
    if (!ctx.options.dryRun) {
      if (!locked) ctx.log.write(node.name, { level: 'WARN', code, text: reason })
      leaveReceipt(ctx, result)
    }
    return result
  }
}

const took = (ctx: Context) => Math.round(performance.now() - ctx.started)

async function judgeNode(ctx: Context, node: Node, look: RelayObservation): Promise<NodeResult> {
  const { p, config, options } = ctx
  const { intent, corrupt } = readIntent(p, node.name)
  const observation = intent && isPaused(intent, ctx.at) ? { ...look, paused: intent } : look
  const path = statePath(p, SUPERVISOR, node.name)
  const state = readState(
    path,
    parseMemory,
    () => cautiousMemory(ctx.at),
    () => NO_MEMORY,
  )
  const known = reanchor(state.value, now(p))
  // A person who names the node asks for it now: the count of attempts stays, the wait does not.
  const remembered = options.nodes.length === 0 ? known : { attempts: known.attempts }
  const decision = decide(observation, remembered, ctx.at, config)
  const base = { node: node.name, decision, verdict: decision.verdict, actions: [] }
  if (options.dryRun) return { ...base, durationMs: took(ctx) }
  for (const bad of [corrupt, state.corrupt]) {
    if (bad === undefined) continue
    const lost = said('state-corrupt', { why: bad.why, kept: bad.keptAs, more: '' })
    ctx.log.write(node.name, { level: 'WARN', ...lost })
  }
  let result: NodeResult = { ...base, durationMs: took(ctx) }
  let memory: RelayMemory = decision.verdict.state === 'healthy' ? NO_MEMORY : known
  if (decision.actions.length > 0) {
    if (took(ctx) + REPAIR_BUDGET_MS > RUN_DEADLINE_MS) {
      const guard = said('out-of-time', {
        why: 'no time left in this run to restart and verify; the next run does it',
      })
      result = { ...result, decision: { ...decision, guard: { ...guard, code: 'out-of-time' } } }
    } else {
      const { lockWaitMs, onWait } = options
      const tools = { ...ctx, lockWaitMs, ...(onWait === undefined ? {} : { onWait }) }
      const done = await repair(tools, node, observation, remembered)
      memory = done.decision.verdict.state === 'healthy' ? NO_MEMORY : done.memory
      result = settled(ctx, node.name, done)
    }
  }
  tell(ctx, result)
  if (memory !== state.value) keep(ctx, node.name, path, memory, state.missing)
  leaveReceipt(ctx, result)
  return result
}

/** What a repair left: healthy when the verification found a browser through the relay. */
function settled(ctx: Context, node: string, done: Repair): NodeResult {
  const { decision, actions, outcome } = done
  const base = { node, decision, actions, durationMs: took(ctx) }
  if (outcome === undefined) return { ...base, verdict: decision.verdict }
  if (!outcome.helped) return { ...base, verdict: { ...decision.verdict, reason: outcome.text }, outcome }
  const evidence = [decision.verdict.reason, outcome.text]
  return { ...base, verdict: { ...HEALTHY, evidence }, outcome }
}

/** One line for what needs telling, and a page for what needs a person. Nothing for a healthy node. */
function tell(ctx: Context, { node, decision, verdict, outcome }: NodeResult): void {
  const { log } = ctx
  const pages = { p: ctx.p, config: ctx.config, now: ctx.at, log }
  const { guard } = decision
  const then = decision.next === undefined ? {} : { next: decision.next }
  const code = decision.verdict.code as Code
  if (verdict.state === 'healthy') {
    if (outcome !== undefined) {
      log.write(node, { level: 'INFO', code: outcome.code, text: outcome.text })
      const text = `${decision.verdict.reason}; ${outcome.text}`
      if (decision.page) page(pages, 'relay-fault', node, { code, text, ...then })
    } else if (guard === undefined) pageRecovered(pages, 'relay-fault', node, said('relay-recovered'))
    return
  }
  if (decision.level === undefined) return
  if (outcome !== undefined) {
    const failed = { code: outcome.code, cause: code, text: outcome.text, ...then }
    log.write(node, { level: 'FAIL', ...failed })
    page(pages, 'relay-fault', node, failed)
    return
  }
  const why = guard === undefined ? '' : ` (${guard.text})`
  if (guard?.code === 'relay-backoff') {
    // Nothing was tried in this run, so the code is the fault's; the words tell how the attempts before it ended.
    const { text } = said('relay-restart-failed', { reason: `${verdict.reason}${why}` })
    log.write(node, { level: 'FAIL', code, text, ...then })
    page(pages, 'relay-fault', node, { code, text, ...then })
    return
  }
  log.write(node, { level: decision.level, code, text: `${verdict.reason}${why}`, ...then })
  if (decision.page) page(pages, 'relay-fault', node, { code, text: verdict.reason, ...then })
}

function keep(ctx: Context, node: string, path: string, memory: RelayMemory, missing: boolean): void {
  kept(ctx, node, 'what to remember', () => {
    if (!isBlank(memory)) writeState(path, memory)
    else if (!missing) rmSync(path, { force: true })
  })
}

/** A disk that takes nothing is told, and changes nothing of what was seen and done. */
function kept(ctx: Context, node: string, what: string, write: () => void): void {
  try {
    write()
  } catch (err) {
    const why = `cannot keep ${what}: ${errorLine(err)}`
    ctx.log.write(node, { level: 'WARN', ...said('state-not-kept', { why }) })
  }
}

function leaveReceipt(ctx: Context, result: NodeResult): void {
  kept(ctx, result.node, 'the receipt', () => writeReceipt(ctx.p, receiptOf(ctx, result)))
}

function receiptOf(ctx: Context, { node, decision, verdict, actions, durationMs }: NodeResult): Receipt {
  return {
    version: 1,
    supervisor: SUPERVISOR,
    node,
    verdict,
    layers: decision.layers.map((m) =>
      m.layer === 'relay' && verdict.state === 'healthy' && actions.length > 0
        ? { layer: 'relay', state: 'ok', note: 'after a restart' }
        : m,
    ),
    actions,
    at: ctx.at,
    durationMs,
    hostNs: hostNamespaces(ctx.p),
    nextDueBootMs: ctx.at.bootMs + DUE_MS,
    extra: decision.guard === undefined ? {} : { guard: decision.guard.text, guardCode: decision.guard.code },
  }
}

/** The worst of the nodes that are not paused: unhealthy, then unknown, then held by another run. */
export function worst(results: readonly Pick<NodeResult, 'verdict' | 'decision'>[]): ExitCode {
  const counted = results.filter((r) => r.decision.guard?.code !== 'paused')
  if (counted.some((r) => r.verdict.state === 'unhealthy')) return EXIT.UNHEALTHY
  const unknown = counted.filter((r) => r.verdict.state === 'unknown')
  if (unknown.some((r) => r.verdict.code !== 'locked')) return EXIT.UNKNOWN
  return unknown.length > 0 ? EXIT.LOCKED : EXIT.OK
}
