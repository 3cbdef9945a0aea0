import { hostname } from 'node:os'
import type { Config } from '../base/config.ts'
import { loadConfig } from '../base/config.ts'
import type { Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import {
  activeLocalNodes,
  findNode,
  type ParsedRegistry,
  type RowError,
  readRegistry,
} from '../registry/read.ts'

export interface Selection {
  readonly config: Config
  readonly nodes: readonly Node[]
  /** Rows that were refused; they are not supervised. Empty when nodes were named. */
  readonly refused: readonly RowError[]
  readonly registry: ParsedRegistry
}

/**
 * The nodes a command is about: those named, in that order, or every active row of this host.
 * @throws UsageError for a name that is in no row, ConfigError for a configuration or registry that cannot be read
 */
export function select(p: Paths, names: readonly string[]): Selection {
  const config = loadConfig(p)
  const registry = readRegistry(p, config)
  if (names.length === 0)
    return { config, registry, nodes: activeLocalNodes(registry, hostname()), refused: registry.errors }
  const nodes = [...new Set(names)].map((name) => findNode(registry, name))
  return { config, registry, nodes, refused: [] }
}
