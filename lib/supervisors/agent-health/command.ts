import { type CircuitMemory, cautiousMemory, freshMemory, stepCircuit } from '../../api/circuit.ts'
import { now } from '../../base/clock.ts'
import { deadlineIn } from '../../base/deadline.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import { coarse } from '../../base/text.ts'
import { byHand, outliveReader, requireRoot, style } from '../../cli/cli.ts'
import { line } from '../../report/line.ts'
import { exitBeside, refusedLine } from '../../report/refused.ts'
import { withLock } from '../../store/lock.ts'
import { writeState } from '../../store/state.ts'
import { type Fleet, type FleetSupervisor, openFleet, tickFleet } from '../fleet.ts'
import { exitOf } from '../tick.ts'
import { decide, factsOf, notRestarted } from './decide.ts'
import { loadMemory, parseMemory } from './memory.ts'
import { observe, observeAgain } from './observe.ts'
import { type Action, type Observation, PERIOD_MS, policyOf, TIMER_LOCK_MS } from './types.ts'

const NAME = 'agent-health'
/** The whole run, in ms: below the unit's TimeoutStartSec of 280 s, which is below the period. */
const RUN_MS = 250_000
/** One run at a time; a person waits for the one that is under way, which ends within RUN_MS. */
const MANUAL_LOCK_MS = RUN_MS + 10_000

const agentHealth: FleetSupervisor<Observation, Action, CircuitMemory> = {
  name: NAME,
  layer: 'api',
  // The next run may need its whole deadline before it writes.
  dueMs: 2 * PERIOD_MS,
  // Each has one curl, one socket and one flock helper at a time.
  width: 32,
  next: (node) => `agent-health --dry-run ${node}`,
  memory: {
    parse: parseMemory,
    cautious: (at, { config }) => cautiousMemory(at, policyOf(config)),
    fresh: () => freshMemory,
    lost: (node, { config }) => ({
      more: `; the circuit is open for ${coarse(config.circuitCooldownMs)}`,
      next: `agent-health reset ${node}`,
    }),
    lock: 'run',
    vital: true,
  },
  observe,
  lookAgain: (t, node, first) => () => observeAgain(t, node, first),
  decide: (o, memory, at, { config, deadline }) =>
    decide(o, memory, at, { ...policyOf(config), leftMs: deadline.leftMs() }),
  tellsFirst: true,
  doing: ({ verdict }) => `agent-health: relaunching the browser (${verdict.reason})`,
  act: async (t, node, round) => (await import('./act.ts')).act(t, node, round),
  locked: (asked, { message }, { name }) => notRestarted(name, asked, { code: 'locked', text: message }),
  facts: (_, memory, at, { config }) => factsOf(memory, at, policyOf(config)),
}

interface Invocation {
  readonly kind: 'run' | 'status' | 'reset'
  /** Empty: every active row of this host. */
  readonly named: readonly string[]
  readonly dryRun?: boolean
  readonly json?: boolean
}

const EVERY_NODE: Invocation = { kind: 'run', named: [] }

/**
 * `agent-health [--dry-run] [--json] [node…]`, `agent-health status [--json] [node…]`, `agent-health reset <node>`.
 *
 * @param argv arguments only; none is what the timer runs, and loads no option parser
 * @throws ConfigError, UsageError, RootError, LockedError
 */
export async function agentHealthCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const asked = argv.length === 0 ? EVERY_NODE : await parse(argv)
  const person = byHand()
  if (person) outliveReader()
  const { kind, named } = asked
  if (kind !== 'status') requireRoot(NAME, 'agent-health status')
  // Whoever asks for the status, or closes a circuit, sees a broken configuration where it was typed.
  const dryRun = asked.dryRun === true || kind !== 'run'
  const how = { named, dryRun, byHand: person, runMs: RUN_MS, lockWaitMs: TIMER_LOCK_MS }
  const fleet = openFleet(p, NAME, { ...how, notHere: 'its API is not watched here' })
  if (kind === 'status') return status(fleet, asked)
  return kind === 'reset' ? reset(fleet) : run(fleet, asked, person)
}

