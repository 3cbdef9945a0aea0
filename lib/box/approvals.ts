import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { style } from '../cli/cli.ts'
import { collect } from '../evidence/collect.ts'
import { readable } from '../evidence/decide.ts'
import { select } from '../evidence/select.ts'
import { exitBeside, refusedLine } from '../report/refused.ts'
import { READABLE } from './words.ts'

/**
 * `box approvals check`: whether anything that is read over CDP can be believed from this shell. An
 * unreachable browser has no empty queue. @returns 0 all OK, 1 something down, 2 something not verified
 */
export async function approvalsCheck(p: Paths, names: readonly string[], json: boolean): Promise<ExitCode> {
  const { config, nodes, refused, registry } = select(p, names)
  const { judged } = await collect(p, config, nodes)
  const found = judged.map(({ node, facts, verdict }) => ({ node: node.name, ...readable(facts, verdict) }))
  if (json) console.log(JSON.stringify(found))
  else {
    const paint = await style()
    const width = Math.max(4, ...found.map((f) => f.node.length))
    for (const { node, word, why } of found) {
      const color = word === 'OK' ? paint.green : word === 'DOWN' ? paint.red : paint.yellow
      const more = why === '' ? '' : ` (${clean(why)})`
      console.log(`${node.padEnd(width)}  ${color(word.padEnd(7))}  ${READABLE[word]}${more}`)
    }
  }
  // On stderr beside JSON, whose shape programs know.
  for (const e of refused) (json ? console.error : console.log)(refusedLine(registry, e))
  if (found.some((f) => f.word === 'DOWN')) return EXIT.UNHEALTHY
  return exitBeside(found.every((f) => f.word === 'OK') ? EXIT.OK : EXIT.UNKNOWN, refused)
}
