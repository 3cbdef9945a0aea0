import { readFileSync } from 'node:fs'
import type { Paths } from '../base/paths.ts'
import { requireRoot } from '../cli/cli.ts'
import { examples } from '../cli/examples.ts'
import { verbAndNode } from '../cli/verb.ts'
import { ifNames } from '../registry/names.ts'
import { readNodeEnv } from '../registry/node-env.ts'
import type { Engine } from './device.ts'
import { type TunnelNames, tunnelDown, tunnelNames, tunnelUp } from './setup.ts'

const USAGE = 'netvm-tunnel up <node> | netvm-tunnel down <node>'

/** Given by the unit's tunnel-start alone: see `madeBeside`. */
const BESIDE = '--device-from-stdin'

/** `netvm-tunnel up|down <node>`: what netvm-tunnel@.service runs. Returns the lines to print. */
export async function tunnelCommand(p: Paths, argv: readonly string[]): Promise<string[]> {
  if (argv[0] === '--help' || argv[0] === '-h') return [`usage: ${USAGE}`, examples('netvm-tunnel')]
  const beside = argv[0] === 'up' && argv[2] === BESIDE
  const { verb, node } = verbAndNode('netvm-tunnel', beside ? argv.filter((arg) => arg !== BESIDE) : argv)
  requireRoot('netvm-tunnel')
  if (verb === 'up') {
    const { ignored } = await tunnelUp(p, tunnelNames(p, node), beside ? madeBeside : undefined)
    return ignored.map((line) => `netvm-tunnel: ${line}`)
  }
  await tunnelDown(p, namesForDown(p, node))
  return []
}

/**
 * The engine of the interface that tunnel-start made while this program was started; undefined when it made none. Its
 * end of the pipe closes with it, at the latest after a second or two. Blocks: nothing can be done meanwhile.
 */
function madeBeside(): Engine | undefined {
  const said = readFileSync(0, 'latin1').trim()
  return said === 'kernel' || said === 'wireguard-go' ? said : undefined
}

/** Taking down must also work for a node whose settings are gone: then its derived names are all there is. */
function namesForDown(p: Paths, node: string): TunnelNames {
  const env = readNodeEnv(p, node)
  return { node, netns: env?.NETNS ?? `warp-${node}`, wg: env?.WG ?? ifNames(node).wg }
}
