import type { MarkState } from '../base/types.ts'
import type { Style } from '../cli/cli.ts'
import { MARKS, paintState } from '../cli/marks.ts'
import type { Topology } from './types.ts'

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
