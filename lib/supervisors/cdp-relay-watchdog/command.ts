import type { ExitCode } from '../../base/exit-codes.ts'
import type { Paths } from '../../base/paths.ts'
import { byHand, outliveReader, requireRoot, style } from '../../cli/cli.ts'
import type { RelayAction } from '../../relay/types.ts'
import { exitBeside } from '../../report/refused.ts'
import { type FleetSupervisor, openFleet, tickFleet } from '../fleet.ts'
import { exitOf } from '../tick.ts'
import { decide } from './decide.ts'
import { cautiousMemory, isBlank, NO_MEMORY } from './memory.ts'
import { observeAgain, observeAll } from './observe.ts'
import { type Memory, type Observation, parseMemory } from './types.ts'

const NAME = 'cdp-relay-watchdog'
/** Whole run, in ms: below the unit's start timeout, which is below its period of five minutes. */
const RUN_MS = 250_000
/** A person waits this long for another run, in ms: the longest that one may take. */
const MANUAL_LOCK_WAIT_MS = RUN_MS
/** When the next run should have replaced a receipt, in ms: the timer's period, and a minute that it and a slow run may be late. */
const DUE_MS = 300_000 + 60_000

const relayWatchdog: FleetSupervisor<Observation, RelayAction, Memory> = {
  name: NAME,
  layer: 'relay',
  dueMs: DUE_MS,
  // Each has one or two children at a time.
  width: 64,
  next: (node) => `cdp-relay-watchdog --dry-run ${node}`,
  memory: {
    parse: parseMemory,
    cautious: (at) => cautiousMemory(at),
    fresh: () => NO_MEMORY,
    blank: isBlank,
    lost: () => ({ more: '' }),
    lock: 'node',
  },
  observeAll,
  observe: async (t, node) => (await observeAll(t, [node]))[0] as Observation,
  lookAgain: (t, node, first) => () => observeAgain(t, node, first),
  decide: (o, memory, at, { config, named, deadline }) =>
    decide(o, memory, at, { ...config, named: named.length > 0, leftMs: deadline.leftMs() }),
  doing: () => 'restarting the relay',
  act: async (t, node, round) => (await import('./act.ts')).act(t, node, round),
  facts: () => ({}),
}

interface Flags {
  readonly named: readonly string[]
  readonly dryRun: boolean
  readonly json: boolean
}

/**
 * `cdp-relay-watchdog [--dry-run] [--json] [node…]`. Silent under a timer unless something is wrong; for a
 * person the path of every node.
 * @param argv arguments without program and script
 * @throws ConfigError, UsageError, RootError
 */
export async function relayWatchdogCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const flags = argv.length === 0 ? { named: [], dryRun: false, json: false } : await parse(argv)
  requireRoot(NAME)
  const { named, dryRun, json } = flags
  const person = byHand()
  if (person) outliveReader()
  const lockWaitMs = person ? MANUAL_LOCK_WAIT_MS : 0
  const notHere = 'its relay is not watched here'
  const fleet = openFleet(p, NAME, { named, dryRun, byHand: person, runMs: RUN_MS, lockWaitMs, notHere })
  if (person && !json) {
    const { contextLine } = await import('../../host/systemctl.ts')
    const { lastActed } = await import('./render.ts')
    console.log(await contextLine(`${NAME}.timer`, `${NAME}.timer`, lastActed(p)))
  }
  const outcomes = await tickFleet(relayWatchdog, fleet)
  const exit = exitBeside(exitOf(outcomes), fleet.registry.errors)
  if (!json && !dryRun && !person) return exit
  const { renderJson, renderText } = await import('./render.ts')
  if (json) console.log(renderJson(outcomes, fleet.registry, exit, dryRun))
  else for (const line of renderText(outcomes, fleet.registry, dryRun, await style())) console.log(line)
  return exit
}

async function parse(argv: readonly string[]): Promise<Flags> {
  const { program } = await import('../../cli/program.ts')
  const command = await program(
    NAME,
    'Watches the CDP relay of every active node of this host, and restarts the ones that fail.',
  )
  command
    .argument('[node...]', 'only these nodes; default all active rows of this host')
    .option('--dry-run', 'look and say what would be done; change nothing')
    .option('--json', 'print the result as JSON')
    .parse(argv, { from: 'user' })
  const { dryRun = false, json = false } = command.opts<{ dryRun?: boolean; json?: boolean }>()
  return { named: command.args, dryRun, json }
}
