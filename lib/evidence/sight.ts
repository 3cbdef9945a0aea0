import { networkInterfaces } from 'node:os'
import { attempt } from '../base/attempt.ts'
import { textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import type { Look, Receipt } from '../base/types.ts'
import { canSeeAll, namespaceOf } from '../host/proc.ts'
import { type IdMap, ownIdMap } from './owner.ts'

/** What a shell is, found by looking; nothing here comes from its uid. */
export interface Shell {
  /** Inodes of our own namespaces; undefined when /proc does not say. */
  readonly net?: number | undefined
  readonly pid?: number | undefined
  /** What the receipts of this boot call the host's namespaces. */
  readonly hostNs?: Receipt['hostNs'] | undefined
  /** Not in a user namespace, where an ordinary user could have built himself a network. */
  readonly firstUserNs: boolean
  /** No process is hidden, and pid 1 is an init. */
  readonly all: Look<true>
  /** IPv4 addresses of our network namespace. */
  readonly addresses: ReadonlySet<string>
}

/** Which live looks of this shell are looks at the host. */
export interface Sight {
  readonly processes: Look<true>
  /** Whether a browser that is not in the process table is not there: not from a container with an init of its own. */
  readonly absenceCounts: boolean
  readonly network: (gateway: string) => Look<true>
  /** One line for people: what this shell cannot see and why; empty when it sees everything. */
  readonly blind: readonly string[]
}

const yes: Look<true> = { seen: true, value: true }
const no = (why: string): { readonly seen: false; readonly why: string } => ({ seen: false, why })

/** Why it is not known that a namespace of this shell is the host's. */
export const hostsUnknown = (kind: 'PID' | 'network'): string =>
  `no receipt says which ${kind} namespace is the host's`

/** Looks at the shell we run in. */
export function lookAtShell(
  p: Paths,
  hostNs: Shell['hostNs'],
  ids: IdMap = ownIdMap(p.proc),
  addresses: ReadonlySet<string> = ownAddresses(p),
): Shell {
  return {
    net: namespaceOf(p.proc, 'self', 'net'),
    pid: namespaceOf(p.proc, 'self', 'pid'),
    hostNs,
    firstUserNs: ids.initial,
    all: canSeeAll(p.proc),
    addresses,
  }
}

/**
 * Decides what counts as seen. Pure.
 *
 * With receipts of this boot the inodes decide. Without (just booted, or no permission to read them) a
 * look counts only where nobody without privileges could have staged it, in the first user namespace: for the
 * network with the node's own address on an interface, for processes as far as a browser is there.
 */
export function judgeSight(s: Shell): Sight {
  const processes = !s.all.seen
    ? no(s.all.why)
    : s.hostNs === undefined
      ? s.firstUserNs
        ? yes
        : no(`${hostsUnknown('PID')}, and this is a user namespace`)
      : s.pid === s.hostNs.pid
        ? yes
        : no('own PID namespace')
  const network = (gateway: string): Look<true> => {
    if (s.hostNs !== undefined) return s.net === s.hostNs.net ? yes : no('own network namespace')
    if (!s.firstUserNs) return no(`${hostsUnknown('network')}, and this is a user namespace`)
    return s.addresses.has(gateway) ? yes : no(hostsUnknown('network'))
  }
  const blind: string[] = []
  if (!processes.seen) blind.push(`processes: ${processes.why}`)
  if (s.hostNs !== undefined && s.net !== s.hostNs.net) blind.push('network: own network namespace')
  if (s.hostNs === undefined && !s.firstUserNs)
    blind.push('network: a user namespace, and no receipt to compare with')
  return { processes, absenceCounts: s.hostNs !== undefined, network, blind }
}

/**
 * The IPv4 addresses of this network namespace, from `/proc/net/fib_trie`: an address, and below it
 * `/32 host LOCAL`. Pure.
 */
export function localAddresses(fibTrie: string): ReadonlySet<string> {
  return new Set(
    [...fibTrie.matchAll(/\|-- (\d+\.\d+\.\d+\.\d+)\n\s+\/32 host LOCAL/g)].map((m) => m[1] ?? ''),
  )
}

/**
 * Not from the list of interfaces where it can be helped: libuv leaves out those without the flag RUNNING,
 * which the kernel sets up to a second after a veth pair came up.
 */
function ownAddresses(p: Paths): ReadonlySet<string> {
  // No such file in a kernel without it, or below a /proc that does not know this process.
  const table = textOf(`${p.proc}/net/fib_trie`)
  if (table !== undefined) return localAddresses(table)
  // Without netlink (a unit without AF_NETLINK) nothing is known of interfaces; see `judgeSight`.
  const all = Object.values(attempt(networkInterfaces) ?? {}).flatMap((list) => list ?? [])
  return new Set(all.filter((a) => a.family === 'IPv4').map((a) => a.address))
}
