import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { monotonicMs } from '../base/clock.ts'
import { NetvmError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import { installCommand, shellWord } from '../base/os-error.ts'
import { clean, seconds } from '../base/text.ts'

/** Default deadline of an external command, in milliseconds. */
const DEFAULT_DEADLINE_MS = 10_000
/** From TERM to KILL for a command past its deadline. Our helpers (curl, ip, systemctl) have nothing to flush. */
const TERM_GRACE_MS = 500
/** How long output is awaited once the command itself has ended: a daemon it left may hold the pipe for ever. */
const PIPE_GRACE_MS = 250
/** Kept bytes per stream; the rest is read and dropped so that the command does not block on a full pipe. */
const DEFAULT_MAX_OUTPUT = 4 * 1024 * 1024

export interface RunOptions {
  /** Milliseconds until the command and its process group get TERM, then KILL. Default 10 000. */
  readonly deadlineMs?: number
  readonly input?: string
  /** Open descriptors the command gets as 3, 4, … */
  readonly fds?: readonly number[]
  /** Bytes kept of each of stdout and stderr. Default 4 MiB. */
  readonly maxOutput?: number
  /** What a person runs after `runOk` has thrown. Default: the command itself. */
  readonly next?: string
  /**
   * An open file that takes stdout and stderr; both are then empty in the result. A pipe to us costs the
   * loading of node's sockets, a fifth of what a healthy tick uses.
   */
  readonly outputFd?: number
}

/** How a command ended. A failure is data here, never an exception. */
export interface RunResult {
  readonly argv: readonly string[]
  readonly code: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
  readonly timedOut: boolean
  readonly durationMs: number
  /** The program is not installed (ENOENT). */
  readonly missing: boolean
}

/** A command that had to succeed and did not: argv, how it ended, the first lines of its stderr. */
export class ExecError extends NetvmError {
  readonly result: RunResult

  constructor(result: RunResult, { deadlineMs, next }: Pick<RunOptions, 'deadlineMs' | 'next'>) {
    super(describe(result, deadlineMs), {
      exitCode: result.missing ? EXIT.UNKNOWN : EXIT.UNHEALTHY,
      next: result.missing ? nextAfter(result) : (next ?? nextAfter(result)),
    })
    this.result = result
  }
}

/**
 * Runs a command without a shell and always resolves, at the latest shortly after its deadline.
 * Plain node:child_process: loading execa costs more CPU than a healthy tick may use.
 */
export function run(argv: readonly string[], opts: RunOptions = {}): Promise<RunResult> {
  const started = monotonicMs()
  const limit = opts.maxOutput ?? DEFAULT_MAX_OUTPUT
  const out = sink(limit)
  const err = sink(limit)
  return new Promise((resolve) => {
    let timedOut = false
    let done = false
    let ended = false
    let child: ChildProcess
    const timers: NodeJS.Timeout[] = []
    const finish = (code: number | null, signal: string | null, missing: boolean) => {
      if (done) return
      done = true
      for (const t of timers) clearTimeout(t)
      const [stdout, stderr] = [out.text(), err.text()]
      resolve({ argv, code, signal, stdout, stderr, timedOut, durationMs: monotonicMs() - started, missing })
    }
    const output = opts.outputFd ?? 'pipe'
    try {
      child = spawn(argv[0] ?? '', argv.slice(1), {
        // A process group of its own, so that the deadline reaches what the command started too.
        detached: true,
        // Output is parsed, so it is in English.
        env: { ...process.env, LC_ALL: 'C' },
        stdio: [opts.input === undefined ? 'ignore' : 'pipe', output, output, ...(opts.fds ?? [])],
      })
    } catch (e) {
      err.push(Buffer.from(String(e instanceof Error ? e.message : e)))
      finish(null, null, (e as NodeJS.ErrnoException).code === 'ENOENT')
      return
    }
    child.stdout?.on('data', (b: Buffer) => out.push(b))
    child.stderr?.on('data', (b: Buffer) => err.push(b))
    // A command that does not read its input closes the pipe; its exit code says enough.
    child.stdin?.on('error', () => {})
    child.stdin?.end(opts.input)
    child.on('error', (e: NodeJS.ErrnoException) => {
      err.push(Buffer.from(e.message))
      finish(null, null, e.code === 'ENOENT')
    })
    const kill = (signal: NodeJS.Signals) => {
      // ESRCH: it ended in this moment, which is what we wanted.
      try {
        if (child.pid !== undefined) process.kill(-child.pid, signal)
      } catch {}
    }
    timers.push(
      afterReading(opts.deadlineMs ?? DEFAULT_DEADLINE_MS, () => {
        if (done || ended) return
        timedOut = true
        kill('SIGTERM')
        timers.push(setTimeout(() => kill('SIGKILL'), TERM_GRACE_MS))
        // A process in uninterruptible sleep survives even KILL: report, and leave it behind.
        timers.push(setTimeout(() => abandon(), TERM_GRACE_MS * 2 + PIPE_GRACE_MS))
      }),
    )
    const hangUp = () => {
      child.stdout?.destroy()
      child.stderr?.destroy()
    }
    const abandon = () => {
      hangUp()
      child.unref()
      finish(child.exitCode, child.signalCode, false)
    }
    child.on('exit', (code, signal) => {
      ended = true
      for (const t of timers) clearTimeout(t)
      // What it started and left in its group has no reader any more once the deadline has passed.
      if (timedOut) kill('SIGKILL')
      timers.push(
        afterReading(PIPE_GRACE_MS, () => {
          if (done) return
          hangUp()
          finish(code, signal, false)
        }),
      )
    })
    child.on('close', (code, signal) => finish(code, signal, false))
  })
}

/**
 * A timer that lets waiting input be read first. After a busy stretch of this process, timers run before what
 * the kernel holds for us: a command that answered and ended in time would look silent, or late.
 */
function afterReading(ms: number, fn: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(fn), ms)
}

