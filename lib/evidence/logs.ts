import type { Paths } from '../base/paths.ts'
import { SUPERVISORS, type Supervisor } from '../base/types.ts'
import { meaning, readMessage } from './message.ts'
import type { Trust } from './owner.ts'
import type { LogLine, NodeFacts } from './types.ts'

/** Far more than three periods write, and read in one go. */
const TAIL_BYTES = 256 * 1024

const LINE =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) (INFO|WARN|FAIL|FAIL_LOUD|PAGE) \[([^\]]{1,40})\] (.*)$/

/**
 * Parses the end of a log. A line counts once its newline is there: the last one may be half written,
 * and in a tail the first one is cut.
 */
export function parseLog(
  text: string,
  whole: boolean,
  supervisor: Supervisor,
): (LogLine & { node: string })[] {
  const lines = text.split('\n')
  lines.pop()
  if (!whole) lines.shift()
  return lines.flatMap((raw) => {
    const m = LINE.exec(raw)
    const wallMs = Date.parse(m?.[1] ?? '')
    if (m === null || !Number.isFinite(wallMs)) return []
    return [{ supervisor, node: m[3] ?? '', wallMs, level: m[2] ?? '', ...readMessage(m[4] ?? '') }]
  })
}

/** Per node the newest line of each supervisor that says how it is, from the ends of the logs. */
export function lookAtLogs(p: Paths, trust: Trust): (node: string) => NodeFacts['logs'] {
  const newest: Map<string, LogLine>[] = []
  const problems: string[] = []
  for (const s of SUPERVISORS) {
    const tail = trust.tail(`${p.log}/${s}.log`, TAIL_BYTES)
    if (!tail.seen) problems.push(`${s}.log: ${tail.why}`)
    else if (tail.value !== undefined) {
      const lines = parseLog(tail.value.text, tail.value.whole, s)
      // The rest is remarks.
      const count = lines.filter((line) => meaning(line, line.level) !== undefined)
      newest.push(new Map(count.map((line) => [line.node, line])))
    }
  }
  if (newest.length === 0 && problems.length > 0) return () => ({ seen: false, why: problems.join('; ') })
  return (node) => ({ seen: true, value: newest.flatMap((of) => of.get(node) ?? []) })
}
