import type { Paths } from '../base/paths.ts'
import { type Look, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { meaning, readMessage } from './message.ts'
import type { Trust } from './owner.ts'
import type { LogFacts, LogLine } from './types.ts'

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

/** The newest telling line per node and supervisor, from the ends of the logs. */
export function lookAtLogs(p: Paths, trust: Trust): (node: string) => Look<LogFacts> {
  const last = new Map<string, LogLine[]>()
  const problems: string[] = []
  let there = 0
  for (const s of SUPERVISORS) {
    const tail = trust.tail(`${p.log}/${s}.log`, TAIL_BYTES)
    if (!tail.seen) problems.push(`${s}.log: ${tail.why}`)
    else if (tail.value !== undefined) {
      there++
      const newest = new Map<string, LogLine>()
      // The rest is remarks.
      for (const line of parseLog(tail.value.text, tail.value.whole, s))
        if (meaning(line, line.level) !== undefined) newest.set(line.node, line)
      for (const [node, line] of newest) last.set(node, [...(last.get(node) ?? []), line])
    }
  }
  if (there === 0 && problems.length > 0) return () => ({ seen: false, why: problems.join('; ') })
  return (node) => ({ seen: true, value: { last: last.get(node) ?? [] } })
}
