import { writeSync } from 'node:fs'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { clean } from './text.ts'

/** Longest error line on stderr, in characters: a configuration error lists every bad key in one line. */
const MAX_LINE = 2000

export interface NetvmErrorOptions {
  readonly exitCode?: ExitCode
  /** One command that the reader should run next, without sudo. */
  readonly next?: string | undefined
  readonly cause?: unknown
}

/** An error for people: the message says what went wrong and where, `next` what to run. */
export class NetvmError extends Error {
  readonly exitCode: ExitCode
  readonly next?: string

  constructor(message: string, opts: NetvmErrorOptions = {}) {
    super(message, opts.cause === undefined ? {} : { cause: opts.cause })
    this.name = new.target.name
    this.exitCode = opts.exitCode ?? EXIT.UNHEALTHY
    if (opts.next !== undefined) this.next = opts.next
  }
}

/** A configuration file, the registry included, that cannot be used as it is (exit 78). */
export class ConfigError extends NetvmError {
  constructor(message: string, next?: string, cause?: unknown) {
    super(message, { exitCode: EXIT.CONFIG, next, cause })
  }
}

/** The command line cannot be carried out as it was typed (exit 64). */
export class UsageError extends NetvmError {
  constructor(message: string, next?: string) {
    super(message, { exitCode: EXIT.USAGE, next })
  }
}

/** The work needs root; the message says what could still be seen without (exit 77). */
export class RootError extends NetvmError {
  constructor(message: string, next?: string) {
    super(message, { exitCode: EXIT.NEEDS_ROOT, next })
  }
}

/** Another run holds the lock (exit 75, which the units count as success). */
export class LockedError<H = unknown> extends NetvmError {
  /** Who holds it, when that could be read. */
  readonly holder?: H

  constructor(message: string, holder?: H, next?: string) {
    super(message, { exitCode: EXIT.LOCKED, next })
    if (holder !== undefined) this.holder = holder
  }
}

/** The exit code an error stands for. A defect of ours is `unknown`: it says nothing of the node. */
export function exitCodeOf(err: unknown): ExitCode {
  return err instanceof NetvmError ? err.exitCode : EXIT.UNKNOWN
}

/** One line for people, without the program's name: `<message>; next: <command>`. */
export function errorLine(err: unknown): string {
  if (err instanceof NetvmError) {
    return clean(err.next === undefined ? err.message : `${err.message}; next: ${err.next}`, MAX_LINE)
  }
  // A defect: the place is worth more to whoever reports it than a polite sentence.
  const stack = err instanceof Error ? (err.stack ?? err.message) : String(err)
  const [what = '', where = ''] = stack.split('\n')
  return clean(`internal error: ${what.trim()} ${where.trim()}`.trim(), MAX_LINE)
}

/** Prints one line on stderr, `<program>: <message>; next: <command>`, and exits with the error's code. */
export function reportAndExit(err: unknown, program: string): never {
  try {
    // writeSync: process.exit() below does not wait for an asynchronous stream.
    writeSync(2, `${program}: ${errorLine(err)}\n`)
  } catch {
    // A closed stderr must not change the exit code.
  }
  process.exit(exitCodeOf(err))
}
