import { existsSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import type { Paths } from '../base/paths.ts'
import { ExecError, run } from '../host/exec.ts'
import { type NetworkLook, type NetworkWant, parseIpAddr } from './plan.ts'

/** NSFS_MAGIC of linux/magic.h: what statfs says of a pinned namespace. */
const NSFS_MAGIC = 0x6e736673

/** Deadline of one `ip` or `nft` call in milliseconds: they take 3 ms; a hung kernel lock is what this is for. */
export const IP_DEADLINE_MS = 5000

/** Whether `/run/netns/<name>` is a namespace, something else, or nothing. */
export function netnsFile(p: Paths, netns: string): NetworkLook['file'] {
  try {
    return statfsSync(join(p.netnsDir, netns)).type === NSFS_MAGIC ? 'namespace' : 'not-a-namespace'
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'absent'
    throw error
  }
}

/** argv that runs a program in the node's network namespace, with the host's mounts. */
export function enter(p: Paths, netns: string, argv: readonly string[]): string[] {
  return ['nsenter', `--net=${join(p.netnsDir, netns)}`, '--', ...argv]
}

/**
 * How the node's network looks, asking the kernel and not the unit: a namespace can be deleted under a
 * unit that stays active. On a machine where nothing is there yet it starts no process at all.
 */
export async function lookNetwork(p: Paths, want: NetworkWant): Promise<NetworkLook> {
  const file = netnsFile(p, want.netns)
  const hostThere = existsSync(`/sys/class/net/${want.veth}`)
  const [host, inside] = await Promise.all([
    hostThere ? links(['ip', '-j', 'addr', 'show', 'dev', want.veth]) : undefined,
    file === 'namespace' ? links(['ip', '-n', want.netns, '-j', 'addr', 'show']) : undefined,
  ])
  const hostLink = host?.get(want.veth)
  return {
    file,
    ...(hostLink && { host: hostLink }),
    ...(inside && { inside: await insideLook(p, want, inside) }),
  }
}

async function insideLook(
  p: Paths,
  want: NetworkWant,
  inside: NonNullable<ReturnType<typeof parseIpAddr>>,
): Promise<NonNullable<NetworkLook['inside']>> {
  const list = ['nft', 'list', 'chain', 'inet', 'netvm', 'output']
  const rules = await run(enter(p, want.netns, list), { deadlineMs: IP_DEADLINE_MS })
  const peer = inside.get(want.vpeer)
  return {
    loUp: inside.get('lo')?.up === true,
    firewall: rules.code === 0 && rules.stdout.includes(`"${want.vpeer}" drop`),
    ...(peer && { peer }),
  }
}

async function links(argv: readonly string[]): Promise<NonNullable<ReturnType<typeof parseIpAddr>>> {
  const result = await run(argv, { deadlineMs: IP_DEADLINE_MS })
  // The link can vanish between the look at /sys and this one: that is "not there".
  if (result.code !== 0 && /does not exist|Cannot find device/.test(result.stderr)) return new Map()
  const parsed = result.code === 0 ? parseIpAddr(result.stdout) : undefined
  if (!parsed) throw new ExecError(result, IP_DEADLINE_MS)
  return parsed
}
