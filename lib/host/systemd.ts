import { constants } from 'node:os'
import { bootTimeMs, type Clocks } from '../base/damping.ts'
import { present } from '../base/present.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { type RunResult, run } from './exec.ts'

/** Properties of one unit as systemctl prints them; one that repeats is joined by newlines. */
export type UnitShow = Record<string, string>

/** What `howItEnded` reads. */
export const ENDED_PROPS: readonly string[] = [
  'Result',
  'ExecMainCode',
  'ExecMainStatus',
  'ExecMainExitTimestampMonotonic',
  'ExecMainPID',
]

/** What `parseTimer` reads. */
export const TIMER_PROPS: readonly string[] = [
  'LoadState',
  'UnitFileState',
  'ActiveState',
  'SubState',
  'Result',
  'TimersMonotonic',
  'NextElapseUSecMonotonic',
  'LastTriggerUSecMonotonic',
]

export interface Ended {
  readonly how: 'clean' | 'exit-code' | 'signal' | 'oom-kill' | 'core-dump' | 'unknown'
  /** For people: `exit code 21`, `signal KILL`, why it is unknown. */
  readonly detail: string
  /** The exit code or the signal's number. */
  readonly status?: number
}

/** One unit, as systemd knows it. */
export interface UnitState {
  /** `loaded`, `masked`, `bad-setting`…; empty when systemctl did not say. */
  readonly load: string
  readonly active: string
  /** 0 when there is none. */
  readonly mainPid: number
  /** How its last main process ended. */
  readonly ended: Ended
  /** What its start runs; absent when systemctl did not say. */
  readonly program?: string
  /** Files without which it does not start: its settings, and what is bound into its namespace. */
  readonly files?: readonly string[]
}

export interface TimerState {
  readonly loaded: boolean
  readonly enabled: boolean
  readonly active: boolean
  /** `waiting`, `running` (its service runs now, so it has no next elapse), `elapsed`, `dead`. */
  readonly sub: string
  readonly result: string
  /** Period of `OnUnitActiveSec`, in ms, the shortest of several; undefined when it has none. */
  readonly periodMs?: number
  /** Milliseconds since boot (CLOCK_MONOTONIC); Infinity when nothing is scheduled. */
  readonly nextElapseMs: number
  /** Milliseconds since boot (CLOCK_MONOTONIC); undefined when it never triggered in this boot. */
  readonly lastTriggerMs?: number
}

export const MISSING = 'the program systemctl is missing'

/** The end of one systemctl call that changes something. Exit status 0 is not recovery: look again. */
export interface JobResult extends RunResult {
  readonly ok: boolean
  /** One line for people; empty when ok. */
  readonly detail: string
}

/**
 * Properties of several units with one systemctl call. Not seen: no systemctl, no bus, out of time, or an
 * answer that does not match the question. A unit that does not exist is seen, with `LoadState=not-found`
 * when that property was asked for. `Id` is always there.
 */
export async function show(
  units: readonly string[],
  props: readonly string[],
  deadlineMs = 5000,
): Promise<Look<Record<string, UnitShow>>> {
  if (units.length === 0) return { seen: true, value: {} }
  const blocks = await showMatching(units, props, deadlineMs)
  if (!blocks.seen) return blocks
  if (blocks.value.length !== units.length) {
    return { seen: false, why: `systemctl show answered for ${blocks.value.length} of ${units.length} units` }
  }
  return { seen: true, value: Object.fromEntries(units.map((unit, i) => [unit, blocks.value[i] ?? {}])) }
}

/** The same of the units in memory that match patterns (`cdp-relay@*`), in systemd's order. */
export async function showMatching(
  patterns: readonly string[],
  props: readonly string[],
  deadlineMs = 5000,
): Promise<Look<UnitShow[]>> {
  // A unit of a kind without any of the properties would leave no block at all; every unit has an Id.
  const wanted = ['Id', ...props.filter((p) => p !== 'Id')].join(',')
  // The timestamps are for `momentMs`; the other styles are in the local zone, or of whole seconds.
  const options = ['--no-pager', '--no-ask-password', '--timestamp=us+utc', `--property=${wanted}`]
  const result = await run(['systemctl', 'show', ...options, '--', ...patterns], { deadlineMs })
  if (result.missing) return { seen: false, why: MISSING }
  if (result.timedOut) return { seen: false, why: `systemctl show gave no answer in ${deadlineMs} ms` }
  if (result.code !== 0) {
    return { seen: false, why: clean(result.stderr.trim()) || `systemctl show: exit code ${result.code}` }
  }
  return { seen: true, value: parseShow(result.stdout) }
}

