import { mapBounded } from '../base/bounded.ts'
import { now } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node } from '../base/types.ts'
import { startedAsBrowsers } from '../browser/processes.ts'
import {
  describeProcess,
  listenersEverywhere,
  namespaceNames,
  type OwnedListener,
  ownersOf,
} from '../host/listeners.ts'
import { lookInterfaces, netnsInode } from '../host/netns.ts'
import { canSeeAll, namespaceOf } from '../host/proc.ts'
import { showMatching, type UnitShow } from '../host/systemd.ts'
import { parseTcpTable } from '../host/tcp-table.ts'
import { ifNames } from '../registry/names.ts'
import { isLocal, type ParsedRegistry } from '../registry/read.ts'
import { parseListen } from '../relay/close-look.ts'
import { lookFleet } from '../relay/fleet.ts'
import { observe } from '../supervisors/chromebox-watchdog/observe.ts'
import { type BrowserSeen, type FleetLook, HOST, type NodeLook, type UnitSeen } from './types.ts'

/** Nodes looked into side by side; each has up to three children, so 64 of them. */
const MAX_NODES = 21
const DEADLINE_MS = 5000
const UNIT_PATTERNS = ['cdp-relay@*', 'chromebox@*', 'netvm-tunnel@*', 'netvm-netns@*']

/** Looks at everything once, side by side. What cannot be seen is kept as such, with the reason. */
export async function observeTopology(
  p: Paths,
  config: Config,
  registry: ParsedRegistry,
  host: string,
): Promise<FleetLook> {
  const active = registry.nodes.filter((n) => n.status === 'active' && isLocal(n, host))
  const at = now(p)
  const namespaces = namespaceNames(p)
  const warps = namespaces.seen ? namespaces.value.names.filter((n) => n.startsWith('warp-')) : []
  const [hostLinks, listeners, units, inside, nodes] = await Promise.all([
    lookInterfaces(undefined, DEADLINE_MS),
    lookListeners(p),
    lookUnits(),
    mapBounded(warps, MAX_NODES, async (name) => {
      const inside = { inode: netnsInode(p, name), links: await lookInterfaces(name, DEADLINE_MS) }
      return [name, inside] as const
    }),
    lookNodes(p, config, active, registry.nodes),
  ])
  const known = [...registry.nodes.map((n) => n.name), ...registry.errors.flatMap((e) => e.name ?? [])]
  return {
    host,
    now: at,
    netnsDir: p.netnsDir,
    registry,
    names: new Map(known.map((name) => [name, ifNames(name)])),
    hostLinks,
    namespaces,
    inside: new Map(inside),
    listeners,
    units,
    browsers: lookBrowsers(p),
    nodes,
  }
}

/** Both watchdogs' own looks at the nodes that this host runs. */
async function lookNodes(
  p: Paths,
  config: Config,
  active: readonly Node[],
  rows: readonly Node[],
): Promise<ReadonlyMap<string, NodeLook>> {
  const [watchdogs, relays] = await Promise.all([
    mapBounded(active, MAX_NODES, (node) => observe({ p, config }, node)),
    lookFleet(p, config, active, rows),
  ])
  return new Map(
    active.flatMap((node, i): [string, NodeLook][] => {
      const [watchdog, relay] = [watchdogs[i], relays[i]]
      return watchdog === undefined || relay === undefined ? [] : [[node.name, { watchdog, relay }]]
    }),
  )
}

async function lookListeners(p: Paths): Promise<Look<OwnedListener[]>> {
  const all = await listenersEverywhere(p, DEADLINE_MS)
  if (!all.seen) return all
  // Of the host itself those on addresses of nodes (10.201.0.0/16): relays in the wrong place. A kernel without this
  // file has shown nothing of the namespaces either.
  const own = parseTcpTable(textOf(`${p.proc}/self/net/tcp`) ?? '').map((l) => ({ ...l, netns: HOST }))
  const ours = [
    ...all.value.filter((l) => l.netns.startsWith('warp-')),
    ...own.filter((l) => l.address.startsWith('10.201.')),
  ]
  const owners = ownersOf(p, new Set(ours.map((l) => l.inode)))
  return { seen: true, value: ours.map((l) => ({ ...l, owners: owners.get(l.inode) ?? [] })) }
}

async function lookUnits(): Promise<Look<UnitSeen[]>> {
  const shown = await showMatching(UNIT_PATTERNS, ['ActiveState', 'Listen'], DEADLINE_MS)
  return shown.seen ? { seen: true, value: shown.value.map(unitSeen) } : shown
}

/** What `systemctl show` says of one unit. */
export function unitSeen({ Id: id = '', ActiveState: active = '', Listen = '' }: UnitShow): UnitSeen {
  return { id, active, listen: parseListen(Listen) }
}

/** Main processes of browsers whose profile is below the directory of all profiles, whoever started them. */
function lookBrowsers(p: Paths): Look<BrowserSeen[]> {
  const all = canSeeAll(p.proc)
  if (!all.seen) return all
  const value = startedAsBrowsers(p).flatMap(({ pid, profile }): BrowserSeen[] => {
    const owner = describeProcess(p, pid)
    if (owner === undefined) return []
    const node = clean(profile.replace(/\/.*$/, ''), 60)
    return [{ pid, node, unit: owner.unit, netns: namespaceOf(p.proc, pid) }]
  })
  return { seen: true, value }
}
