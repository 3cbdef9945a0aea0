import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { NetvmError } from '../base/errors.ts'
import type { Paths } from '../base/paths.ts'
import { ExecError, run } from '../host/exec.ts'
import { type Interface, IP_DEADLINE_MS, ipIn, lookNetns, parseInterfaces } from '../host/netns.ts'
import type { NetworkLook, NetworkWant } from './plan.ts'

/** Whether `/run/netns/<name>` is a namespace, something else, or nothing. @throws NetvmError when it is not seen */
export function netnsFile(p: Paths, netns: string): NetworkLook['file'] {
  const look = lookNetns(p, netns)
  if (!look.seen) throw new NetvmError(look.why, { next: `ls -ld ${p.netnsDir}/${netns}` })
  if (look.value.isNamespace) return 'namespace'
  return look.value.exists ? 'not-a-namespace' : 'absent'
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
    hostThere ? links(ipIn(undefined, ['-j', 'addr', 'show', 'dev', want.veth])) : [],
    file === 'namespace' ? links(ipIn(want.netns, ['-j', 'addr', 'show'])) : undefined,
  ])
  const hostLink = host.find((l) => l.name === want.veth)
  return {
    file,
    ...(hostLink && { host: hostLink }),
    ...(inside && { inside: await insideLook(p, want, inside) }),
  }
}

async function insideLook(
  p: Paths,
  want: NetworkWant,
  inside: readonly Interface[],
): Promise<NonNullable<NetworkLook['inside']>> {
  const list = ['nft', 'list', 'chain', 'inet', 'netvm', 'output']
  const rules = await run(enter(p, want.netns, list), { deadlineMs: IP_DEADLINE_MS })
  const peer = inside.find((l) => l.name === want.vpeer)
  return {
    loUp: inside.some((l) => l.name === 'lo' && l.up),
    firewall: rules.code === 0 && rules.stdout.includes(`"${want.vpeer}" drop`),
    ...(peer && { peer }),
  }
}

async function links(argv: readonly string[]): Promise<Interface[]> {
  const result = await run(argv, { deadlineMs: IP_DEADLINE_MS })
  // The link can vanish between the look at /sys and this one: that is "not there".
  if (result.code !== 0 && /does not exist|Cannot find device/.test(result.stderr)) return []
  const parsed = result.code === 0 ? parseInterfaces(result.stdout) : undefined
  if (!parsed) throw new ExecError(result, { deadlineMs: IP_DEADLINE_MS })
  return parsed
}
