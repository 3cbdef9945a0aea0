import { Command, CommanderError } from 'commander'
import { misused } from '../../cli/cli.ts'
import { examples } from '../../cli/examples.ts'

export interface Invocation {
  readonly kind: 'run' | 'status' | 'reset'
  /** Empty: every active row of this host. */
  readonly nodes: readonly string[]
  readonly dryRun: boolean
  readonly json: boolean
}

/** @returns undefined after `--help`, which has been printed */
export function parseArgs(argv: readonly string[]): Invocation | undefined {
  let found: Invocation | undefined
  const refuse = { writeErr: () => {} }
  const program = new Command('agent-health')
    .description(
      "checks every node's API through its chat page, and restarts browsers behind a circuit breaker",
    )
    .exitOverride()
    .configureOutput(refuse)
    .enablePositionalOptions()
    .argument('[node...]', 'only these nodes; default all active rows of this host')
    .option('--dry-run', 'look and say what would be done and which guard stops it; do nothing')
    .option('--json', 'print the receipts as JSON')
    .action((nodes: string[], o: { dryRun?: boolean; json?: boolean }) => {
      found = { kind: 'run', nodes, dryRun: o.dryRun === true, json: o.json === true }
    })
    .addHelpText('after', '\nExit: 0 well, recovered or nothing to do; 1 unhealthy; 2 cannot tell;')
    .addHelpText('after', '      64 usage; 75 another run is under way; 77 needs root; 78 configuration')
    .addHelpText('after', examples('agent-health'))
  program
    .command('status')
    .description('strikes, futile restarts, circuit and review notices of each node; looks at no browser')
    .argument('[node...]')
    .option('--json', 'for programs')
    .action((nodes: string[], o: { json?: boolean }) => {
      found = { kind: 'status', nodes, dryRun: false, json: o.json === true }
    })
  program
    .command('reset')
    .description('close the circuit by hand: the next two failures may restart the browser again')
    .argument('<node>')
    .action((node: string) => {
      found = { kind: 'reset', nodes: [node], dryRun: false, json: false }
    })
  try {
    program.parse([...argv], { from: 'user' })
  } catch (err) {
    if (!(err instanceof CommanderError)) throw err
    if (err.exitCode === 0) return undefined
    throw misused(err, 'agent-health --help')
  }
  return found
}
