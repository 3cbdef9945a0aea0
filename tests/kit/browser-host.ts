import type { TestContext } from 'node:test'
import { loadConfig } from '../../lib/base/config.ts'
import { paths } from '../../lib/base/paths.ts'
import type { Node } from '../../lib/base/types.ts'
import type { BrowserContext } from '../../lib/browser/look.ts'
import { findNode, readRegistry } from '../../lib/registry/read.ts'
import { Host } from './chromebox-host.ts'

export interface World {
  readonly host: Host
  readonly ctx: BrowserContext
  readonly node: Node
}

/**
 * A host in a temporary folder for functions of ours that call programs: `ip`, `systemctl` and `journalctl`
 * are fixtures on this process's PATH, browsers and sockets are real.
 */
export async function world(t: TestContext, config: Record<string, string | number> = {}): Promise<World> {
  const host = await Host.make()
  const before = { ...process.env }
  host.config(config)
  Object.assign(process.env, host.env())
  t.after(() => {
    host.close()
    process.env = before
  })
  const p = paths()
  const loaded = loadConfig(p)
  return { host, ctx: { p, config: loaded }, node: findNode(readRegistry(p, loaded), 'muse') }
}
