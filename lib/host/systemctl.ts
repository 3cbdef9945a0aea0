import { monotonicMs } from '../base/clock.ts'
import { NetvmError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import { installCommand } from '../base/os-error.ts'
import { seconds } from '../base/text.ts'
import { describe, run } from './exec.ts'
import { MISSING, parseTimer, show, TIMER_PROPS, type TimerState, type UnitShow } from './systemd.ts'

// systemd for programs that a person runs: what fails ends them, with the command to run next.

/** What systemd gets to answer: for itself, and for each unit, whose files it reads in some 5 ms when it has it not in memory. */
const ANSWER_MS = 5000
const ANSWER_PER_UNIT_MS = 20

/**
 * `show` for those who cannot go on without an answer.
 * @throws NetvmError (2): what was not seen is not acted on
 */
export async function askSystemd(
  units: readonly string[],
  props: readonly string[],
): Promise<Record<string, UnitShow>> {
  const shown = await show(units, props, ANSWER_MS + units.length * ANSWER_PER_UNIT_MS)
  if (shown.seen) return shown.value
  const next = shown.why === MISSING ? installCommand('systemctl') : 'systemctl status'
  throw new NetvmError(`cannot ask systemd: ${shown.why}`, { exitCode: EXIT.UNKNOWN, next })
}

/**
 * One line for a person who starts a run by hand: is the timer armed, when is it due, what did the last run do.
 * @param what the line's beginning: `muse: timer`
 * @param acted what the last run did, where that is known
 */
export async function contextLine(what: string, timer: string, acted?: string): Promise<string> {
  const look = await show([timer], TIMER_PROPS)
  const due = look.seen
    ? dueText(parseTimer(look.value[timer] ?? {}), monotonicMs())
    : `not seen (${look.why})`
  return `${what} ${due}${acted === undefined ? '' : `; ${acted}`}`
}

/** @param monoMs CLOCK_MONOTONIC, as a timer's own times; boot time counts sleep and would be past all of them. Pure. */
export function dueText(timer: TimerState, monoMs: number): string {
  if (!timer.loaded) return 'not installed'
  if (!timer.active) return 'NOT armed'
  if (timer.sub === 'running') return 'armed, a run is under way'
  if (!Number.isFinite(timer.nextElapseMs)) return 'armed, nothing scheduled'
  return `armed, next in ${seconds(Math.max(0, timer.nextElapseMs - monoMs))}`
}

export interface MustOptions {
  readonly deadlineMs: number
  /** What systemctl says on stderr when the units are already as they should be. */
  readonly fine?: RegExp
  /** The command to run when it fails. */
  readonly next: string
}

/**
 * Runs systemctl on units, for those who cannot go on when it fails; without units nothing is run.
 * @param verb the verb and its options: `['disable']`, `['start', '--no-block']`
 * @throws NetvmError with what systemctl said
 */
export async function systemctlOk(
  verb: readonly string[],
  units: readonly string[],
  { deadlineMs, fine, next }: MustOptions,
): Promise<void> {
  if (units.length === 0 && verb[0] !== 'daemon-reload') return
  const names = units.length === 0 ? [] : ['--', ...units]
  const result = await run(['systemctl', '--quiet', '--no-ask-password', ...verb, ...names], { deadlineMs })
  if (result.code === 0 || fine?.test(result.stderr)) return
  const how = result.missing ? { exitCode: EXIT.UNKNOWN, next: installCommand('systemctl') } : { next }
  throw new NetvmError(describe(result, deadlineMs), how)
}
