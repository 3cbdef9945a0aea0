import { spawnSync } from 'node:child_process'
import { patience } from '../unit.ts'

/**
 * Runs a command to its end inside the lab and returns its result; never throws. The deadline is in milliseconds of a
 * quick machine (tests/kit/unit.ts makes it one of this machine); only a command that hangs reaches it.
 */
export function sh(
  argv: readonly string[],
  options: { input?: string; deadlineMs?: number; env?: Record<string, string> } = {},
) {
  const [file = '', ...args] = argv
  const result = spawnSync(file, args, {
    encoding: 'utf8',
    // No stdin where none is given: Node's pipes are sockets, and bash that reads one takes itself for a remote shell
    // and runs ~/.bashrc.
    ...(options.input === undefined
      ? { stdio: ['ignore', 'pipe', 'pipe'] as const }
      : { input: options.input }),
    timeout: patience(options.deadlineMs ?? 60_000),
    killSignal: 'SIGKILL',
    maxBuffer: 64 << 20,
    env: { ...process.env, ...options.env },
  })
  return {
    code: result.status,
    stdout: result.stdout ?? '',
    stderr: result.stderr ?? '',
    all: `${result.stdout ?? ''}${result.stderr ?? ''}`,
    error: result.error?.message,
  }
}

/** Runs a command that must succeed; returns its standard output without the last newline. */
export function ok(argv: readonly string[], options: { input?: string; deadlineMs?: number } = {}): string {
  const result = sh(argv, options)
  if (result.code !== 0)
    throw new Error(`${argv.join(' ')} ended with ${result.code ?? result.error}:\n${result.all}`)
  return result.stdout.replace(/\n$/, '')
}

/**
 * Polls until `look` gives something truthy; throws with the last thing seen when the deadline is over, which is in
 * milliseconds of a quick machine like that of `sh`. `everyMs` is real time.
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  deadlineMs = 30_000,
  everyMs = 50,
): Promise<Exclude<T, null | undefined | false | '' | 0>> {
  const allowed = patience(deadlineMs)
  const end = performance.now() + allowed
  let last: unknown
  for (;;) {
    try {
      const value = await look()
      if (value) return value as Exclude<T, null | undefined | false | '' | 0>
      last = value
    } catch (error) {
      last = error
    }
    if (performance.now() > end)
      throw new Error(`not within ${allowed} ms: ${what}; last seen: ${String(last)}`)
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}
