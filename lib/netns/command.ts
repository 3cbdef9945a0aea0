import { ConfigError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { nodeEnvPath, type Paths } from '../base/paths.ts'
import { requireRoot } from '../cli/cli.ts'
import { verbAndNode } from '../cli/verb.ts'
import { deriveNames } from '../registry/names.ts'
import { readNodeEnv } from '../registry/node-env.ts'
import { withLock } from '../store/lock.ts'
import type { NetworkWant } from './plan.ts'
import { inhabitants, networkDown, networkUp } from './setup.ts'

/** Two runs on one node wait for each other this long, in milliseconds: a run takes a fraction of a second. */
const LOCK_WAIT_MS = 10_000

/**
 * The names and addresses of a node from its settings file (/etc/netvm/nodes/<node>.env), which the
 * units read too: no registry, no hash. Undefined when there is no such file.
 */
export function networkOf(p: Paths, node: string): NetworkWant | undefined {
  const env = readNodeEnv(p, node)
  if (!env) return undefined
  return { node, netns: env.NETNS, veth: env.VETH, vpeer: env.VPEER, gw: env.GW, peer: env.PEER_IP }
}

/** `netvm-netns up|down <node>`: what netvm-netns@.service runs. Prints one line per thing it did. */
export async function netnsCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const about = 'The network namespace of a node, made or removed.'
  const { verb, node } = await verbAndNode('netvm-netns', about, argv)
  requireRoot('netvm-netns')
  // Not the node lock: whoever starts our unit may hold that one.
  const opts = { waitMs: LOCK_WAIT_MS }
  const work = () => (verb === 'up' ? up(p, node) : down(p, node))
  for (const line of await withLock(p, `netns-${node}`, `netvm-netns ${verb}`, opts, work)) console.log(line)
  return EXIT.OK
}

function up(p: Paths, node: string): Promise<string[]> {
  const want = networkOf(p, node)
  if (want) return networkUp(p, want)
  throw new ConfigError(`no settings for node ${node} at ${nodeEnvPath(p, node)}`, `netvm-node-up ${node}`)
}

async function down(p: Paths, node: string): Promise<string[]> {
  const want = networkOf(p, node) ?? { ...deriveNames(node), node }
  const left = await inhabitants(p, want)
  const lines = await networkDown(p, want)
  // The namespace has lost its name; these keep it alive without one.
  return [...lines, ...left.map(({ pid, comm }) => `still running in ${want.netns}: pid ${pid} (${comm})`)]
}
