import { wallIso } from '../base/clock.ts'
import { loadConfig } from '../base/config.ts'
import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean, seconds } from '../base/text.ts'
import { SUPERVISORS } from '../base/types.ts'
import { Trust } from '../evidence/owner.ts'
import { findNode, readRegistry } from '../registry/read.ts'
import { findRepairs, type Repair } from './repairs.ts'

/** Of each log and its one rotated backup; logrotate cuts at 10 MB. */
const BYTES = 11 * 1024 * 1024
const DEFAULT_SHOWN = 20

/**
 * `box node history`: what was done to a node and whether it helped. From the logs, which keep every
 * repair; a receipt keeps only those of the last run. @returns 2 when no log could be read. @throws UsageError
 */
export function nodeHistory(p: Paths, name: string, options: { json?: boolean; lines?: string }): ExitCode {
  const count = linesOf(options.lines)
  const node = findNode(readRegistry(p, loadConfig(p)), name)
  const trust = new Trust(p)
  const problems: string[] = []
  const repairs: Repair[] = []
  for (const s of SUPERVISORS)
    for (const file of [`${s}.log.1`, `${s}.log`]) {
      const tail = trust.tail(`${p.log}/${file}`, BYTES)
      if (!tail.seen) problems.push(`${file}: ${tail.why}`)
      else if (tail.value !== undefined)
        repairs.push(...findRepairs(tail.value.text, tail.value.whole, s, node.name))
    }
  repairs.sort((a, b) => a.wallMs - b.wallMs)
  const shown = repairs.slice(-count)
  if (options.json) console.log(JSON.stringify(shown))
  else for (const r of shown) console.log(repairText(r))
  if (!options.json && shown.length === 0 && problems.length === 0)
    console.log(`no repair of ${node.name} in the logs`)
  for (const problem of problems) console.error(`box: not read: ${clean(problem)}`)
  return problems.length > 0 ? EXIT.UNKNOWN : EXIT.OK
}

/** @throws UsageError */
function linesOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_SHOWN
  const count = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (count > 0) return count
  throw new UsageError(`--lines must be 1 to 999999, not "${clean(text, 40)}"`, 'box node history --help')
}

function repairText(r: Repair): string {
  const took = r.durationMs === undefined ? '' : ` in ${seconds(r.durationMs)}`
  const before = r.before === '' ? 'before: not in the log' : `before: ${clean(r.before, 120)}`
  const after = r.helped ? 'after: healthy' : `after: ${clean(r.after, 120)}`
  return `${wallIso(r.wallMs)}  ${r.what}${took}, ${r.helped ? 'helped' : 'DID NOT HELP'}; ${before}; ${after}`
}
