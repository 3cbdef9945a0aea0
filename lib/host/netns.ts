import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { run } from './exec.ts'

export interface NetnsLook {
  readonly exists: boolean
  /** False for a plain file, which `ip netns add` leaves behind when its mount is gone. */
  readonly isNamespace: boolean
  /** The namespace's inode, the same number as in `/proc/<pid>/ns/net` of a process inside. */
  readonly inode?: number
}

export interface Interface {
  readonly name: string
  /** Administratively up (the flag UP). */
  readonly up: boolean
  /** Up and with a carrier: both ends of a veth pair are up (the flag LOWER_UP). */
  readonly running: boolean
  readonly inet: readonly { readonly address: string; readonly prefixLength: number }[]
}

/** NSFS_MAGIC of include/uapi/linux/magic.h: the file system every bound namespace lives on. */
const NSFS_MAGIC = 0x6e736673

/** Looks at a named network namespace without entering it. Not allowed to look is "not seen". */
export function lookNetns(p: Pick<Paths, 'netnsDir'>, netns: string): Look<NetnsLook> {
  const path = join(p.netnsDir, netns)
  try {
    const inode = statSync(path).ino
    if (statfsSync(path).type !== NSFS_MAGIC) {
      return { seen: true, value: { exists: true, isNamespace: false } }
    }
    return { seen: true, value: { exists: true, isNamespace: true, inode } }
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code ?? String(err)
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return { seen: true, value: { exists: false, isNamespace: false } }
    }
    return { seen: false, why: `cannot look at ${path}: ${code}` }
  }
}

/** The argument vector that runs `argv` inside a named namespace, with that namespace's resolv.conf. */
export function inNetns(netns: string, argv: readonly string[]): string[] {
  return ['ip', 'netns', 'exec', netns, ...argv]
}

/** Parses `ip -j addr`; undefined when it is not that program's JSON. */
export function parseInterfaces(json: string): Interface[] | undefined {
  let data: unknown
  try {
    data = json.trim() === '' ? [] : JSON.parse(json)
  } catch {
    return undefined
  }
  if (!Array.isArray(data)) return undefined
  const found: Interface[] = []
  for (const entry of data) {
    const { ifname, flags, addr_info: addresses } = (entry ?? {}) as Record<string, unknown>
    // Filtered entries stay in the array as empty objects.
    if (typeof ifname !== 'string') continue
    const has = (flag: string): boolean => Array.isArray(flags) && flags.includes(flag)
    const inet = (Array.isArray(addresses) ? addresses : []).flatMap((a: Record<string, unknown>) =>
      a?.family === 'inet' && typeof a.local === 'string' && typeof a.prefixlen === 'number'
        ? [{ address: a.local, prefixLength: a.prefixlen }]
        : [],
    )
    found.push({ name: ifname, up: has('UP'), running: has('LOWER_UP'), inet })
  }
  return found
}

/** Whether an interface exists, is up and has exactly this address and prefix length. */
export function vethHasAddress(
  interfaces: readonly Interface[],
  name: string,
  address: string,
  prefixLength = 30,
): { readonly exists: boolean; readonly up: boolean; readonly hasAddress: boolean } {
  const found = interfaces.find((i) => i.name === name)
  if (found === undefined) return { exists: false, up: false, hasAddress: false }
  const hasAddress = found.inet.some((a) => a.address === address && a.prefixLength === prefixLength)
  return { exists: true, up: found.up, hasAddress }
}

/** The interfaces of the host, or of a namespace, in one call of ip(8). */
export async function lookInterfaces(netns?: string, deadlineMs = 5000): Promise<Look<Interface[]>> {
  const argv = ['ip', '-j', 'addr', 'show']
  const result = await run(netns === undefined ? argv : inNetns(netns, argv), { deadlineMs })
  if (result.missing) return { seen: false, why: 'the program ip is missing' }
  if (result.timedOut) return { seen: false, why: `ip addr gave no answer in ${deadlineMs} ms` }
  if (result.code !== 0) return { seen: false, why: `ip addr failed: ${clean(result.stderr.trim())}` }
  const interfaces = parseInterfaces(result.stdout)
  if (interfaces === undefined) return { seen: false, why: 'ip addr answered something else than JSON' }
  return { seen: true, value: interfaces }
}
