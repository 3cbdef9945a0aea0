import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { closeBrowser } from './close.ts'

/** The kernel's highest pid. */
const MAX_PID = 4_194_304

/**
 * `chromebox-close <port> [<main pid>]`, which systemd waits for: plain words, without commander.
 * Without a pid the browser has ended already, and there is nobody to ask.
 * @throws UsageError
 */
export async function closeCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  if (/^(-h|--help)$/.test(argv[0] ?? '')) {
    const { program } = await import('../cli/program.ts')
    const help = await program(
      'chromebox-close',
      'Asks a browser over DevTools to close, so that it keeps its data.',
    )
    help.argument('<port>', 'its DevTools port').argument('[pid]', 'its main process').help()
  }
  const port = number(argv[0] ?? '', 1, 65_535)
  // Pid 1 is no browser.
  const pid = number(argv[1] ?? '', 2, MAX_PID)
  if (port === undefined || (pid === undefined && argv.length > 1) || argv.length > 2) {
    const typed = argv.length === 0 ? 'nothing' : `"${clean(argv.join(' '), 60)}"`
    throw new UsageError(`give a port and a main pid, not ${typed}`)
  }
  const why = pid === undefined ? undefined : await closeBrowser(p.proc, pid, port)
  if (why !== undefined) console.log(`not closed over DevTools: ${why}; TERM follows`)
  return EXIT.OK
}

function number(word: string, least: number, most: number): number | undefined {
  return /^\d{1,9}$/.test(word) && Number(word) >= least && Number(word) <= most ? Number(word) : undefined
}
