import { hostname } from 'node:os'
import { loadConfig } from '../base/config.ts'
import { ConfigError, UsageError } from '../base/errors.ts'
import type { Paths } from '../base/paths.ts'
import { findNode, isLocal, type ParsedRegistry, readRegistry } from '../registry/read.ts'
import { queueDirIfAny } from './dir.ts'

/**
 * Refuses a name that no browser of this host has: a client with a typo would wait in a queue of its own, and
 * believe that it has the browser to itself. A retired node has no browser either; its queue can still be looked
 * at, for clients that are not through.
 *
 * A queue that is there was made from a row. It stays usable while the registry or the row cannot be read: a typo
 * in one row must not stop the clients of a browser that runs.
 *
 * @throws UsageError (64) with the known nodes; ConfigError (78) when nothing can be said of the node
 */
export function knownNode(p: Paths, name: string, kind: 'run' | 'depth'): void {
  const there = () => {
    const dir = queueDirIfAny(p, name)
    dir?.close()
    return dir !== undefined
  }
  let registry: ParsedRegistry
  try {
    registry = readRegistry(p, loadConfig(p))
    if (registry.errors.some((e) => e.name === name)) findNode(registry, name)
  } catch (err) {
    if (err instanceof ConfigError && there()) return
    throw err
  }
  // A refused row that does not even show its name may be this one's.
  const nameless = registry.errors.some((e) => e.name === undefined)
  if (nameless && !registry.nodes.some((n) => n.name === name) && there()) return
  const row = findNode(registry, name)
  if (kind === 'depth') return
  if (row.status === 'retired') {
    throw new UsageError(
      `node ${name} is retired (${registry.path} line ${row.line}): it has no browser`,
      `netvm-node-up ${name}`,
    )
  }
  if (!isLocal(row, hostname())) {
    throw new UsageError(
      `node ${name} belongs to host ${row.host} (${registry.path} line ${row.line})`,
      `ssh ${row.host} cdp-queue depth ${name}`,
    )
  }
}
