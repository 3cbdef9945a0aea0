import { hostname } from 'node:os'
import { loadConfig } from '../base/config.ts'
import { ConfigError, UsageError } from '../base/errors.ts'
import type { Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { findNode, isLocal, readRegistry } from '../registry/read.ts'
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
  let row: Node
  let path = ''
  let nameless = false
  try {
    const registry = readRegistry(p, loadConfig(p))
    path = registry.path ?? ''
    // A refused row that does not even show its name may be this one's.
    nameless = registry.errors.some((e) => e.name === undefined)
    row = findNode(registry, name)
  } catch (err) {
    if (nameless || err instanceof ConfigError) {
      const dir = queueDirIfAny(p, name)
      dir?.close()
      if (dir !== undefined) return
    }
    throw err
  }
  if (kind === 'depth') return
  if (row.status === 'retired') {
    throw new UsageError(
      `node ${name} is retired (${path} line ${row.line}): it has no browser`,
      `netvm-node-up ${name}`,
    )
  }
  if (!isLocal(row, hostname())) {
    throw new UsageError(
      `node ${name} belongs to host ${row.host} (${path} line ${row.line})`,
      `ssh ${row.host} cdp-queue depth ${name}`,
    )
  }
}
