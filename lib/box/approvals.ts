import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { style } from '../cli/cli.ts'
import { collect } from '../evidence/collect.ts'
import { readable } from '../evidence/decide.ts'
import { select } from '../evidence/select.ts'
import { exitBeside, refusedLine } from '../report/refused.ts'

/** What each word means for somebody who is about to read a queue of approvals over CDP. */
const MEANS = {
  OK: 'readable over CDP',
  BLIND: 'queues unverified, not clear: the host says CDP is fine, this shell cannot reach it',
  DOWN: 'nothing can be read',
  UNKNOWN: 'queues unverified: neither this shell nor the host can tell',
} as const

/**
 * `box approvals check`: whether anything that is read over CDP can be believed from this shell. An
 * unreachable browser has no empty queue. @returns 0 all OK, 1 something down, 2 something not verified
 */
export async function approvalsCheck(p: Paths, names: readonly string[], json: boolean): Promise<ExitCode> {
  const { config, nodes, refused, registry } = select(p, names)
  const { judged } = await collect(p, config, nodes)
  const found = judged.map(({ node, facts, verdict }) => ({ node: node.name, ...readable(facts, verdict) }))
  if (json) process.stdout.write(`${JSON.stringify(found)}\n`)
  else {
    const paint = await style()
    const width = Math.max(4, ...found.map((f) => f.node.length))
    for (const { node, word, why } of found) {
      const color = word === 'OK' ? paint.green : word === 'DOWN' ? paint.red : paint.yellow
      const more = why === '' ? '' : ` (${clean(why)})`
      process.stdout.write(`${node.padEnd(width)}  ${color(word.padEnd(7))}  ${MEANS[word]}${more}\n`)
    }
  }
  // On stderr beside JSON, whose shape programs know.
  for (const e of refused) (json ? process.stderr : process.stdout).write(`${refusedLine(registry, e)}\n`)
  if (found.some((f) => f.word === 'DOWN')) return EXIT.UNHEALTHY
  return exitBeside(found.every((f) => f.word === 'OK') ? EXIT.OK : EXIT.UNKNOWN, refused)
}
