import { hostname } from 'node:os'
import { stepCircuit } from '../../api/circuit.ts'
import { now } from '../../base/clock.ts'
import { type Config, loadConfig } from '../../base/config.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import type { Paths } from '../../base/paths.ts'
import type { Node } from '../../base/types.ts'
import { deadlineIn } from '../../browser/deadline.ts'
import { byHand, outliveReader, requireRoot } from '../../cli/cli.ts'
import { localNodes, type ParsedRegistry, readRegistry } from '../../registry/read.ts'
import { pageConfigFault, pageConfigWell } from '../../report/config-fault.ts'
import { line } from '../../report/line.ts'
import { makeLog } from '../../report/log.ts'
import { exitBeside, refusedLine, tellRefused } from '../../report/refused.ts'
import { withLock } from '../../store/lock.ts'
import type { Invocation } from './args.ts'
import { loadMemory, saveMemory } from './memory.ts'
import { policyOf, RUN_MS, TIMER_LOCK_MS } from './policy.ts'
import { exitOf, RECEIPT_DUE_MS, type RunContext, superviseAll } from './run.ts'

const PROGRAM = 'agent-health'
/** One run at a time; a person waits for the one that is under way, which ends within RUN_MS. */
const MANUAL_LOCK_MS = RUN_MS + 10_000
const PLAIN: Invocation = { kind: 'run', nodes: [], dryRun: false, json: false }

/**
 * `agent-health [--dry-run] [--json] [node…]`, `agent-health status [--json] [node…]`, `agent-health reset <node>`.
 *
 * @param argv arguments only; none is what the timer runs, and loads no option parser
 * @throws ConfigError, UsageError, RootError, LockedError
 */
export async function agentHealthCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const asked = argv.length === 0 ? PLAIN : (await import('./args.ts')).parseArgs(argv)
  if (asked === undefined) return EXIT.OK
  const person = byHand()
  if (person) outliveReader()
  if (asked.kind === 'status') return status(p, asked)
  requireRoot(PROGRAM, 'agent-health status')
  const { config, registry } = load(p, asked.kind === 'run' && !asked.dryRun && !person)
  const nodes = select(registry, asked.nodes)
  if (asked.kind === 'reset') return reset(p, config, nodes)
  return run(p, config, nodes, asked, person, refusedOf(registry, asked))
}

function load(p: Paths, byTimer: boolean): { config: Config; registry: ParsedRegistry } {
  const log = makeLog(PROGRAM, p)
  try {
    const config = loadConfig(p)
    const registry = readRegistry(p, config)
    if (byTimer) pageConfigWell({ p, config, now: now(p), log })
    return { config, registry }
  } catch (err) {
    if (byTimer) pageConfigFault(p, log, err)
    throw err
  }
}

function select(registry: ParsedRegistry, names: readonly string[]): Node[] {
  return localNodes(registry, names, hostname(), 'its API is not watched here')
}

async function run(
  p: Paths,
  config: Config,
  nodes: readonly Node[],
  asked: Invocation,
  person: boolean,
  refused: ParsedRegistry,
): Promise<ExitCode> {
  const shown = person || asked.json || asked.dryRun
  const lockWaitMs = person ? MANUAL_LOCK_MS : 0
  if (person && !asked.json) console.log(await (await import('./render.ts')).contextLine())
  const supervise = async () => {
    const ctx: RunContext = {
      p,
      config,
      policy: policyOf(config),
      deadline: deadlineIn(RUN_MS),
      lockWaitMs: TIMER_LOCK_MS,
      log: makeLog(PROGRAM, p),
      dryRun: asked.dryRun,
    }
    if (!asked.dryRun && asked.nodes.length === 0)
      tellRefused(p, PROGRAM, ctx.log, refused, now(p), RECEIPT_DUE_MS)
    return superviseAll(ctx, nodes)
  }
  const outcomes = asked.dryRun
    ? await supervise()
    : await withLock(p, PROGRAM, 'checking the API of the nodes', waiting(lockWaitMs), supervise)
  if (shown) {
    const { renderJson, renderText } = await import('./render.ts')
    const lines = asked.json ? [renderJson(outcomes)] : await renderText(outcomes, asked.dryRun)
    for (const line of lines) console.log(line)
    tellOnScreen(refused, asked)
  }
  return exitBeside(exitOf(outcomes), refused.errors)
}

/** The registry with the refused rows that this run is about: none when nodes are named. */
function refusedOf(registry: ParsedRegistry, { nodes }: Invocation): ParsedRegistry {
  return nodes.length === 0 ? registry : { ...registry, errors: [] }
}

/** On stderr beside JSON, whose shape programs know. */
function tellOnScreen(registry: ParsedRegistry, { json }: Invocation): void {
  for (const e of registry.errors) (json ? console.error : console.log)(refusedLine(registry, e))
}

const waiting = (waitMs: number) => ({ waitMs, onWait: (message: string) => console.error(message) })

/** Closes the circuit by hand. Also what to do once the cause of an open circuit has been repaired. */
async function reset(p: Paths, config: Config, nodes: readonly Node[]): Promise<ExitCode> {
  const policy = policyOf(config)
  const log = makeLog(PROGRAM, p)
  await withLock(p, PROGRAM, 'closing a circuit by hand', waiting(MANUAL_LOCK_MS), () => {
    for (const { name } of nodes) {
      const at = now(p)
      const step = stepCircuit(loadMemory(p, name, at, policy).value, 'reset', at, policy)
      saveMemory(p, name, step.memory)
      const early = step.notes.includes('reset-early') ? ' before its cooldown ended' : ''
      const told = line('INFO', 'circuit-reset', { early })
      log.write(name, told)
      console.log(`${name}: ${told.text}`)
    }
  })
  return EXIT.OK
}

async function status(p: Paths, asked: Invocation): Promise<ExitCode> {
  const { config, registry } = load(p, false)
  const { statusOf, statusText } = await import('./status.ts')
  const list = select(registry, asked.nodes).map((n) => statusOf(p, n, now(p), policyOf(config)))
  if (asked.json) console.log(JSON.stringify(list, null, 2))
  else for (const line of statusText(list)) console.log(line)
  const refused = refusedOf(registry, asked)
  tellOnScreen(refused, asked)
  return exitBeside(EXIT.OK, refused.errors)
}
