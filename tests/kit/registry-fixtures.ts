import fc from 'fast-check'
import type { Node } from '../../lib/base/types.ts'
import { deriveNames } from '../../lib/registry/names.ts'

export const COLUMNS = [
  'Node',
  'Agent',
  'Netns',
  'CDP Port',
  'Veth IP (host)',
  'Peer IP (netns)',
  'Relay Target',
  'Status',
] as const
export const OPTIONAL = ['Chat URL', 'Chat Title', 'API Check', 'Host'] as const

/** The cells of a good row, in the order of COLUMNS, then of OPTIONAL; `over` replaces some. */
export function cells(name: string, over: Record<string, string> = {}): string[] {
  const n = deriveNames(name)
  const good: Record<string, string> = {
    Node: name,
    Agent: `${name}-agent`,
    Netns: `warp-${name}`,
    'CDP Port': String(n.port),
    'Veth IP (host)': n.gw,
    'Peer IP (netns)': n.peer,
    'Relay Target': `127.0.0.1:${n.port}`,
    Status: 'active',
    'Chat URL': '',
    'Chat Title': '',
    'API Check': '',
    Host: '',
    ...over,
  }
  return [...COLUMNS, ...OPTIONAL].map((c) => good[c] ?? '')
}

export function line(cs: readonly string[]): string {
  return `| ${cs.join(' | ')} |`
}

/** A registry with these rows (each a line of text); the header is on line 3, the first row on line 5. */
export function registry(rows: readonly string[], eol = '\n'): string {
  const columns = [...COLUMNS, ...OPTIONAL]
  return [
    '# Nodes',
    '',
    line(columns),
    line(columns.map(() => '---')),
    ...rows,
    '',
    'Prose | with a pipe.',
    '',
  ].join(eol)
}

export const nodeName = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,31}$/).filter((n) => n !== 'fleet')

/** Sets of names whose derived ports and addresses do not collide. */
export const fleet = fc.uniqueArray(nodeName, { maxLength: 6 }).filter((names) => {
  const all = names.map((n) => deriveNames(n))
  return (
    new Set(all.map((n) => n.port)).size === names.length &&
    new Set(all.map((n) => n.octet)).size === names.length
  )
})

/** A fleet that has one. */
export const someFleet = fleet.filter((names) => names.length > 0)

/** Text of a cell that people might write, as they mean it. */
export const cellValue = fc
  .array(
    fc.oneof(
      fc.constantFrom('|', '\\', '`', ' ', '\\|', '``', '*', '<', '&amp;'),
      fc.string({ unit: 'grapheme-ascii', maxLength: 4 }),
      fc.constantFrom('ü', '日', '🙂', 'à'),
    ),
  )
  .map((a) => a.join('').trim())

/** Rows without their line, to compare what two texts say. */
export function said(nodes: readonly Node[]): Omit<Node, 'line'>[] {
  return nodes.map(({ line: _, ...rest }) => rest)
}