async function run(
  opened: Fleet,
  { dryRun = false, json = false }: Invocation,
  person: boolean,
): Promise<ExitCode> {
  if (person && !json) {
    const { contextLine } = await import('../../host/systemctl.ts')
    console.log(await contextLine(`${NAME}.timer`, `${NAME}.timer`))
  }
  // Its time begins when it may begin.
  const supervise = () => {
    const fleet = { ...opened, t: { ...opened.t, deadline: deadlineIn(RUN_MS) } }
    return tickFleet(agentHealth, fleet)
  }
  const waitMs = person ? MANUAL_LOCK_MS : 0
  const outcomes = dryRun
    ? await supervise()
    : await withLock(opened.t.p, NAME, 'checking the API of the nodes', waiting(waitMs), supervise)
  if (person || json || dryRun) {
    const { renderJson, renderText } = await import('./render.ts')
    const lines = json ? [renderJson(outcomes)] : renderText(outcomes, dryRun, await style())
    for (const text of lines) console.log(text)
    tellRefusedRows(opened, json)
  }
  return exitBeside(exitOf(outcomes), opened.registry.errors)
}

/** On stderr beside JSON, whose shape programs know. */
function tellRefusedRows({ registry }: Fleet, json: boolean): void {
  for (const e of registry.errors) (json ? console.error : console.log)(refusedLine(registry, e))
}

const waiting = (waitMs: number) => ({ waitMs, onWait: (message: string) => console.error(message) })

/** Closes the circuit by hand. Also what to do once the cause of an open circuit has been repaired. */
async function reset({ t: { p, config, log }, nodes }: Fleet): Promise<ExitCode> {
  const policy = policyOf(config)
  await withLock(p, NAME, 'closing a circuit by hand', waiting(MANUAL_LOCK_MS), () => {
    for (const { name } of nodes) {
      const at = now(p)
      const step = stepCircuit(loadMemory(p, name, at, policy), 'reset', at, policy)
      writeState(statePath(p, NAME, name), step.memory)
      const early = step.notes.includes('reset-early') ? ' before its cooldown ended' : ''
      const closed = line('INFO', 'circuit-reset', { early })
      log.write(name, closed)
      console.log(`${name}: ${closed.text}`)
    }
  })
  return EXIT.OK
}

async function status(fleet: Fleet, { json = false }: Invocation): Promise<ExitCode> {
  const { p, config } = fleet.t
  const { statusOf, statusText } = await import('./render.ts')
  const list = fleet.nodes.map((n) => statusOf(p, n, now(p), policyOf(config)))
  if (json) console.log(JSON.stringify(list, null, 2))
  else for (const text of statusText(list)) console.log(text)
  tellRefusedRows(fleet, json)
  return exitBeside(EXIT.OK, fleet.registry.errors)
}

async function parse(argv: readonly string[]): Promise<Invocation> {
  const { program } = await import('../../cli/program.ts')
  let found = EVERY_NODE
  const about =
    "checks every node's API through its chat page, and restarts browsers behind a circuit breaker"
  const command = (await program(NAME, about))
    .enablePositionalOptions()
    .argument('[node...]', 'only these nodes; default all active rows of this host')
    .option('--dry-run', 'look and say what would be done and which guard stops it; do nothing')
    .option('--json', 'print the receipts as JSON')
    .action((named: string[], o: Omit<Invocation, 'kind' | 'named'>) => {
      found = { kind: 'run', named, ...o }
    })
  command
    .command('status')
    .description('strikes, futile restarts, circuit and review notices of each node; looks at no browser')
    .argument('[node...]')
    .option('--json', 'for programs')
    .action((named: string[], o: Omit<Invocation, 'kind' | 'named'>) => {
      found = { kind: 'status', named, ...o }
    })
  command
    .command('reset')
    .description(
      'close the circuit by hand: failures are counted from zero, and may restart the browser again',
    )
    .argument('<node>')
    .action((node: string) => {
      found = { kind: 'reset', named: [node] }
    })
  command.parse(argv, { from: 'user' })
  return found
}
