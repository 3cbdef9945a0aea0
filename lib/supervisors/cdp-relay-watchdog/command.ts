import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import type { Paths } from '../../base/paths.ts'
import { byHand, misused, outliveReader, requireRoot } from '../../cli/cli.ts'
import { type RunOptions, type RunResult, runRelayWatchdog } from './run.ts'

/** A person waits this long for another run; the longest that one may take. Milliseconds. */
const MANUAL_LOCK_WAIT_MS = 250_000

interface Flags {
  readonly nodes: readonly string[]
  readonly dryRun: boolean
  readonly json: boolean
  /** Only help or version was asked for. */
  readonly done?: boolean
}

/**
 * `cdp-relay-watchdog [--dry-run] [--json] [node…]`. Silent under a timer unless something is wrong; for a
 * person the path of every node.
 * @param argv arguments without program and script
 * @throws ConfigError, UsageError, RootError
 */
export async function relayWatchdogCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const flags = argv.length === 0 ? { nodes: [], dryRun: false, json: false } : await parse(argv)
  if (flags.done === true) return EXIT.OK
  requireRoot('cdp-relay-watchdog')
  const person = byHand()
  if (person) outliveReader()
  const options: RunOptions = {
    nodes: flags.nodes,
    dryRun: flags.dryRun,
    lockWaitMs: person ? MANUAL_LOCK_WAIT_MS : 0,
    byHand: person,
    ...(person ? { onWait: (message: string) => console.error(message) } : {}),
    ...(person && !flags.json ? { onStart: () => context(p) } : {}),
  }
  const run = await runRelayWatchdog(p, options)
  if (flags.json || flags.dryRun || person) await print(run, flags)
  return run.exit
}

async function context(p: Paths): Promise<void> {
  console.log(await (await import('./context.ts')).contextLine(p))
}

async function print(run: RunResult, flags: Flags): Promise<void> {
  const { printJson, printText } = await import('./render.ts')
  if (flags.json) return console.log(printJson(run, flags.dryRun))
  const { style } = await import('../../cli/cli.ts')
  for (const line of printText(run, flags.dryRun, await style())) console.log(line)
}

async function parse(argv: readonly string[]): Promise<Flags> {
  const { Command, CommanderError } = await import('commander')
  const program = new Command('cdp-relay-watchdog')
    .description('Watches the CDP relay of every active node of this host, and restarts the ones that fail.')
    .argument('[node...]', 'only these nodes; default all active rows of this host')
    .option('--dry-run', 'look and say what would be done; change nothing')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', (await import('../../cli/examples.ts')).examples('cdp-relay-watchdog'))
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
  try {
    program.parse(argv as string[], { from: 'user' })
  } catch (err) {
    if (!(err instanceof CommanderError)) throw err
    if (err.exitCode === 0) return { nodes: [], dryRun: false, json: false, done: true }
    throw misused(err, 'cdp-relay-watchdog --help')
  }
  const { dryRun = false, json = false } = program.opts<{ dryRun?: boolean; json?: boolean }>()
  return { nodes: program.args, dryRun, json }
}