/** Like `run`, but a missing program, a non-zero exit, a signal or a passed deadline throws ExecError. */
export async function runOk(argv: readonly string[], opts: RunOptions = {}): Promise<RunResult> {
  const result = await run(argv, opts)
  if (result.code !== 0 || result.timedOut) throw new ExecError(result, opts)
  return result
}

/** The same, blocking. For the few callers that must not yield (the log); KILL at the deadline. */
export function runSync(argv: readonly string[], opts: RunOptions = {}): RunResult {
  const started = monotonicMs()
  const r = spawnSync(argv[0] ?? '', argv.slice(1), {
    input: opts.input ?? '',
    env: { ...process.env, LC_ALL: 'C' },
    timeout: opts.deadlineMs ?? DEFAULT_DEADLINE_MS,
    killSignal: 'SIGKILL',
    maxBuffer: opts.maxOutput ?? DEFAULT_MAX_OUTPUT,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'pipe', ...(opts.fds ?? [])],
  })
  const error = r.error as NodeJS.ErrnoException | undefined
  return {
    argv,
    code: r.status,
    signal: r.signal,
    stdout: r.stdout ?? '',
    stderr: (r.stderr ?? '') || (error?.message ?? ''),
    timedOut: error?.code === 'ETIMEDOUT',
    durationMs: monotonicMs() - started,
    missing: error?.code === 'ENOENT',
  }
}

/** What to run after a command that failed: its package when it is not installed, else the command by hand. */
export function nextAfter(r: RunResult): string {
  const [program = '', ...args] = r.argv
  if (r.missing) return installCommand(program)
  return clean([program, ...args].map(shellWord).join(' '), 160)
}

/** One line for people: the command, how it ended, and what it said on stderr. */
export function describe(r: RunResult, deadlineMs = DEFAULT_DEADLINE_MS): string {
  const said = r.missing ? '' : clean(r.stderr.split('\n').slice(0, 3).join(' '), 240)
  return `${clean(r.argv.join(' '), 160)}: ${how(r, deadlineMs)}${said === '' ? '' : `: ${said}`}`
}

function how(r: RunResult, deadlineMs: number): string {
  if (r.missing) return 'not installed'
  if (r.timedOut) return `no answer in ${seconds(deadlineMs)}, killed`
  if (r.signal !== null) return `ended by ${r.signal}`
  if (r.code !== null) return `exit ${r.code}`
  return 'could not be started'
}

/** Collects up to `limit` bytes. */
function sink(limit: number) {
  const chunks: Buffer[] = []
  let room = limit
  return {
    push(b: Buffer): void {
      if (room <= 0) return
      chunks.push(b.subarray(0, room))
      room -= b.length
    },
    text: () => Buffer.concat(chunks).toString('utf8'),
  }
}
