import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { fromJson, list, number, optional, record, text, usable } from '../base/shape.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { run, runOk } from './exec.ts'

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
  /** IPv4 addresses as `a.b.c.d/len`. */
  readonly ipv4: readonly string[]
  /** It carries an IPv6 address, so IPv6 is not off. */
  readonly ipv6: boolean
}

/** Deadline of one `ip`, `nft` or `wg` call in milliseconds: they take 3 ms; a hung kernel lock is what this is for. */
export const IP_DEADLINE_MS = 5000
/** NSFS_MAGIC of include/uapi/linux/magic.h: the file system every bound namespace lives on. */
const NSFS_MAGIC = 0x6e736673

/** One entry of `ip -j addr`. */
const LINK = record({
  ifname: text,
  flags: optional(list(text)),
  addr_info: optional(usable(record({ family: text, local: optional(text), prefixlen: optional(number) }))),
})

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
    const code = errnoOf(err)
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return { seen: true, value: { exists: false, isNamespace: false } }
    }
    return { seen: false, why: `cannot look at ${path}: ${code}` }
  }
}

/** The inode of a named namespace; undefined when there is none, or none that can be looked at. */
export function netnsInode(p: Pick<Paths, 'netnsDir'>, netns: string): number | undefined {
  const look = lookNetns(p, netns)
  return look.seen ? look.value.inode : undefined
}

/** The argument vector that runs `argv` inside a named namespace, with that namespace's resolv.conf. */
export function inNetns(netns: string, argv: readonly string[]): string[] {
  return ['ip', 'netns', 'exec', netns, ...argv]
}

/** Parses `ip -j addr`; undefined when it is not that program's JSON. */
export function parseInterfaces(json: string): Interface[] | undefined {
  // Filtered entries stay in the array as empty objects.
  return fromJson(json.trim() === '' ? '[]' : json, usable(LINK))?.map(
    ({ ifname, flags, addr_info: all }) => ({
      name: ifname,
      up: flags?.includes('UP') === true,
      ipv4: (all ?? []).filter((a) => a.family === 'inet').map((a) => `${a.local}/${a.prefixlen}`),
      ipv6: all?.some((a) => a.family === 'inet6') === true,
    }),
  )
}

/** The interfaces of the host, or of a namespace, in one call of ip(8). */
export async function lookInterfaces(
  netns?: string,
  deadlineMs = IP_DEADLINE_MS,
): Promise<Look<Interface[]>> {
  const result = await run(ipIn(netns, ['-j', 'addr', 'show']), { deadlineMs })
  if (result.missing) return { seen: false, why: 'the program ip is missing' }
  if (result.timedOut) return { seen: false, why: `ip addr gave no answer in ${deadlineMs} ms` }
  if (result.code !== 0) return { seen: false, why: `ip addr failed: ${clean(result.stderr.trim())}` }
  const interfaces = parseInterfaces(result.stdout)
  if (interfaces === undefined) return { seen: false, why: 'ip addr answered something else than JSON' }
  // Every namespace has its loopback: nothing at all is no answer.
  if (interfaces.length === 0) return { seen: false, why: 'ip addr listed no interface' }
  return { seen: true, value: interfaces }
}

/** The argument vector of ip(8) over a namespace's interfaces, or over the host's; enters nothing. */
export function ipIn(netns: string | undefined, args: readonly string[]): string[] {
  return ['ip', ...(netns === undefined ? [] : ['-n', netns]), ...args]
}

/**
 * Runs lines of `ip -batch`, in a namespace when one is given.
 * @throws ExecError. Its command reads from us and would wait for a person to type, so the kernel's log is next.
 */
export async function ipBatch(netns: string | undefined, lines: readonly string[]): Promise<void> {
  const input = `${lines.join('\n')}\n`
  const next = 'dmesg | tail -n 20'
  await runOk(ipIn(netns, ['-batch', '-']), { input, deadlineMs: IP_DEADLINE_MS, next })
}
