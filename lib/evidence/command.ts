import { UsageError } from '../base/errors.ts'
import type { ExitCode } from '../base/exit-codes.ts'
import { EXIT } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'

const HELP = `
For each node and supervisor: the verdict of the last run that can be believed, where that is known
from (unit: systemd's record, receipt, journal, log), how old it is, whether its timer is armed, and
why anything is not known: no permission, no bus, no journal, rate-limited, never installed, never ran.
Believed is only what root wrote. Works without root, and in a sandbox.

Exit status: 0 all active, 1 something is down, 2 something is unknown.

Examples:
  host-evidence muse             why does the status say what it says?
  host-evidence --json           every active node, for programs`

/** Runs `host-evidence`. @returns the exit status. @throws NetvmError for the caller to report */
export async function evidenceCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const { Command, CommanderError } = await import('commander')
  const command = new Command('host-evidence')
    .description('What the host knows of its nodes, and how.')
    .argument('[node...]', 'default: every active node of this host')
    .option('--json', 'for programs')
    .addHelpText('after', HELP)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
  try {
    command.parse([...argv], { from: 'user' })
  } catch (err) {
    if (!(err instanceof CommanderError)) throw err
    if (err.exitCode === 0) return EXIT.OK
    throw new UsageError(err.message.replace(/^error: /, ''), 'host-evidence --help')
  }
  const { select } = await import('./select.ts')
  const { collect } = await import('./collect.ts')
  const { evidenceJson, evidenceText, exitOf } = await import('./report.ts')
  const { config, nodes, refused } = select(p, command.args)
  const { judged } = await collect(p, config, nodes, { journal: true })
  const json = command.opts<{ json?: boolean }>().json === true
  const text = json ? JSON.stringify(evidenceJson(judged)) : evidenceText(judged)
  if (text !== '') process.stdout.write(`${text}\n`)
  return exitOf({ judged }, refused.length)
}
