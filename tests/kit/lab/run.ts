import { execaSync } from 'execa'
import { patience } from '../unit.ts'

export { until } from '../until.ts'

interface Options {
  readonly input?: string
  /** In milliseconds of a quick machine (tests/kit/unit.ts makes it one of this machine); default a minute. */
  readonly deadlineMs?: number
  /** Beside the environment of this process. */
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a command to its end inside the lab and returns its result; never throws. Only one that hangs is killed. */
export function sh(argv: readonly string[], { input, deadlineMs = 60_000, env = {} }: Options = {}) {
  const [file = '', ...args] = argv
  const ran = execaSync(file, args, {
    // No stdin where none is given: Node's pipes are sockets, and bash that reads one takes itself for a remote shell
    // and runs ~/.bashrc.
    ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
    timeout: patience(deadlineMs),
    killSignal: 'SIGKILL',
    maxBuffer: 64 << 20,
    stripFinalNewline: false,
    reject: false,
    env,
  })
  // A command that could not be started has no output at all.
  const { exitCode: code = null, stdout = '', stderr = '' } = ran
  return { code, stdout, stderr, all: `${stdout}${stderr}`, error: ran.failed ? ran.shortMessage : undefined }
}

/** Runs a command that must succeed; returns its standard output without the last newline. */
export function ok(argv: readonly string[], options: Options = {}): string {
  const ran = sh(argv, options)
  if (ran.code !== 0) throw new Error(`${argv.join(' ')} ended with ${ran.code ?? ran.error}:\n${ran.all}`)
  return ran.stdout.replace(/\n$/, '')
}
