import { readFileSync } from 'node:fs'
import type { Config } from './config.ts'
import { ConfigError, UsageError } from './errors.ts'
import type { Paths } from './paths.ts'
import { type ParsedRegistry, parseRegistry, RegistryError } from './registry-parse.ts'
import { clean } from './text.ts'
import type { Node } from './types.ts'

export { appendRow, type NewRow, setCell } from './registry-edit.ts'
export { type ParsedRegistry, parseRegistry, RegistryError, type RowError } from './registry-parse.ts'

/** A registry of this size would be a mistake (a log, a device), not a table of nodes. */
const MAX_BYTES = 4 * 1024 * 1024

/**
 * Reads the registry anew: it is the only inventory, and people edit it while we run.
 * @throws RegistryError when it cannot be read or has no table
 */
export function readRegistry(_p: Paths, config: Pick<Config, 'registry'>): ParsedRegistry {
  let text: string
  try {
    text = readFileSync(config.registry, 'utf8')
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code
    const what =
      code === 'ENOENT' ? `no registry at ${config.registry}` : `cannot read ${config.registry}: ${code}`
    throw new RegistryError(what, `ls -l ${config.registry}`, err)
  }
  if (text.length > MAX_BYTES) throw new RegistryError(`${config.registry} is larger than 4 MiB`)
  try {
    return { ...parseRegistry(text), path: config.registry }
  } catch (err) {
    if (!(err instanceof RegistryError)) throw err
    throw new RegistryError(`${config.registry}: ${err.message}`, `editor ${config.registry}`, err)
  }
}

/** True when this host runs the row: `Host` is empty, this host's name, or its first label. No case. */
export function isLocal(node: Pick<Node, 'host'>, hostname: string): boolean {
  const host = node.host.toLowerCase()
  const own = hostname.toLowerCase()
  return host === '' || host === own || host === own.split('.')[0]
}

/** The rows this host supervises, in the order of the file. */
export function activeLocalNodes(parsed: ParsedRegistry, hostname: string): Node[] {
  return parsed.nodes.filter((n) => n.status === 'active' && isLocal(n, hostname))
}

/** @throws UsageError for a name without an accepted row; it says why when the row was refused */
export function findNode(parsed: ParsedRegistry, name: string): Node {
  const node = parsed.nodes.find((n) => n.name === name)
  if (node !== undefined) return node
  const where = parsed.path ?? 'the registry'
  const next = parsed.path === undefined ? undefined : `editor ${parsed.path}`
  const refused = parsed.errors.find((e) => e.name === name)
  if (refused !== undefined) {
    const at = `${where} line ${refused.line}`
    throw new ConfigError(`the row of node ${name} was refused: ${at}: ${refused.reason}`, next)
  }
  const known = clean(parsed.nodes.map((n) => n.name).join(', '), 200)
  throw new UsageError(
    `no node "${clean(name, 60)}" in ${where}${known === '' ? '' : ` (it has ${known})`}`,
    next,
  )
}
