import { readFileSync } from 'node:fs'
import { mapBounded } from '../base/bounded.ts'
import { now } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node } from '../base/types.ts'
import { run } from '../host/exec.ts'
import { parseTcpTable } from '../host/listener.ts'
import {
  describeProcess,
  listenersEverywhere,
  type NetListener,
  namespaceNames,
  ownersOf,
} from '../host/listeners.ts'
import { lookInterfaces, lookNetns, parseInterfaces } from '../host/netns.ts'
import { canSeeAll, listPids, netnsInode, readArgv } from '../host/proc.ts'
import { ifNames } from '../registry/names.ts'
import { isLocal, type ParsedRegistry } from '../registry/read.ts'
import { parseListen } from '../relay/close-look.ts'
import { lookFleet } from '../relay/fleet.ts'
import { observe } from '../supervisors/chromebox-watchdog/observe.ts'
import { HOST } from './ownership.ts'
import type {
  BrowserSeen,
  FleetLook,
  InsideLook,
  LinkNames,
  NodeLook,
  OwnedListener,
  UnitSeen,
} from './types.ts'

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
    mapBounded(warps, MAX_NODES, async (name) => [name, await lookInside(p, name)] as const),
    lookNodes(p, config, active, registry.nodes),
  ])
  const known = [...registry.nodes.map((n) => n.name), ...registry.errors.flatMap((e) => e.name ?? [])]
  return {
    host,
    now: at,
    netnsDir: p.netnsDir,
    registry,
    names: new Map<string, LinkNames>(known.map((name) => [name, ifNames(name)])),
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

async function lookInside(p: Paths, name: string): Promise<InsideLook> {
  const look = lookNetns(p, name)
  const addr = await run(['ip', '-n', name, '-j', 'addr', 'show'], { deadlineMs: DEADLINE_MS })
  const links = addr.code === 0 ? parseInterfaces(addr.stdout) : undefined
  return {
    ...(look.seen && look.value.inode !== undefined ? { inode: look.value.inode } : {}),
    links:
      links === undefined || links.length === 0
        ? { seen: false, why: clean(addr.stderr.trim()) || 'ip addr told nothing' }
        : { seen: true, value: links },
  }
}

async function lookListeners(p: Paths): Promise<Look<OwnedListener[]>> {
  const all = await listenersEverywhere(p, DEADLINE_MS)
  if (!all.seen) return all
  const ours = [...all.value.filter((l) => l.netns.startsWith('warp-')), ...hostListeners(p)]
  const owners = ownersOf(p, new Set(ours.map((l) => l.inode)))
  return { seen: true, value: ours.map((l) => ({ ...l, owners: owners.get(l.inode) ?? [] })) }
}

/** Listeners of the host itself on addresses that belong to nodes (10.201.0.0/16): a relay in the wrong place. */
function hostListeners(p: Paths): NetListener[] {
  try {
    const tables = readFileSync(`${p.proc}/self/net/tcp`, 'latin1')
    return parseTcpTable(tables).flatMap((l) =>
      l.address.startsWith('10.201.') ? [{ ...l, netns: HOST }] : [],
    )
  } catch {
    // A kernel without this file has shown nothing of the namespaces either.
    return []
  }
}

async function lookUnits(): Promise<Look<UnitSeen[]>> {
  const argv = [
    'systemctl',
    'show',
    '--no-pager',
    '--no-ask-password',
    '--property=Id,ActiveState,Listen',
    '--',
    ...UNIT_PATTERNS,
  ]
  const ran = await run(argv, { deadlineMs: DEADLINE_MS })
  if (ran.missing) return { seen: false, why: 'the program systemctl is missing' }
  if (ran.code !== 0) return { seen: false, why: clean(ran.stderr.trim()) || 'systemctl show gave no answer' }
  return { seen: true, value: parseUnits(ran.stdout) }
}

/** Blocks of `systemctl show` for a pattern: `KEY=VALUE` lines, an empty line between units. */
export function parseUnits(stdout: string): UnitSeen[] {
  return stdout.split(/\n\n+/).flatMap((block) => {
    const all = (key: string) =>
      block.split('\n').flatMap((l) => (l.startsWith(`${key}=`) ? [l.slice(key.length + 1)] : []))
    const [id] = all('Id')
    if (id === undefined) return []
    return [{ id, active: all('ActiveState')[0] ?? '', listen: parseListen(all('Listen').join('\n')) }]
  })
}

/** Main processes of browsers whose profile is below the directory of all profiles, whoever started them. */
function lookBrowsers(p: Paths): Look<BrowserSeen[]> {
  const all = canSeeAll(p.proc)
  if (!all.seen) return all
  const prefix = `--user-data-dir=${p.profiles}/`
  const value: BrowserSeen[] = []
  for (const pid of listPids(p.proc)) {
    const argv = readArgv(p.proc, pid)
    const dir = argv.find((arg, i) => i > 0 && arg.startsWith(prefix))
    if (dir === undefined || argv.some((arg) => arg.startsWith('--type='))) continue
    const owner = describeProcess(p, pid)
    const node = clean(dir.slice(prefix.length).replace(/\/.*$/, ''), 60)
    if (owner === undefined || pid === process.pid) continue
    const ns = netnsInode(p.proc, pid)
    value.push({ pid, node, unit: owner.unit, ...(ns.seen ? { netns: ns.value } : {}) })
  }
  return { seen: true, value }
}
