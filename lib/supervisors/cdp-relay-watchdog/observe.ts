import { mapBounded } from '../../base/bounded.ts'
import type { Config } from '../../base/config.ts'
import type { Paths } from '../../base/paths.ts'
import { clean } from '../../base/text.ts'
import type { Look, Node } from '../../base/types.ts'
import { run } from '../../host/exec.ts'
import { listenersEverywhere, ownersOf } from '../../host/listeners.ts'
import { type Interface, lookInterfaces, lookNetns, parseInterfaces } from '../../host/netns.ts'
import { show } from '../../host/systemd.ts'
import { ifNames } from '../../registry/names.ts'
import { type Asked, askInside, askRelay, linkWith } from '../../relay/look.ts'
import type { CloseLook, LinkState, PortListener, RelayUnits } from '../../relay/types.ts'
import type { RelayObservation } from './types.ts'

/** Open sockets of one sweep. */
const MAX_SOCKETS = 256
/** Nodes looked into side by side; each has one child at a time, and there are two more for all of them: 64. */
const MAX_CLOSE = 62
/** For the two children that look for all nodes together: 400 units, 200 namespaces, on a machine that is busy. */
const SHARED_DEADLINE_MS = 15_000
const UNIT_PROPS = ['LoadState', 'ActiveState', 'SubState', 'Result', 'Listen']

/**
 * Looks at every node side by side. A healthy node costs one socket and its share of one `ip` call. Nodes
 * that have not answered after the inner deadline are looked into while their question is still open, so
 * that a fleet half of which is silent takes one probe deadline and not the sum of both.
 * @param rows every accepted row, to tell whose a strange address is
 */
export async function observeFleet(
  p: Paths,
  config: Config,
  nodes: readonly Node[],
  rows: readonly Node[],
): Promise<RelayObservation[]> {
  const links = lookInterfaces(undefined, config.probeDeadlineMs)
  const asked = new Map<string, Asked>()
  const probes = mapBounded(nodes, MAX_SOCKETS, async (node) => {
    asked.set(node.name, await askRelay(node, config.probeDeadlineMs))
  })
  await atMost(probes, config.innerDeadlineMs)
  const host = await links
  const veths = new Map(nodes.map((node) => [node.name, vethOf(host, node)]))
  const suspects = nodes.filter((node) => {
    const veth = veths.get(node.name)
    const bare = veth?.seen === true && !(veth.value.up && veth.value.hasAddress)
    return asked.get(node.name)?.browser === undefined && !bare
  })
  const close = await lookClose(p, config, suspects, rows)
  await probes
  return nodes.map((node) => {
    const veth = veths.get(node.name) ?? { seen: false, why: 'not looked at' }
    const got = asked.get(node.name) ?? {
      answer: { kind: 'timeout', stage: 'connect', detail: 'not asked', ms: 0 },
    }
    const look = got.browser === undefined ? close.get(node.name) : undefined
    return { node, veth, ...got, ...(look === undefined ? {} : { close: look }) }
  })
}

async function atMost(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const time = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, time])
  clearTimeout(timer)
}

function vethOf(host: Look<Interface[]>, node: Node): Look<LinkState> {
  if (!host.seen) return host
  // Every host has its loopback: nothing at all is no answer.
  if (host.value.length === 0) return { seen: false, why: 'ip addr told nothing' }
  return { seen: true, value: linkWith(host.value, node.gw, 've-', () => ifNames(node.name).veth) }
}

/** The close look at nodes that do not answer: two children each, and two for all of them together. */
export async function lookClose(
  p: Paths,
  config: Config,
  suspects: readonly Node[],
  rows: readonly Node[],
): Promise<Map<string, CloseLook>> {
  if (suspects.length === 0) return new Map()
  const [units, listeners, inside] = await Promise.all([
    lookUnits(suspects),
    lookListeners(p, suspects, rows),
    mapBounded(suspects, MAX_CLOSE, (node) => lookInside(p, config, node)),
  ])
  return new Map(
    suspects.map((node, i) => {
      const unit = units.seen ? units.value.get(node.name) : undefined
      const blind = {
        seen: false,
        why: units.seen ? 'systemd did not tell of its units' : units.why,
      } as const
      return [
        node.name,
        {
          ...(inside[i] ?? UNSEEN),
          units: unit === undefined ? blind : { seen: true, value: unit },
          listeners: listeners.seen ? { seen: true, value: listeners.value.get(node.name) ?? [] } : listeners,
        },
      ]
    }),
  )
}