/** State of one unit and how its last main process ended: one systemctl call. */
export async function lookUnit(unit: string, deadlineMs?: number): Promise<Look<UnitState>> {
  const starts = ['ExecStart', 'EnvironmentFiles', 'BindReadOnlyPaths']
  const props = ['LoadState', 'ActiveState', 'MainPID', ...ENDED_PROPS, ...starts]
  const shown = await show([unit], props, deadlineMs)
  if (!shown.seen) return shown
  const found = shown.value[unit] ?? {}
  const { LoadState: load = '', ActiveState: active = '', MainPID: pid = '' } = found
  const state = { load, active, mainPid: Number(pid), ended: howItEnded(found) }
  return { seen: true, value: { ...state, ...startsWith(found) } }
}

/** What a start needs; what is marked as optional, with `-` in the unit, is left out. */
function startsWith(shown: UnitShow): Pick<UnitState, 'program' | 'files'> {
  const { ExecStart = '', EnvironmentFiles = '', BindReadOnlyPaths = '' } = shown
  const program = /path=(\/\S+) ;/.exec(ExecStart)?.[1]
  if (program === undefined) return {}
  const settings = Array.from(EnvironmentFiles.matchAll(/^(\/.*) \(ignore_errors=no\)$/gm), (m) => m[1] ?? '')
  const bound = BindReadOnlyPaths.split(/\s+/).filter((path) => path.startsWith('/'))
  return { program, files: [...settings, ...bound.map((path) => path.replace(/:.*/, ''))] }
}

/** Parses `systemctl show`: units in the order they were asked for, separated by a blank line. */
export function parseShow(stdout: string): UnitShow[] {
  const blocks = stdout.split(/\n{2,}/).map((block) => {
    const unit: UnitShow = {}
    for (const [, key = '', value = ''] of block.matchAll(/^([^=\n]+)=(.*)$/gm))
      unit[key] = Object.hasOwn(unit, key) ? `${unit[key]}\n${value}` : value
    return unit
  })
  return blocks.filter((unit) => Object.keys(unit).length > 0)
}

/** The properties that `momentMs` reads. */
export const momentProps = (names: readonly string[]): string[] => names.flatMap((n) => [n, `${n}Monotonic`])

/** When something last happened to a unit (`ExecMainExitTimestamp`), in boot time; undefined when it never did. */
export function momentMs(unit: UnitShow, name: string, at: Clocks): number | undefined {
  const monoMs = Number(unit[`${name}Monotonic`] ?? 0) / 1000
  if (!(monoMs > 0)) return undefined
  const [, day, time] = / (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) UTC$/.exec(unit[name] ?? '') ?? []
  return bootTimeMs({ monoMs, ...(day && { wallMs: Date.parse(`${day}T${time}Z`) }) }, at)
}

const jobOf = (verb: string) => (unit: string, deadlineMs: number) => job([verb, '--', unit], deadlineMs)

/** Starts a unit and waits for the job. Out of time ends the waiting, not the job: systemd carries on. */
export const start = jobOf('start')
/** Stops a unit and waits until its processes are gone (bounded by its own TimeoutStopSec). */
export const stop = jobOf('stop')
/** Stops and starts a unit. */
export const restart = jobOf('restart')

/** Reads unit files again. Fires timers whose time has come, so only when a unit file changed. */
export function daemonReload(deadlineMs = 30_000): Promise<JobResult> {
  return job(['daemon-reload'], deadlineMs)
}

async function job(args: readonly string[], deadlineMs: number): Promise<JobResult> {
  const result = await run(['systemctl', '--no-ask-password', ...args], { deadlineMs })
  const ok = result.code === 0 && !result.timedOut && !result.missing
  const what = args.join(' ').replace(' -- ', ' ')
  return { ...result, ok, detail: ok ? '' : jobDetail(what, result, deadlineMs) }
}

function jobDetail(what: string, result: RunResult, deadlineMs: number): string {
  if (result.missing) return MISSING
  if (result.timedOut) return `systemctl ${what}: not done in ${deadlineMs} ms`
  const said = clean(result.stderr.trim()) || `exit code ${result.code ?? result.signal}`
  return `systemctl ${what}: ${said}`
}

