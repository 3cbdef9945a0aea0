import type { Look, Node } from '../base/types.ts'
import type { OwnedListener } from '../host/listeners.ts'
import { type FleetLook, HOST, type Ownership, type Stray } from './types.ts'

type OwnerOf = (name: string) => Ownership

const LOOPBACK = /^(?:127\.|::1$)/
const OUR_LINK = /^(?:ve|vp|wg)-[0-9a-f]{8}$/

/**
 * A stray of nobody is removed with `remove`, of a retired row with the command that takes its node down, and
 * else only reported. Nothing when an active row accounts for it.
 */
function stray(kind: Stray['kind'], what: string, owner: Ownership, name: string, remove: string): Stray[] {
  if (owner.is === 'active') return []
  if (owner.is === 'none') return [{ kind, what, remove, why: 'no row owns it' }]
  if (owner.is === 'retired')
    return [{ kind, what, remove: `netvm-node-down ${name}`, why: `${name} is retired` }]
  return [{ kind, what, why: owner.why }]
}

/** Everything of our kinds that no active row of this host accounts for. Pure. */
export function findStrays(look: FleetLook, owner: OwnerOf, isLocal: (node: Node) => boolean): Stray[] {
  return [
    ...strayUnits(look, owner),
    ...strayBrowsers(look, owner),
    ...strayListeners(look, owner, isLocal),
    ...strayNamespaces(look, owner),
    ...strayLinks(look, owner),
  ]
}

/** What was seen; that something could not be looked at is reported beside the strays. */
const seen = <T>(look: Look<readonly T[]>): readonly T[] => (look.seen ? look.value : [])

/** `warp-pip` → `pip`. */
const nodeOf = (netns: string) => netns.slice('warp-'.length)

function strayUnits(look: FleetLook, owner: OwnerOf): Stray[] {
  return seen(look.units).flatMap(({ id, active, listen }) => {
    const name = /^cdp-relay@(.*)\.socket$/.exec(id)?.[1]
    if (name === undefined || active !== 'active') return []
    return stray('relay-unit', `${id} on ${listen.join(', ')}`, owner(name), name, `systemctl stop ${id}`)
  })
}

function strayBrowsers(look: FleetLook, owner: OwnerOf): Stray[] {
  return seen(look.browsers).flatMap((b) => {
    const end = b.unit.endsWith('.service') ? `systemctl stop ${b.unit}` : `kill ${b.pid}`
    const what = `browser of profile ${b.node} (pid ${b.pid}${b.unit === '' ? '' : `, ${b.unit}`})`
    const whose = owner(b.node)
    if (whose.is !== 'active') return stray('browser', what, whose, b.node, end)
    const inode = look.inside.get(whose.row.netns)?.inode
    const main = look.nodes.get(b.node)?.watchdog.browser?.process?.pid
    // Perhaps a wrapper that started it: reported, and left alone.
    if (b.netns === undefined || inode === undefined || b.netns === inode)
      return main === undefined || main === b.pid
        ? []
        : [{ kind: 'browser' as const, what, why: `the browser of ${whose.row.name} is pid ${main}` }]
    return [{ kind: 'browser' as const, what, remove: end, why: `it is not in ${whose.row.netns}` }]
  })
}

/** Listeners that the host can reach and that are not the relay of the namespace's own row. */
function strayListeners(look: FleetLook, owner: OwnerOf, isLocal: (node: Node) => boolean): Stray[] {
  return seen(look.listeners)
    .filter((l) => !LOOPBACK.test(l.address))
    .flatMap((l) => {
      if (l.netns === HOST) return [hostListener(look, l, owner)]
      const whose = owner(nodeOf(l.netns))
      if (whose.is !== 'active')
        return stray('listener', describe(l), whose, nodeOf(l.netns), removal(look, l))
      const { row } = whose
      const rightPlace = l.address === row.peer && l.port === row.cdpPort
      if (rightPlace && l.owners.some((o) => o.pid === 1 || o.unit === `cdp-relay@${row.name}.service`))
        return []
      // Who holds it could not be seen, so nothing is wrong with it that we know of.
      if (rightPlace && l.owners.length === 0) return []
      const why = rightPlace ? `it is not cdp-relay@${row.name}` : whyWrong(look, l, row, isLocal)
      return [{ kind: 'listener' as const, what: describe(l), why, remove: removal(look, l) }]
    })
}

