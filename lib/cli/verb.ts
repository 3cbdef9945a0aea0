import { assertNodeName } from '../registry/names.ts'
import type { Described } from './help.ts'
import { program } from './program.ts'

/**
 * The arguments of the programs that units call: `up NODE` or `down NODE`. Plain words, as a unit gives them, do
 * without commander: they stand in the way of a repair.
 * @param argv arguments only
 * @throws UsageError
 */
export async function verbAndNode(
  name: Described,
  description: string,
  argv: readonly string[],
): Promise<{ verb: 'up' | 'down'; node: string }> {
  const [verb, node, ...more] = argv
  if ((verb === 'up' || verb === 'down') && node !== undefined && !node.startsWith('-') && more.length === 0)
    return { verb, node: assertNodeName(node) }
  const command = await program(name, description)
  const { Argument } = await import('commander')
  command
    .addArgument(new Argument('<up or down>').choices(['up', 'down']))
    .argument('<node>', 'name of the node')
  command.parse(argv, { from: 'user' })
  return { verb: command.args[0] === 'up' ? 'up' : 'down', node: assertNodeName(command.args[1] ?? '') }
}
