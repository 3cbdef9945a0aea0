import { readFileSync } from 'node:fs'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { requireRoot } from '../cli/cli.ts'
import { verbAndNode } from '../cli/verb.ts'
import { ifNames } from '../registry/names.ts'
import { readNodeEnv } from '../registry/node-env.ts'
import type { Engine } from './device.ts'
import { type TunnelNames, tunnelDown, tunnelNames, tunnelUp } from './setup.ts'

/** Given by the unit's tunnel-start alone: see `madeBeside`. */
const BESIDE = '--device-from-stdin'

/** `netvm-tunnel up|down <node>`: what netvm-tunnel@.service runs. Prints what it ignored. */
export async function tunnelCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const beside = argv[0] === 'up' && argv[2] === BESIDE
  const words = beside ? argv.filter((arg) => arg !== BESIDE) : argv
  const { verb, node } = await verbAndNode('netvm-tunnel', 'The tunnel of a node, made or removed.', words)
  requireRoot('netvm-tunnel')
  if (verb === 'up') {
    const { ignored } = await tunnelUp(p, tunnelNames(p, node), beside ? madeBeside : undefined)
    for (const line of ignored) console.log(`netvm-tunnel: ${line}`)
  } else await tunnelDown(p, namesForDown(p, node))
  return EXIT.OK
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
