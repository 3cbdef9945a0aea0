import { hostname } from 'node:os'
import { loadConfig } from '../base/config.ts'
import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { MarkState } from '../base/types.ts'
import { type Style, style } from '../cli/cli.ts'
import { MARKS, paintState } from '../cli/marks.ts'
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

/** The fleet for people: a line of marks per node, then what is wrong with it, then what does not belong. */
export function printTopology(t: Topology, style: Style): string[] {
  const width = Math.max(4, ...t.nodes.map((n) => n.node.length))
  const lines = [`${t.host}: ${t.nodes.length} active node${t.nodes.length === 1 ? '' : 's'}`]
  const paint = (state: MarkState, text: string) => paintState(style, state, text)
  for (const node of t.nodes) {
    const parts = node.parts.map((m) => paint(m.state, `${m.part} ${MARKS[m.state]}`)).join('  ')
    const relay = node.parts.find((m) => m.part === 'relay' && m.state === 'ok')?.note ?? ''
    lines.push(`${style.bold(node.node.padEnd(width))}  ${parts}  ${style.dim(relay)}`.trimEnd())
    for (const m of node.parts) {
      if ((m.state === 'fail' || m.state === 'unknown') && m.note !== '')
        lines.push(`${' '.repeat(width)}  ${m.part}: ${m.note}`)
    }
  }
  if (t.strays.length > 0) lines.push('does not belong:')
  for (const s of t.strays) lines.push(`  ${style.red(s.what)}: ${s.why}; remove: ${s.remove}`)
  if (t.notes.length > 0) lines.push('left alone:')
  for (const s of t.notes) lines.push(`  ${s.what}: ${s.why}`)
  if (t.blind.length > 0) lines.push('could not look:')
  for (const b of t.blind) lines.push(`  ${style.yellow(b)}`)
  return lines
}
