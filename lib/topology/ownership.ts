import type { Node } from '../base/types.ts'
import type { ParsedRegistry } from '../registry/read.ts'
import type { Ownership } from './types.ts'

/** Stands for the host's own namespace, which has no name under /run/netns; no name there can be empty. */
export const HOST = ''

/**
 * Whose a node name is. Only what belongs to `none` or `retired` is proposed for removal: a row that was refused for one
 * bad cell, or that another host runs, still has an owner.
 */
export function ownershipOf(
  registry: Pick<ParsedRegistry, 'nodes' | 'errors'>,
  isLocal: (node: Node) => boolean,
  name: string,
): Ownership {
  const row = registry.nodes.find((n) => n.name === name)
  const refused = registry.errors.find((e) => e.name === name)
  if (row !== undefined && isLocal(row))
    return row.status === 'active' ? { is: 'active', row } : { is: 'retired' }
  if (row !== undefined) return { is: 'elsewhere', why: `its row belongs to host ${row.host}` }
  if (refused !== undefined)
    return { is: 'refused', why: `its row on line ${refused.line} was refused: ${refused.reason}` }
  const nameless = registry.errors.find((e) => e.name === undefined)
  if (nameless !== undefined) {
    return {
      is: 'unknown-row',
      why: `it may belong to the row on line ${nameless.line}, refused: ${nameless.reason}`,
    }
  }
  return { is: 'none' }
}