const UNSEEN = {
  netns: { seen: false, why: 'not looked at' },
  peerLink: { seen: false, why: 'not looked at' },
  inner: { seen: false, why: 'not looked at' },
} as const

async function lookInside(
  p: Paths,
  config: Config,
  node: Node,
): Promise<Pick<CloseLook, 'netns' | 'peerLink' | 'inner'>> {
  const look = lookNetns(p, node.netns)
  if (!look.seen) return { ...UNSEEN, netns: look }
  const state = look.value.isNamespace ? 'there' : look.value.exists ? 'not-a-namespace' : 'missing'
  const netns = { seen: true, value: state } as const
  if (state !== 'there') return { ...UNSEEN, netns }
  const peerLink = await lookPeer(node, config.innerDeadlineMs)
  const inner = await askInside(node, config)
  return { netns, inner, peerLink }
}

async function lookPeer(node: Node, deadlineMs: number): Promise<Look<LinkState>> {
  const ran = await run(['ip', '-n', node.netns, '-j', 'addr', 'show'], { deadlineMs })
  const links = ran.code === 0 ? parseInterfaces(ran.stdout) : undefined
  // Every namespace has its loopback: nothing at all is no answer, not an empty namespace.
  if (links === undefined || links.length === 0)
    return { seen: false, why: clean(ran.stderr.trim()) || 'ip addr told nothing' }
  return { seen: true, value: linkWith(links, node.peer, 'vp-', () => ifNames(node.name).vpeer) }
}

/** `10.201.35.2:9410 (Stream)` per line, as `systemctl show` prints the property Listen. */
export function parseListen(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.replace(/ \(\w+\)\s*$/, '').trim())
    .filter((line) => line !== '')
}

async function lookUnits(suspects: readonly Node[]): Promise<Look<Map<string, RelayUnits>>> {
  const names = suspects.flatMap((n) => [`cdp-relay@${n.name}.socket`, `cdp-relay@${n.name}.service`])
  const look = await show(names, UNIT_PROPS, SHARED_DEADLINE_MS)
  if (!look.seen) return look
  const value = new Map<string, RelayUnits>()
  for (const { name } of suspects) {
    const socket = look.value[`cdp-relay@${name}.socket`]
    const service = look.value[`cdp-relay@${name}.service`]
    if (socket === undefined || service === undefined) continue
    value.set(name, {
      socketLoad: socket.LoadState ?? '',
      socketActive: socket.ActiveState ?? '',
      socketSub: socket.SubState ?? '',
      socketResult: socket.Result ?? '',
      listen: parseListen(socket.Listen ?? ''),
      serviceLoad: service.LoadState ?? '',
      serviceActive: service.ActiveState ?? '',
      serviceResult: service.Result ?? '',
    })
  }
  return { seen: true, value }
}

/** Listeners on each suspect's port: all of its own namespace, and those on another row's address anywhere. */
async function lookListeners(
  p: Paths,
  suspects: readonly Node[],
  rows: readonly Node[],
): Promise<Look<Map<string, PortListener[]>>> {
  const all = await listenersEverywhere(p, SHARED_DEADLINE_MS)
  if (!all.seen) return all
  const ownerOfAddress = new Map(rows.map((row) => [row.peer, row.name]))
  const value = new Map<string, PortListener[]>()
  for (const node of suspects) {
    const mine = all.value
      .filter((l) => l.port === node.cdpPort)
      .map((l) => {
        const name = ownerOfAddress.get(l.address)
        return { ...l, owners: [], ...(name === undefined || name === node.name ? {} : { otherNode: name }) }
      })
      .filter((l) => l.netns === node.netns || l.otherNode !== undefined)
    value.set(node.name, mine)
  }
  const owners = ownersOf(p, new Set([...value.values()].flat().map((l) => l.inode)))
  for (const [name, mine] of value) {
    value.set(
      name,
      mine.map((l) => ({ ...l, owners: owners.get(l.inode) ?? [] })),
    )
  }
  return { seen: true, value }
}
