import { UsageError } from '../base/errors.ts'
import { clean } from '../base/text.ts'
import { assertNodeName } from '../registry/names.ts'

export interface VerbAndNode {
  readonly verb: 'up' | 'down'
  readonly node: string
}

/**
 * The arguments of the programs that units call: `up NODE` or `down NODE`.
 * @param argv arguments only
 * @throws UsageError naming the word that does not fit
 */
export function verbAndNode(program: string, argv: readonly string[]): VerbAndNode {
  const [verb, node, ...more] = argv
  const next = `${program} --help`
  if (verb !== 'up' && verb !== 'down') {
    throw new UsageError(verb === undefined ? 'up or down?' : `unknown command "${clean(verb, 60)}"`, next)
  }
  if (node === undefined) throw new UsageError(`${verb} which node?`, next)
  if (more.length > 0) throw new UsageError(`too many arguments: "${clean(more[0] ?? '', 60)}"`, next)
  return { verb, node: assertNodeName(node) }
}
