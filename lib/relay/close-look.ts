import { mapBounded } from '../base/bounded.ts'
import type { Config } from '../base/config.ts'
import type { Paths } from '../base/paths.ts'
import type { Look, Node } from '../base/types.ts'
import { listenersEverywhere, ownersOf } from '../host/listeners.ts'
import { type Interface, lookInterfaces, lookNetns } from '../host/netns.ts'
import { show } from '../host/systemd.ts'
import { ifNames } from '../registry/names.ts'
import { askInside, linkWith } from './look.ts'
import type { CloseLook, PortListener, RelayUnits } from './types.ts'

/** Nodes looked into side by side; each has one child at a time, and there are two more for all of them: 64. */
const MAX_CLOSE = 62
/** For the two children that look for all nodes together: 400 units, 200 namespaces, on a machine that is busy. */
const SHARED_DEADLINE_MS = 15_000
const UNIT_PROPS = ['LoadState', 'ActiveState', 'Result', 'Listen']

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
      const why = units.seen ? 'systemd did not answer for its units' : units.why
      return [
        node.name,
        {
          ...(inside[i] ?? UNSEEN),
          units: unit === undefined ? { seen: false, why } : { seen: true, value: unit },
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
  const netns = lookNetns(p, node.netns)
  if (!netns.seen || !netns.value.isNamespace) return { ...UNSEEN, netns }
  const links = await lookInterfaces(node.netns, config.innerDeadlineMs)
  const link = (all: readonly Interface[]) => linkWith(all, node.peer, 'vp-', () => ifNames(node.name).vpeer)
  const peerLink = links.seen ? ({ seen: true, value: link(links.value) } as const) : links
  return { netns, peerLink, inner: await askInside(p, node, config) }
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
  const mineOf = (node: Node) =>
    all.value
      .filter((l) => l.port === node.cdpPort)
      .map((l) => {
        const name = ownerOfAddress.get(l.address)
        return { ...l, ...(name === undefined || name === node.name ? {} : { otherNode: name }) }
      })
      .filter((l) => l.netns === node.netns || l.otherNode !== undefined)
  const found = suspects.map((node) => ({ name: node.name, mine: mineOf(node) }))
  const owners = ownersOf(p, new Set(found.flatMap(({ mine }) => mine.map((l) => l.inode))))
  const owned = found.map(({ name, mine }): [string, PortListener[]] => {
    return [name, mine.map((l) => ({ ...l, owners: owners.get(l.inode) ?? [] }))]
  })
  return { seen: true, value: new Map(owned) }
}
