import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { epilogue } from '../cli/help.ts'
import { program } from '../cli/program.ts'
import { readableWords, statusWords } from './words.ts'

const PAUSE_HELP = `
A paused node is watched and reported, and no supervisor acts on it. A pause always ends: after 30
minutes unless --for says otherwise (at most 7d), also across a reboot.`

/** Runs `box`. @returns the exit status. @throws NetvmError for the caller to report */
export async function boxCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  let code: ExitCode = EXIT.OK
  // `box … | head`: who reads no more has seen enough.
  process.stdout.on('error', () => process.exit(code))
  const box = await program('box', 'The fleet at a glance, and commands for one node.')
  const fleet = box.command('fleet').description('all nodes')
  fleet
    .command('status [node...]')
    .description('one line per node: how it is, and which layer is broken')
    .option('--json', 'for programs')
    .option('--watch', 'again every two seconds')
    .addHelpText('after', `${statusWords()}\n${epilogue('box fleet status')}`)
    .action(async (names: string[], o: { json?: true; watch?: true }) => {
      code = await (await import('./status.ts')).fleetStatus(p, names, o)
    })
  fleet
    .command('restart [node...]')
    .description('restart the browsers, one after the other; stops at the first that is not healthy (root)')
    .option('--rolling', 'each is healthy before the next one is stopped (required)')
    .addHelpText('after', epilogue('box fleet restart'))
    .action(async (names: string[], o: { rolling?: true }) => {
      code = await (await import('./restart.ts')).fleetRestart(p, names, o)
    })
  const approvals = box.command('approvals').description('what is read over CDP')
  approvals
    .command('check [node...]')
    .description('can the approval queues be read from this shell?')
    .option('--json', 'for programs')
    .addHelpText('after', `${readableWords()}\n${epilogue('box approvals check')}`)
    .action(async (names: string[], o: { json?: true }) => {
      code = await (await import('./approvals.ts')).approvalsCheck(p, names, o.json === true)
    })
  const node = box.command('node').description('one node')
  node
    .command('pause <node>')
    .description('keep every supervisor off a node for a while (root)')
    .option('--for <time>', 'how long: 90s, 30m, 2h, 1d (default 30m, at most 7d)')
    .option('--reason <text>', 'shown in the status, for those who come next')
    .addHelpText('after', `${PAUSE_HELP}\n${epilogue('box node pause')}`)
    .action(async (name: string, o: { for?: string; reason?: string }) => {
      code = (await import('./pause.ts')).pauseNode(p, name, o)
    })
  node
    .command('resume <node>')
    .description('end a pause now (root)')
    .addHelpText('after', `${PAUSE_HELP}\n${epilogue('box node pause')}`)
    .action(async (name: string) => {
      code = (await import('./pause.ts')).resumeNode(p, name)
    })
  node
    .command('history <node>')
    .description('the repairs of a node and whether they helped')
    .option('--json', 'for programs')
    .option('--lines <n>', 'how many (default 20)')
    .addHelpText('after', epilogue('box node history'))
    .action(async (name: string, o: { json?: true; lines?: string }) => {
      code = (await import('./history.ts')).nodeHistory(p, name, o)
    })
  await box.parseAsync(argv, { from: 'user' })
  return code
}
