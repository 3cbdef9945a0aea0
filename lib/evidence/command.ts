import type { ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { program } from '../cli/program.ts'

const DESCRIPTION =
  'What the host knows of its nodes, and how.\n\n' +
  'For each node and supervisor: the verdict of the last run that can be believed, where that is known from ' +
  "(unit: systemd's record, receipt, journal, log), how old it is, whether its timer is armed, and why anything " +
  'is not known: no permission, no bus, no journal, rate-limited, never installed, never ran. Only what root ' +
  'wrote is believed. Works without root, and in a sandbox.'

/** Runs `host-evidence`. @returns the exit status. @throws NetvmError for the caller to report */
export async function evidenceCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const command = (await program('host-evidence', DESCRIPTION))
    .argument('[node...]', 'default: every active node of this host')
    .option('--json', 'for programs')
    .parse(argv, { from: 'user' })
  const { select } = await import('./select.ts')
  const { collect } = await import('./collect.ts')
  const { evidenceJson, evidenceText, exitOf } = await import('./report.ts')
  const { config, nodes, refused } = select(p, command.args)
  const { judged } = await collect(p, config, nodes, true)
  const json = command.opts<{ json?: boolean }>().json === true
  const text = json ? JSON.stringify(evidenceJson(judged)) : evidenceText(judged)
  if (text !== '') process.stdout.write(`${text}\n`)
  return exitOf({ judged }, refused.length)
}
