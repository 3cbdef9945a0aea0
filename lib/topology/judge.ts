import type { Interface } from '../netns.ts'
import type { Look, MarkState, Node } from '../types.ts'
import { ownershipOf } from './ownership.ts'
import { findStrays } from './strays.ts'
import type {
  FleetLook,
  InsideLook,
  LinkNames,
  NodeTopology,
  Ownership,
  Part,
  PartMark,
  Topology,
} from './types.ts'

/**
 * The fleet as it is, from one look. Pure.
 * @param isLocal whether this host runs a row
 */
export function judgeTopology(look: FleetLook, isLocal: (node: Node) => boolean): Topology {
  const owner = (name: string): Ownership => ownershipOf(look.registry, isLocal, name)
  const active = look.registry.nodes.filter((n) => owner(n.name).is === 'active')
  const found = findStrays(look, owner, isLocal)
  const blind = (what: string, l: Look<unknown>) => (l.seen ? [] : [`${what}: ${l.why}`])
  return {
    host: look.host,
    nodes: active.map((node) => judgeNode(look, node)),
    strays: found.filter((s) => s.remove !== undefined),
    notes: found.filter((s) => s.remove === undefined),
    blind: [
      ...blind('interfaces of the host', look.hostLinks),
      ...blind('namespaces', look.namespaces),
      ...blind('listeners', look.listeners),
      ...blind('units', look.units),
      ...blind('browsers', look.browsers),
      ...[...look.inside].flatMap(([name, inside]) => blind(`inside ${name}`, inside.links)),
    ],
  }
}

function judgeNode(look: FleetLook, node: Node): NodeTopology {
  const names = look.names.get(node.name)
  const inside = look.inside.get(node.netns)
  return {
    node: node.name,
    port: node.cdpPort,
    parts: [
      linkMark('veth', look.hostLinks, names?.veth ?? '', node.gw),
      netnsMark(look, node),
      inside === undefined
        ? { part: 'peer', state: 'not-checked', note: '' }
        : linkMark('peer', inside.links, names?.vpeer ?? '', node.peer),
      relayMark(look, node),
      cdpMark(look, node),
      browserMark(look, node, inside),
      tunnelMark(look, node, inside, names),
    ],
  }
}

const mark = (part: Part, state: MarkState, note: string): PartMark => ({ part, state, note })

function linkMark(part: Part, links: Look<readonly Interface[]>, name: string, address: string): PartMark {
  if (!links.seen) return mark(part, 'unknown', links.why)
  const found = links.value.find((l) => l.name === name)
  if (found === undefined) return mark(part, 'fail', `no ${name}`)
  const has = found.inet.some((a) => a.address === address && a.prefixLength === 30)
  if (!has) return mark(part, 'fail', `${name} has no ${address}/30`)
  return found.up ? mark(part, 'ok', `${name} ${address}/30`) : mark(part, 'fail', `${name} is down`)
}

function netnsMark(look: FleetLook, node: Node): PartMark {
  if (!look.namespaces.seen) return mark('netns', 'unknown', look.namespaces.why)
  if (look.namespaces.value.names.includes(node.netns)) return mark('netns', 'ok', node.netns)
  const plain = look.namespaces.value.others.includes(node.netns)
  return mark('netns', 'fail', plain ? `${node.netns} is not a namespace` : `${node.netns} missing`)
}

function relayMark(look: FleetLook, node: Node): PartMark {
  const asked = look.nodes.get(node.name)
  const endpoint = `${node.peer}:${node.cdpPort}`
  if (asked === undefined) return mark('relay', 'unknown', 'not asked')
  if (asked.browser !== undefined) return mark('relay', 'ok', `${endpoint} ${asked.answer.ms} ms`)
  const { answer } = asked
  const said = answer.kind === 'answer' ? `http ${answer.status}, not a browser's answer` : answer.detail
  // A relay that connects, with a dead browser behind it, works.
  if (
    asked.inner.seen &&
    asked.inner.value.browser !== 'answers' &&
    (answer.kind === 'answer' || answer.stage !== 'connect')
  ) {
    return mark('relay', 'ok', `${endpoint} takes connections`)
  }
  return mark('relay', 'fail', `${endpoint} ${said}`)
}

function cdpMark(look: FleetLook, node: Node): PartMark {
  const inner = look.nodes.get(node.name)?.inner ?? { seen: false, why: 'not asked' }
  const asked = look.nodes.get(node.name)
  // Nobody may be inside, and yet an answer came through the relay.
  if (!inner.seen)
    return asked?.browser === undefined ? mark('cdp', 'unknown', inner.why) : mark('cdp', 'ok', asked.browser)
  const ok = inner.value.browser === 'answers'
  return mark(
    'cdp',
    ok ? 'ok' : 'fail',
    ok ? inner.value.detail : `127.0.0.1:${node.cdpPort} ${inner.value.detail}`,
  )
}

function browserMark(look: FleetLook, node: Node, inside: InsideLook | undefined): PartMark {
  if (!look.browsers.seen) return mark('browser', 'unknown', look.browsers.why)
  const mine = look.browsers.value.filter((b) => b.node === node.name)
  const at = mine.filter(
    (b) => b.netns === undefined || inside?.inode === undefined || b.netns === inside.inode,
  )
  if (at.length === 0)
    return mark(
      'browser',
      'fail',
      mine.length === 0 ? 'no process' : `pid ${mine[0]?.pid} is outside its namespace`,
    )
  if (at.length === 1) return mark('browser', 'ok', `pid ${at[0]?.pid}`)
  const pids = at.map((b) => `pid ${b.pid}${b.unit === '' ? '' : ` (${b.unit})`}`).join(', ')
  return mark(
    'browser',
    'fail',
    `${at.length} processes were started with its profile: ${pids}; end the others`,
  )
}

function tunnelMark(
  look: FleetLook,
  node: Node,
  inside: InsideLook | undefined,
  names: LinkNames | undefined,
): PartMark {
  const configured = look.nodes.get(node.name)?.tunnelConfigured ?? false
  const wg = names?.wg ?? ''
  if (inside === undefined || !inside.links.seen)
    return mark('tunnel', configured ? 'unknown' : 'not-configured', '')
  const link = inside.links.value.find((l) => l.name === wg)
  if (link === undefined)
    return configured
      ? mark('tunnel', 'fail', `no ${wg} in ${node.netns}`)
      : mark('tunnel', 'not-configured', '')
  if (!link.up) return mark('tunnel', 'fail', `${wg} is down`)
  if (!inside.handshakes.seen) return mark('tunnel', 'unknown', inside.handshakes.why)
  const at = inside.handshakes.value.get(wg)
  if (at === undefined) return mark('tunnel', 'fail', `${wg} has no peer`)
  if (at === 0) return mark('tunnel', 'fail', `${wg} never had a handshake`)
  // An idle tunnel has an old one: its age is told and condemns nothing.
  return mark('tunnel', 'ok', `${wg} handshake ${Math.max(0, Math.round(look.wallMs / 1000 - at))}s ago`)
}
