import { hostname } from 'node:os'
import { loadConfig } from '../base/config.ts'
import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { style } from '../cli/cli.ts'
import { program } from '../cli/program.ts'
import { isLocal, readRegistry } from '../registry/read.ts'
import { exitBeside, refusedLine } from '../report/refused.ts'
import { judgeTopology } from './judge.ts'
import { observeTopology } from './observe.ts'
import type { Topology } from './types.ts'

const DESCRIPTION =
  'The fleet of this host as it is, by connectivity, and what does not belong, with the command that removes it.'

/** `netvm-topology [--json]`. Changes nothing. @throws ConfigError, UsageError */
export async function topologyCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const command = (await program('netvm-topology', DESCRIPTION))
    .option('--json', 'for programs')
    .allowExcessArguments()
    .parse(argv, { from: 'user' })
  const [odd] = command.args
  if (odd !== undefined)
    throw new UsageError(`netvm-topology does not take "${clean(odd, 60)}"`, 'netvm-topology --help')
  const config = loadConfig(p)
  const registry = readRegistry(p, config)
  const host = hostname()
  const topology = judgeTopology(await observeTopology(p, config, registry, host), (row) =>
    isLocal(row, host),
  )
  const exit = exitBeside(topologyExit(topology), registry.errors)
  if (command.opts<{ json?: true }>().json) {
    console.log(JSON.stringify({ version: 1, exit, ...topology, refused: registry.errors }, null, 2))
    return exit
  }
  const { printTopology } = await import('./print.ts')
  for (const line of printTopology(topology, await style())) console.log(line)
  for (const e of registry.errors) console.log(refusedLine(registry, e))
  return exit
}

/** What is known to be wrong weighs more than what could not be seen. */
export function topologyExit(t: Pick<Topology, 'nodes' | 'strays' | 'blind'>): ExitCode {
  const marks = t.nodes.flatMap((n) => n.parts)
  if (t.strays.length > 0 || marks.some((m) => m.state === 'fail')) return EXIT.UNHEALTHY
  return t.blind.length > 0 || marks.some((m) => m.state === 'unknown') ? EXIT.UNKNOWN : EXIT.OK
}
