import { loadConfig } from '../base/config.ts'
import { UsageError } from '../base/errors.ts'
import type { ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { isTty, requireRoot } from '../cli/cli.ts'
import { program } from '../cli/program.ts'
import { assertNodeName } from '../registry/names.ts'
import { ensure, noteLine } from './ensure.ts'

/** `ensure-node-supervision <node> | --all | --check`. Prints what it changed, and on stderr what is left. */
export async function ensureCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const name = 'ensure-node-supervision'
  const command = await program(name, 'Makes supervision as the registry says; prints only what it changed.')
  command
    .argument('[node]', 'one node')
    .option(
      '--all',
      'every active node of this host, the fleet-wide timers, and what is left of retired ones',
    )
    .option('--check', 'change nothing: report drift, and prove from the journal that supervision works')
    .option('--add', 'append a row for <node> when there is none')
  command.parse(argv, { from: 'user' })
  const [node] = command.args
  const { all, check, add } = command.opts<{ all?: true; check?: true; add?: true }>()
  if (node !== undefined) assertNodeName(node)
  if (Number(node !== undefined) + Number(all === true) !== 1 && check !== true) {
    throw new UsageError('give a node, --all or --check', `${name} --help`)
  }
  if (node !== undefined && all) throw new UsageError('give a node or --all, not both', `${name} --help`)
  if (add && (node === undefined || check)) throw new UsageError('--add needs a node', `${name} --help`)
  const ctx = { p, config: loadConfig(p) }
  if (check) {
    const { checkCommand } = await import('./check.ts')
    return checkCommand(ctx, node)
  }
  requireRoot(name)
  const by = `${name} ${node ?? '--all'}`
  const target = node === undefined ? { by } : { node, row: { add: add === true }, by }
  const result = await ensure(ctx, target, (message) => isTty() && console.error(message))
  for (const note of result.did) console.log(clean(noteLine(note), 400))
  for (const note of result.left) console.error(clean(noteLine(note), 400))
  return result.exitCode
}
