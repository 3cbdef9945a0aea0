import { Command, CommanderError } from 'commander'
import { UsageError } from '../../base/errors.ts'
import { examples } from '../../cli/examples.ts'

export interface Invocation {
  readonly kind: 'run' | 'release'
  readonly node: string
  readonly dryRun: boolean
  readonly json: boolean
  readonly why: boolean
}

/** @returns undefined after `--help`, which has been printed */
export function parseArgs(argv: readonly string[]): Invocation | undefined {
  let found: Invocation | undefined
  const program = new Command('chromebox-watchdog')
    .description("looks at a node's browser from inside its namespace and brings it back when it is broken")
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .argument('<node>', 'a node of the registry')
    .option('--dry-run', 'say what would be done and which guard stops it; do nothing')
    .option('--json', 'print the receipt')
    .option(
      '--why',
      'what is known: layers, last runs and attempts, how the last browser ended, what it printed',
    )
    .action((node: string, o: { dryRun?: boolean; json?: boolean; why?: boolean }) => {
      const flags = { dryRun: o.dryRun === true, json: o.json === true, why: o.why === true }
      found = { kind: 'run', node, ...flags }
    })
    .addHelpText('after', '\nExit: 0 well, recovered or nothing to do; 1 unhealthy; 2 cannot tell;')
    .addHelpText('after', '      64 usage; 75 another run holds the node; 77 needs root; 78 configuration')
    .addHelpText('after', examples('chromebox-watchdog'))
  program
    .command('release')
    .description('forget a hold-down and the back-off: the next run may act at once')
    .argument('<node>')
    .action((node: string) => {
      found = { kind: 'release', node, dryRun: false, json: false, why: false }
    })
  try {
    program.parse([...argv], { from: 'user' })
  } catch (err) {
    if (!(err instanceof CommanderError)) throw err
    if (err.exitCode === 0) return undefined
    throw new UsageError(err.message.replace(/^error: /, ''), 'chromebox-watchdog --help')
  }
  return found
}