/** What systemd means by the exit codes it gives a process that it could not set up (systemd.exec(5)). */
const SET_UP: Readonly<Record<number, string>> = {
  203: ': its program cannot be executed',
  226: ': its namespace, or a file that is to be seen in it, is missing; netvm-node-up makes what is missing',
}

/** How a service's main process last ended. */
export function howItEnded(unit: UnitShow): Ended {
  const code = Number(unit.ExecMainCode ?? 0)
  const status = Number(unit.ExecMainStatus ?? 0)
  // A unit that never ran says Result=success too; only an exit time proves an end.
  if (!(Number(unit.ExecMainExitTimestampMonotonic ?? 0) > 0)) {
    const runs = Number(unit.ExecMainPID ?? 0) > 0
    return { how: 'unknown', detail: runs ? 'still running' : 'never ran in this boot' }
  }
  const result = unit.Result ?? ''
  if (result === 'oom-kill') return { how: 'oom-kill', detail: 'killed for lack of memory', status }
  if (code === 3) return { how: 'core-dump', detail: `core dump on signal ${signalName(status)}`, status }
  if (code === 1 && status === 0) return { how: 'clean', detail: 'exit code 0', status }
  if (code === 1) return { how: 'exit-code', detail: `exit code ${status}${SET_UP[status] ?? ''}`, status }
  if (code === 2 && result === 'success')
    return { how: 'clean', detail: `stopped by signal ${signalName(status)}`, status }
  if (code === 2) {
    const late = result === 'timeout' || result === 'watchdog' ? ` after a ${result}` : ''
    return { how: 'signal', detail: `signal ${signalName(status)}${late}`, status }
  }
  return { how: 'unknown', detail: `result ${clean(result) || 'not known'}` }
}

/** `TRAP` for 5; the number of one that has no name. */
export function signalName(signal: number): string {
  const [name] = Object.entries(constants.signals).find(([, number]) => number === signal) ?? []
  return name?.slice('SIG'.length) ?? String(signal)
}

/** Reads a timer's properties (`TIMER_PROPS`). */
export function parseTimer(unit: UnitShow): TimerState {
  return present({
    loaded: unit.LoadState === 'loaded',
    enabled: unit.UnitFileState === 'enabled' || unit.UnitFileState === 'enabled-runtime',
    active: unit.ActiveState === 'active',
    sub: unit.SubState ?? '',
    result: unit.Result ?? '',
    nextElapseMs: parseSpan(unit.NextElapseUSecMonotonic ?? '') || Number.POSITIVE_INFINITY,
    periodMs: elapseOf(unit, ['OnUnitActiveUSec']),
    lastTriggerMs: parseSpan(unit.LastTriggerUSecMonotonic ?? '') || undefined,
  })
}

/** The shortest of a timer's elapses of the given kinds (`OnActiveUSec`), in ms; undefined when it has none. */
export function elapseOf(unit: UnitShow, kinds: readonly string[]): number | undefined {
  const spans = (unit.TimersMonotonic ?? '')
    .split('\n')
    .map((line) => /(\w+)=([^;}]+)/.exec(line))
    .filter((m) => m !== null && kinds.includes(m[1] ?? ''))
    .map((m) => parseSpan(m?.[2] ?? ''))
    .filter((span) => span !== undefined)
  // A timer elapses when the first of its settings does.
  return spans.length === 0 ? undefined : Math.min(...spans)
}

/** Milliseconds of each unit systemd prints (systemd.time(7)). */
const SPAN_UNITS: Readonly<Record<string, number>> = {
  y: 31_557_600_000,
  month: 2_629_800_000,
  w: 604_800_000,
  d: 86_400_000,
  h: 3_600_000,
  min: 60_000,
  s: 1000,
  ms: 1,
  us: 0.001,
}

/** Parses a time span as systemctl prints it (`1d 2h 3min 4.5s`, `infinity`), in ms; undefined when it is none. */
export function parseSpan(span: string): number | undefined {
  const text = span.trim()
  if (text === 'infinity') return Number.POSITIVE_INFINITY
  if (text === '0') return 0
  if (text === '') return undefined
  let total = 0
  for (const part of text.split(/\s+/)) {
    const m = /^(\d+(?:\.\d+)?)([a-z]+)$/.exec(part)
    const unit = SPAN_UNITS[m?.[2] ?? '']
    if (m === null || unit === undefined) return undefined
    total += Number(m[1]) * unit
  }
  return total
}
