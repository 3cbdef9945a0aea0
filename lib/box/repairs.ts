import { present } from '../base/present.ts'
import type { Supervisor } from '../base/types.ts'
import { parseLog } from '../evidence/logs.ts'
import type { LogLine } from '../evidence/types.ts'
import { entryOf, type Repaired } from '../report/codes.ts'
import { oldResult } from '../report/old-lines.ts'

/** One repair of a node, as its lines in a supervisor's log report it; the last of them says how it ended. */
export interface Repair extends Pick<LogLine, 'supervisor' | 'wallMs' | 'code' | 'cause'> {
  readonly what: Repaired
  /** The fault it was for; empty when the log does not reach back. */
  readonly before: string
  /** What a look afterwards found. */
  readonly after: string
  /** From the line of the fault to that of the result, in milliseconds; absent when the fault is not in the log. */
  readonly durationMs?: number
  readonly helped: boolean
}

/** A line this long before a result belongs to another run. */
const SAME_RUN_MS = 180_000

/** What a line says was done, if anything. */
function resultOf(line: LogLine): { readonly action: Repaired; readonly helped: boolean } | undefined {
  if (line.code === undefined) return oldResult(line.text)
  const { action, helped } = entryOf(line.code) ?? {}
  return action === undefined || helped === undefined ? undefined : { action, helped }
}

/** The repairs of one node in one supervisor's log, oldest first. Pure. */
export function findRepairs(text: string, whole: boolean, supervisor: Supervisor, node: string): Repair[] {
  const out: Repair[] = []
  let fault: LogLine | undefined
  for (const line of parseLog(text, whole, supervisor)) {
    if (line.node !== node || line.level === 'PAGE') continue
    const result = resultOf(line)
    if (result === undefined) {
      // Of a release without codes anything but a remark may be the fault.
      if (line.code === undefined ? line.level !== 'INFO' : entryOf(line.code)?.kind === 'fault') fault = line
      continue
    }
    const near = fault !== undefined && line.wallMs - fault.wallMs <= SAME_RUN_MS ? fault : undefined
    const { wallMs, code, cause, text: said } = line
    const { action: what, helped } = result
    const [before, after] = [near?.text ?? '', helped ? 'healthy' : said]
    const durationMs = near && wallMs - near.wallMs
    out.push(present({ supervisor, wallMs, what, code, cause, before, after, durationMs, helped }))
    fault = result.helped ? undefined : line
  }
  return out
}
