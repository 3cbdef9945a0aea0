/** What the network of a node should be, how it looks, and the steps from one to the other. Pure. */

import type { Interface } from '../host/netns.ts'

/** Names and addresses of a node's network, as its settings file has them. */
export interface NetworkWant {
  readonly node: string
  readonly netns: string
  /** The host's end of the pair. */
  readonly veth: string
  /** The namespace's end of the pair. */
  readonly vpeer: string
  /** Plain IPv4, without a prefix length; both ends are a /30. */
  readonly gw: string
  readonly peer: string
}

export type LinkLook = Omit<Interface, 'name'>

export interface NetworkLook {
  readonly file: 'absent' | 'namespace' | 'not-a-namespace'
  readonly host?: LinkLook
  /** Only when there is a namespace to look into. */
  readonly inside?: { readonly loUp: boolean; readonly peer?: LinkLook; readonly firewall: boolean }
}

export type Step =
  | { readonly kind: 'delete-pair' }
  | { readonly kind: 'delete-stray-peer' }
  | { readonly kind: 'add-netns' }
  | { readonly kind: 'add-pair' }
  | { readonly kind: 'firewall' }
  | { readonly kind: 'ipv6-off'; readonly where: 'host' | 'inside' }
  | { readonly kind: 'lo-up' }
  | {
      readonly kind: 'address'
      readonly where: 'host' | 'inside'
      readonly add: string | undefined
      readonly remove: readonly string[]
    }
  | { readonly kind: 'link-up'; readonly where: 'host' | 'inside' }

export type Plan =
  | { readonly kind: 'refuse'; readonly why: string; readonly next: string }
  | { readonly kind: 'steps'; readonly steps: readonly Step[] }

/** Longest interface name the kernel takes (IFNAMSIZ 16 with the final NUL). */
const IFNAME_MAX = 15

/** The prefix length of every node's subnet: two ends and nothing else. */
const PREFIX = 30

/**
 * The steps that finish or repair a node's network, in the order in which they are safe: the firewall and
 * "IPv6 off" stand before a link comes up. An empty list when everything is there already.
 */
export function planUp(want: NetworkWant, look: NetworkLook): Plan {
  for (const name of [want.veth, want.vpeer]) {
    if (name.length > IFNAME_MAX || name === '') {
      const why = `interface name "${name}" is not 1 to ${IFNAME_MAX} characters, the kernel's limit`
      return { kind: 'refuse', why, next: `ensure-node-supervision ${want.node}` }
    }
  }
  if (look.file === 'not-a-namespace') {
    return {
      kind: 'refuse',
      why: `/run/netns/${want.netns} is a plain file, not a namespace`,
      next: `rm /run/netns/${want.netns} && netvm-node-up ${want.node}`,
    }
  }
  const steps: Step[] = []
  const fresh = look.file === 'absent'
  // A pair is whole when each end is where it belongs. A host end whose other end is elsewhere (its
  // namespace was deleted while a process still holds it) cannot be repaired, only replaced.
  const whole = !fresh && look.host !== undefined && look.inside?.peer !== undefined
  if (!whole && look.host) steps.push({ kind: 'delete-pair' })
  if (!whole && !look.host && look.inside?.peer) steps.push({ kind: 'delete-stray-peer' })
  if (fresh) steps.push({ kind: 'add-netns' })
  if (!whole) steps.push({ kind: 'add-pair' })
  if (!look.inside?.firewall) steps.push({ kind: 'firewall' })
  if (!whole || look.inside?.peer?.ipv6) steps.push({ kind: 'ipv6-off', where: 'inside' })
  if (!whole || look.host?.ipv6) steps.push({ kind: 'ipv6-off', where: 'host' })
  if (!look.inside?.loUp) steps.push({ kind: 'lo-up' })
  steps.push(...linkSteps('inside', `${want.peer}/${PREFIX}`, whole ? look.inside?.peer : undefined))
  steps.push(...linkSteps('host', `${want.gw}/${PREFIX}`, whole ? look.host : undefined))
  return { kind: 'steps', steps }
}

function linkSteps(where: 'host' | 'inside', address: string, link: LinkLook | undefined): Step[] {
  const steps: Step[] = []
  const add = link?.ipv4.includes(address) ? undefined : address
  const remove = (link?.ipv4 ?? []).filter((have) => have !== address)
  if (add !== undefined || remove.length > 0) steps.push({ kind: 'address', where, add, remove })
  if (!link?.up) steps.push({ kind: 'link-up', where })
  return steps
}

/** What a step did, in one line for people, and the lines that `ip -batch` runs for it; none when `ip` does not do it. */
export function describeStep(step: Step, want: NetworkWant): { text: string; lines: string[] } {
  const { netns, veth, vpeer } = want
  const dev = 'where' in step && step.where === 'inside' ? vpeer : veth
  switch (step.kind) {
    case 'delete-pair':
      return { text: `removed ${veth}, whose other end was not in ${netns}`, lines: [`link del ${veth}`] }
    case 'delete-stray-peer':
      return { text: `removed ${vpeer}, whose other end was gone`, lines: [`link del ${vpeer}`] }
    case 'add-netns':
      return { text: `made namespace ${netns}`, lines: [`netns add ${netns}`] }
    case 'add-pair': {
      const line = `link add ${veth} type veth peer name ${vpeer} netns ${netns}`
      return { text: `made pair ${veth} - ${vpeer}`, lines: [line] }
    }
    case 'firewall':
      return { text: `closed ${vpeer} for connections out of the namespace`, lines: [] }
    case 'ipv6-off':
      return { text: `IPv6 off on ${dev}`, lines: [] }
    case 'lo-up':
      return { text: `lo up in ${netns}`, lines: ['link set lo up'] }
    case 'link-up':
      return { text: `${dev} up`, lines: [`link set ${dev} up`] }
    case 'address': {
      const add = step.add === undefined ? [] : [step.add]
      const parts = [...add.map((a) => `added ${a}`), ...step.remove.map((a) => `removed ${a}`)]
      const removing = step.remove.map((a) => `addr del ${a} dev ${dev}`)
      const lines = [...removing, ...add.map((a) => `addr add ${a} dev ${dev}`)]
      return { text: `${dev}: ${parts.join(', ')}`, lines }
    }
  }
}

/**
 * What may leave the namespace by the veth: answers, nothing new. There is no default route there, but
 * the host itself listens on the other end, and a web page must not reach it.
 */
export function firewall(want: NetworkWant): string {
  return `table inet netvm
delete table inet netvm
table inet netvm {
  chain output {
    type filter hook output priority filter; policy accept;
    oifname "${want.vpeer}" ct state established,related accept
    oifname "${want.vpeer}" drop
  }
  chain forward {
    type filter hook forward priority filter; policy drop;
  }
}
`
}
