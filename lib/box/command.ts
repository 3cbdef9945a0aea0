import type { Command } from 'commander'
import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { misused } from '../cli/cli.ts'

const STATUS_HELP = `
The words:
  ACTIVE           seen from here, now: the browser answers over its relay
  ACTIVE [*]       not to be seen from here; recent runs on the host say so (age and source stand behind it)
  DEGRADED <layer> the lowest layer that fails; its owner repairs it or pages
  STOPPED          the browser is not running: seen in the process table, or told by systemd
  HELD DOWN        the watchdog gave up and waits for a person
  PAUSED           watched, not acted on, until the time that is shown
  UNKNOWN          nobody could tell; never a guess. Why: host-evidence <node>

Exit status: 0 all active, 1 something is down, 2 something is unknown.

Examples:
  box fleet status                every active node of this host
  box fleet status muse pip       these two
  box fleet status --watch        again every two seconds
  box fleet status --json | jq -r '.nodes[] | select(.beneath != "ACTIVE") | .node'`

const APPROVALS_HELP = `
  OK       reachable over CDP from this shell
  BLIND    the host says CDP is fine, this shell cannot reach it: queues unverified, not clear
  DOWN     nothing can be read
Exit status: 0 all OK, 1 something is down, 2 something is not verified.

Examples:
  box approvals check
  box approvals check muse && read-the-queue muse`

const PAUSE_HELP = `
A paused node is watched and reported, and no supervisor acts on it. A pause always ends: after 30
minutes unless --for says otherwise (at most 7d), also across a reboot.

Examples:
  box node pause muse --for 2h --reason "signing in by hand"
  box node resume muse`

const HISTORY_HELP = `
Examples:
  box node history muse             the last 20 repairs: before, after, how long, did it help
  box node history muse --lines 100 --json`

/** Runs `box`. @returns the exit status. @throws NetvmError for the caller to report */
export async function boxCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const { Command, CommanderError } = await import('commander')
  let code: ExitCode = EXIT.OK
  // `box … | head`: who reads no more has seen enough.
  process.stdout.on('error', () => process.exit(code))
  const box = new Command('box').description('The fleet at a glance, and what a person wants of a node.')
  box.exitOverride().configureOutput({ writeErr: () => {} })
  box.addHelpText(
    'after',
    '\nExamples:\n  box fleet status\n  box approvals check\n  box node pause muse --for 1h --reason "upgrade"',
  )
  const settle = (c: Command) => c.exitOverride().configureOutput({ writeErr: () => {} })
  const fleet = settle(box.command('fleet').description('all nodes'))
  settle(fleet.command('status [node...]'))
    .description('one line per node: how it is, and which layer is broken')
    .option('--json', 'for programs')
    .option('--watch', 'again every two seconds')
    .addHelpText('after', STATUS_HELP)
    .action(async (names: string[], o: { json?: boolean; watch?: boolean }) => {
      code = await (await import('./status.ts')).fleetStatus(p, names, o)
    })
  const approvals = settle(box.command('approvals').description('what is read over CDP'))
  settle(approvals.command('check [node...]'))
    .description('can the approval queues be read from this shell?')
    .option('--json', 'for programs')
    .addHelpText('after', APPROVALS_HELP)
    .action(async (names: string[], o: { json?: boolean }) => {
      code = await (await import('./approvals.ts')).approvalsCheck(p, names, o.json === true)
    })
  const node = settle(box.command('node').description('one node'))
  settle(node.command('pause <node>'))
    .description('keep every supervisor off a node for a while (root)')
    .option('--for <time>', 'how long: 90s, 30m, 2h, 1d (default 30m, at most 7d)')
    .option('--reason <text>', 'shown in the status, for those who come next')
    .addHelpText('after', PAUSE_HELP)
    .action(async (name: string, o: { for?: string; reason?: string }) => {
      code = (await import('./pause.ts')).pauseNode(p, name, o)
    })
  settle(node.command('resume <node>'))
    .description('end a pause now (root)')
    .addHelpText('after', PAUSE_HELP)
    .action(async (name: string) => {
      code = (await import('./pause.ts')).resumeNode(p, name)
    })
  settle(node.command('history <node>'))
    .description('the repairs of a node and whether they helped')
    .option('--json', 'for programs')
    .option('--lines <n>', 'how many (default 20)')
    .addHelpText('after', HISTORY_HELP)
    .action(async (name: string, o: { json?: boolean; lines?: string }) => {
      code = (await import('./history.ts')).nodeHistory(p, name, o)
    })
  try {
    await box.parseAsync([...argv], { from: 'user' })
    return code
  } catch (err) {
    if (!(err instanceof CommanderError)) throw err
    if (err.exitCode === 0) return EXIT.OK
    // `box` alone, or a group alone, printed its help on stderr, which is silenced above.
    if (err.code === 'commander.help') throw new UsageError('which command?', 'box --help')
    throw misused(err, 'box --help')
  }
}
