import { spawn } from 'node:child_process'
import { constants } from 'node:os'

/** As shells report a command that could not be run, or was not found. */
const CANNOT_RUN = 126
const NOT_FOUND = 127

/**
 * Passed on to the command. Not INT and QUIT: a terminal sends these to the whole foreground group, and the
 * command would get them twice; we only stay alive until it has ended.
 */
const FORWARDED: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']
const SAT_OUT: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT']

/**
 * Runs a command with our own stdin, stdout and stderr, and resolves with its exit status as a shell would
 * report it (128 + n for a signal). The command dies with us (PR_SET_PDEATHSIG): the slot is free the
 * moment we are killed, so the work must not go on without it. It inherits no descriptor of ours.
 */
export function runCommand(argv: readonly string[]): Promise<number> {
  return start(['setpriv', '--pdeathsig', 'KILL', '--', ...argv], () => start(argv))
}

function start(argv: readonly string[], missing?: () => Promise<number>): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: 'inherit' })
    const forward = (signal: NodeJS.Signals) => void child.kill(signal)
    const sitOut = () => {}
    for (const s of FORWARDED) process.on(s, forward)
    for (const s of SAT_OUT) process.on(s, sitOut)
    const done = (status: number | Promise<number>) => {
      for (const s of FORWARDED) process.off(s, forward)
      for (const s of SAT_OUT) process.off(s, sitOut)
      resolve(status)
    }
    child.on('error', (err: NodeJS.ErrnoException) => {
      const gone = err.code === 'ENOENT'
      if (gone && missing) return done(missing())
      process.stderr.write(`cdp-queue: cannot run ${argv[0]}: ${err.code}\n`)
      done(gone ? NOT_FOUND : CANNOT_RUN)
    })
    child.on('exit', (code, signal) => done(code ?? 128 + (signal ? constants.signals[signal] : 0)))
  })
}
