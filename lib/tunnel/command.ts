import { RootError, UsageError } from '../errors.ts'
import { examples } from '../examples.ts'
import { assertNodeName, ifNames } from '../names.ts'
import { readNodeEnv } from '../node-env.ts'
import type { Paths } from '../paths.ts'
import { type TunnelNames, tunnelDown, tunnelNames, tunnelUp } from './setup.ts'

const USAGE = 'netvm-tunnel up <node> | netvm-tunnel down <node>'

/** `netvm-tunnel up|down <node>`: what netvm-tunnel@.service runs. Returns the lines to print. */
export async function tunnelCommand(p: Paths, argv: readonly string[]): Promise<string[]> {
  const [verb, name, ...more] = argv
  if (verb === '--help' || verb === '-h') return [`usage: ${USAGE}`, examples('netvm-tunnel')]
  if ((verb !== 'up' && verb !== 'down') || name === undefined || more.length > 0) {
    throw new UsageError('which tunnel, up or down?', USAGE)
  }
  const node = assertNodeName(name)
  if (process.geteuid?.() !== 0) throw new RootError('a tunnel can only be changed by root')
  if (verb === 'up') {
    const { ignored } = await tunnelUp(p, tunnelNames(p, node))
    return ignored.map((line) => `netvm-tunnel: ${line}`)
  }
  await tunnelDown(p, namesForDown(p, node))
  return []
}

/** Taking down must also work for a node whose settings are gone: then its derived names are all there is. */
function namesForDown(p: Paths, node: string): TunnelNames {
  const env = readNodeEnv(p, node)
  return { node, netns: env?.NETNS ?? `warp-${node}`, wg: env?.WG ?? ifNames(node).wg }
}
