import { writeSync } from 'node:fs'
import { basename } from 'node:path'
import { attempt } from './attempt.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { osFault, shellWord } from './os-error.ts'
import { clean } from './text.ts'

/** Longest error line on stderr, in characters: a configuration error lists every bad key in one line. */
const THEN = '; next: '
const MAX_LINE = 2000
/** Longest message about a command line, in characters: it echoes what was typed, or pasted by mistake. */
const MAX_USAGE = 400
/** Longest word of such a message, in characters. */
const MAX_WORD = 80
/** A command line longer than this is not worth typing again, in characters. */
const MAX_AGAIN = 200

interface NetvmErrorOptions {
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

/**
 * An error of the operating system as one for people: 77 when root would be let, else 2, because it says nothing
 * of a node. Other errors come back as they are.
 */
export function fromOs(err: unknown): unknown {
  const fault = err instanceof NetvmError ? undefined : osFault(err)
  if (fault === undefined) return err
  if (fault.denied && process.geteuid?.() !== 0) return new RootError(fault.text, `sudo ${again()}`)
  return new NetvmError(fault.text, { exitCode: EXIT.UNKNOWN, next: fault.next, cause: err })
}

/** The exit code an error stands for. A defect of ours is `unknown`: it says nothing of the node. */
export function exitCodeOf(err: unknown): ExitCode {
  const fault = fromOs(err)
  return fault instanceof NetvmError ? fault.exitCode : EXIT.UNKNOWN
}

/** An error for people: what happened and where, and the command to run next where there is one. */
export interface Words {
  readonly text: string
  readonly next?: string
}

export function errorWords(err: unknown, program?: string): Words {
  const fault = fromOs(err)
  if (fault instanceof NetvmError) {
    const next = fault.next ?? (program === undefined ? undefined : usualNext(fault, program))
    if (next === undefined) return { text: clean(message(fault), MAX_LINE) }
    const command = clean(next, MAX_USAGE)
    return { text: clean(message(fault), MAX_LINE - command.length - THEN.length), next: command }
  }
  // A defect: the place is worth more to whoever reports it than a polite sentence.
  const stack = err instanceof Error ? (err.stack ?? err.message) : String(err)
  const [what = '', where = ''] = stack.split('\n')
  return { text: clean(`internal error: ${what.trim()} ${where.trim()}`.trim(), MAX_LINE) }
}

/** The same in one line, without the program's name: `<message>; next: <command>`. */
export function errorLine(err: unknown, program?: string): string {
  const { text, next } = errorWords(err, program)
  return next === undefined ? text : `${text}${THEN}${next}`
}

function message(err: NetvmError): string {
  if (err.exitCode !== EXIT.USAGE) return err.message
  const short = err.message.replace(/\S{81,}/g, (word) => `${word.slice(0, MAX_WORD - 1)}…`)
  return clean(short, MAX_USAGE)
}

function usualNext(err: NetvmError, program: string): string | undefined {
  if (err.exitCode === EXIT.USAGE) return `${program} --help`
  return err.exitCode === EXIT.NEEDS_ROOT ? `sudo ${again(program)}` : undefined
}

/** This run's command line, to be run again; the program alone when an argument is long or odd. */
export function again(program = basename(process.argv[1] ?? '')): string {
  const args = process.argv.slice(2)
  const line = [program, ...args.map(shellWord)].join(' ')
  return args.some((a) => clean(a) !== a) || line.length > MAX_AGAIN ? program : line
}

/** Prints one line on stderr, `<program>: <message>; next: <command>`, and exits with the error's code. */
export function reportAndExit(err: unknown, program: string): never {
  // writeSync: process.exit() below does not wait for an asynchronous stream. A closed stderr must not change the code.
  attempt(() => writeSync(2, `${program}: ${errorLine(err, program)}\n`))
  process.exit(exitCodeOf(err))
}