/** Relays listen inside namespaces. One on the host is nobody's, unless its address is of a row that is not ours to judge. */
function hostListener(look: FleetLook, l: OwnedListener, owner: OwnerOf): Stray {
  const row = look.registry.nodes.find((n) => n.peer === l.address || n.gw === l.address)
  const whose = owner(row?.name ?? '')
  const found = { kind: 'listener', what: describe(l), why: 'relays listen inside their namespaces' } as const
  return whose.is === 'active' || whose.is === 'retired' || whose.is === 'none'
    ? { ...found, remove: removal(look, l) }
    : { ...found, why: whose.why }
}

function whyWrong(look: FleetLook, l: OwnedListener, row: Node, isLocal: (node: Node) => boolean): string {
  const other = look.registry.nodes.find(
    (n) => n.name !== row.name && isLocal(n) && (n.peer === l.address || n.cdpPort === l.port),
  )
  const expected = `${row.name} is served on ${row.peer}:${row.cdpPort}`
  return other === undefined
    ? expected
    : `${expected}, and ${l.address}:${l.port} touches the row of ${other.name}`
}

const describe = (l: OwnedListener) => {
  const [o] = l.owners
  const by =
    o === undefined
      ? 'a process that cannot be seen'
      : `${o.program} (pid ${o.pid}${o.unit === '' ? '' : `, ${o.unit}`})`
  return `listener ${l.address}:${l.port} ${l.netns === HOST ? 'on the host' : `in ${l.netns}`}, ${by}`
}

/** The command that ends a listener: its unit is stopped, a process outside of units is ended by its pid. */
function removal(look: FleetLook, l: OwnedListener): string {
  const endpoint = `${l.address}:${l.port}`
  const inSystemd = l.owners.some((o) => o.pid === 1)
  const unit = seen(look.units).find((u) => u.listen.includes(endpoint) && u.id.endsWith('.socket'))
  if (inSystemd)
    return unit === undefined ? `systemctl list-sockets ${endpoint}` : `systemctl stop ${unit.id}`
  const [o] = l.owners
  if (o === undefined) return l.netns === HOST ? 'ss -ltnp' : `ip netns exec ${l.netns} ss -ltnp`
  return o.unit.endsWith('.service') ? `systemctl stop ${o.unit}` : `kill ${o.pid}`
}

function strayNamespaces(look: FleetLook, owner: OwnerOf): Stray[] {
  if (!look.namespaces.seen) return []
  const { names, others } = look.namespaces.value
  const of = (n: string, what: string, remove: string) =>
    n.startsWith('warp-') ? stray('netns', what, owner(nodeOf(n)), nodeOf(n), remove) : []
  return [
    ...names.flatMap((n) => of(n, `namespace ${n}`, removeNetns(look, n))),
    ...others.flatMap((n) => of(n, `${n}, a plain file and no namespace`, `rm ${look.netnsDir}/${n}`)),
  ]
}

/** With its unit active, stopping that takes everything bound to it down first; `ip netns del` alone would leave the veth. */
function removeNetns(look: FleetLook, netns: string): string {
  const unit = `netvm-netns@${nodeOf(netns)}.service`
  const managed = seen(look.units).some((u) => u.id === unit && u.active === 'active')
  return managed ? `systemctl stop ${unit}` : `ip netns del ${netns}`
}

function strayLinks(look: FleetLook, owner: OwnerOf): Stray[] {
  const whose = new Map(
    [...look.names].flatMap(([name, n]) => [n.veth, n.vpeer, n.wg].map((link) => [link, name] as const)),
  )
  return seen(look.hostLinks)
    .filter((l) => OUR_LINK.test(l.name))
    .flatMap((l) => {
      const name = whose.get(l.name) ?? ''
      return stray('veth', `interface ${l.name}`, owner(name), name, `ip link del ${l.name}`)
    })
}
