import { fstatSync } from 'node:fs'
import { again, RootError } from '../base/errors.ts'

/**
 * The argument of a plain run as a timer makes it, `<program> <node>`: exactly one word that is no option.
 * Lets such a run do without commander, whose loading is a good part of a tick's CPU.
 * @param argv arguments only: `process.argv.slice(2)`
 */
export function plainTick(argv: readonly string[]): string | undefined {
  const [only] = argv
  return argv.length === 1 && only !== undefined && only !== '' && !only.startsWith('-') ? only : undefined
}

/** True when a person reads stdout. Under a timer this loads none of Node's terminal code. */
export function isTty(): boolean {
  try {
    return fstatSync(1).isCharacterDevice() && process.stdout.isTTY === true
  } catch {
    return false
  }
}

/**
 * Did a person start this run (or a script of theirs), rather than a timer? A pipe is no timer: what is sent through
 * `| less` is read. systemd sets SYSTEMD_EXEC_PID to the process it started itself, so that a shell below a unit,
 * which inherits the INVOCATION_ID, is not taken for it; a systemd before 248 sets the INVOCATION_ID only.
 * @param env the environment, where a set but empty variable counts as none
 * @param pid of this process
 * @param terminal whether stdout is one; units have none
 */
export function byHand(env = process.env, pid = process.pid, terminal = isTty()): boolean {
  if (terminal || (env.INVOCATION_ID ?? '') === '') return true
  const started = env.SYSTEMD_EXEC_PID ?? ''
  return started !== '' && started !== String(pid)
}

/**
 * Lets the work go on when who reads our output has gone (`netvm-node-up muse | head -1`): a node left half
 * made, without its timer, is worse than words that nobody reads. Not for a tick: it loads the streams.
 */
export function outliveReader(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
    })
  }
}

/**
 * @param stillSee what the program could see without root, for the error
 * @throws RootError (77). Not with NETVM_ROOT set: a test's files are its own.
 */
export function requireRoot(program: string, stillSee?: string): void {
  if (process.geteuid?.() === 0 || (process.env.NETVM_ROOT ?? '') !== '') return
  const seen = stillSee === undefined ? '' : ` (still seen without: ${stillSee})`
  throw new RootError(`${program} needs root${seen}`, `sudo ${again(program.split(' ')[0])}`)
}

type Paint = (text: string) => string

export interface Style {
  readonly bold: Paint
  readonly dim: Paint
  readonly red: Paint
  readonly green: Paint
  readonly yellow: Paint
  readonly cyan: Paint
}

/** Colours for a terminal; chalk is loaded for that only. Plain with NO_COLOR, TERM=dumb or without a terminal. */
export async function style(): Promise<Style> {
  const plain = (process.env.NO_COLOR ?? '') !== '' || process.env.TERM === 'dumb' || !isTty()
  if (!plain) return (await import('chalk')).default
  const same: Paint = (text) => text
  return { bold: same, dim: same, red: same, green: same, yellow: same, cyan: same }
}
