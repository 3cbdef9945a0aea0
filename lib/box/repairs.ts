import { parseLog } from '../evidence/logs.ts'
import type { LogLine } from '../evidence/types.ts'
import type { Supervisor } from '../types.ts'

/** One repair of a node, as its lines in a supervisor's log tell it. */
export interface Repair {
  readonly supervisor: Supervisor
  /** When it ended, wall clock. */
  readonly wallMs: number
  readonly what: 'relaunch' | 'tunnel restart' | 'relay restart' | 'browser restart (api)'
  /** The fault it was for; empty when the log does not reach back. */
  readonly before: string
  /** What a look afterwards found. */
  readonly after: string
  /** Milliseconds; undefined when neither the line nor the one before says. */
  readonly durationMs?: number
  readonly helped: boolean
}

const WHAT: readonly [RegExp, Repair['what'], boolean][] = [
  [/\brelaunch OK\b/, 'relaunch', true],
  [/\brelaunch FAILED\b/, 'relaunch', false],
  [/\btunnel restart OK\b/, 'tunnel restart', true],
  [/\btunnel restart FAILED\b/, 'tunnel restart', false],
  [/\brelay restart OK\b/, 'relay restart', true],
  [/\brelay restart FAILED\b/, 'relay restart', false],
  [/\bstill down after restart\b/, 'browser restart (api)', false],
  [/\bapi restart OK\b|\brestart helped\b/, 'browser restart (api)', true],
]

/** A line this long before a result belongs to another run. */
const SAME_RUN_MS = 180_000

/** `after 12s`, `after 1m 3s`, `after 0.4s` in a result line, in ms. */
function tookMs(text: string): number | undefined {
  const m = /\bafter (?:(\d+)m ?)?(?:(\d+(?:\.\d+)?)s)?/.exec(text)
  if (m === null || (m[1] === undefined && m[2] === undefined)) return undefined
  return Math.round((Number(m[1] ?? 0) * 60 + Number(m[2] ?? 0)) * 1000)
}

/** The repairs of one node in one supervisor's log, oldest first. Pure. */
export function findRepairs(text: string, whole: boolean, supervisor: Supervisor, node: string): Repair[] {
  const out: Repair[] = []
  let fault: LogLine | undefined
  for (const line of parseLog(text, whole, supervisor)) {
    if (line.node !== node || line.level === 'PAGE') continue
    const hit = WHAT.find(([re]) => re.test(line.text))
    if (hit === undefined) {
      if (line.level !== 'INFO') fault = line
      continue
    }
    const [, what, helped] = hit
    const near = fault !== undefined && line.wallMs - fault.wallMs <= SAME_RUN_MS ? fault : undefined
    const durationMs = tookMs(line.text) ?? (near === undefined ? undefined : line.wallMs - near.wallMs)
    out.push({
      supervisor,
      wallMs: line.wallMs,
      what,
      before: near?.text.replace(/; next: .*$/, '') ?? '',
      after: helped ? 'healthy' : line.text.replace(/; next: .*$/, ''),
      ...(durationMs === undefined ? {} : { durationMs }),
      helped,
    })
    fault = helped ? undefined : line
  }
  return out
}
