import type { LayerMark, Look, Node, Now, Verdict } from '../base/types.ts'
import { judgeRelay } from '../relay/judge.ts'
import { peerFinding, vethFinding } from '../relay/judge-below.ts'
import { linkWith } from '../relay/look.ts'
import { decide } from '../supervisors/chromebox-watchdog/decide.ts'
import { emptyMemory } from '../supervisors/chromebox-watchdog/memory.ts'
import { findStrays } from './strays.ts'
import type { FleetLook, InsideLook, NodeLook, NodeTopology, Ownership, PartMark, Topology } from './types.ts'

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

/**
 * Whose a node name is. Only what belongs to `none` or `retired` is proposed for removal: a row that was refused for one
 * bad cell, or that another host runs, still has an owner.
 */
function ownershipOf(
  registry: FleetLook['registry'],
  isLocal: (node: Node) => boolean,
  name: string,
): Ownership {
  const row = registry.nodes.find((n) => n.name === name)
  const refused = registry.errors.find((e) => e.name === name)
  if (row !== undefined && isLocal(row))
    return row.status === 'active' ? { is: 'active', row } : { is: 'retired' }
  if (row !== undefined) return { is: 'elsewhere', why: `its row belongs to host ${row.host}` }
  if (refused !== undefined)
    return { is: 'refused', why: `its row on line ${refused.line} was refused: ${refused.reason}` }
  const nameless = registry.errors.find((e) => e.name === undefined)
  if (nameless !== undefined) {
    return {
      is: 'unknown-row',
      why: `it may belong to the row on line ${nameless.line}, refused: ${nameless.reason}`,
    }
  }
  return { is: 'none' }
}

/** The layers of a node as their owners judge them from one look of theirs, and the two ends of its veth. */
function judgeNode(look: FleetLook, node: Node): NodeTopology {
  const seen = look.nodes.get(node.name)
  const inside = look.inside.get(node.netns)
  const layers = seen === undefined ? new Map() : layersOf(seen, look.now)
  const part = (of: PartMark['part']): PartMark => {
    const { state, note = '', code } = layers.get(of) ?? { state: 'unknown', note: 'not asked' }
    return { part: of, state, note, code }
  }
  return {
    node: node.name,
    port: node.cdpPort,
    parts: [
      vethMark(seen, node),
      part('netns'),
      inside === undefined
        ? { part: 'peer', state: 'not-checked', note: '' }
        : peerMark(node, inside.links, look.names.get(node.name)?.vpeer ?? ''),
      ...(['egress', 'process', 'cdp', 'page', 'relay'] as const).map(part),
    ],
  }
}

/** Nothing is done for a look, so neither memory nor policy has a say in it. */
const POLICY = {
  freshBrowserMs: 0,
  backoffBaseMs: 0,
  backoffMaxMs: 0,
  holdAfter: Number.POSITIVE_INFINITY,
  halfOpenMs: 0,
}

function layersOf(seen: NodeLook, now: Now): ReadonlyMap<string, LayerMark> {
  const own = decide(seen.watchdog, emptyMemory(now), now, POLICY).marks
  const { marks } = judgeRelay(seen.relay)
  return new Map([...own, ...marks.filter((m) => m.layer === 'relay')].map((m) => [m.layer, m]))
}

/** One end of the veth. */
function endMark(part: PartMark['part'], fault: Verdict | undefined, note: string): PartMark {
  if (fault === undefined) return { part, state: 'ok', note }
  return {
    part,
    state: fault.state === 'unhealthy' ? 'fail' : 'unknown',
    note: fault.reason,
    code: fault.code,
  }
}

function vethMark(seen: NodeLook | undefined, node: Node): PartMark {
  const veth = seen?.relay.veth ?? { seen: false, why: 'not asked' }
  if (seen === undefined || !veth.seen)
    return { part: 'veth', state: 'unknown', note: veth.seen ? '' : veth.why }
  return endMark('veth', vethFinding(seen.relay)?.verdict, `${veth.value.name} ${node.gw}/30`)
}

function peerMark(node: Node, links: InsideLook['links'], name: string): PartMark {
  if (!links.seen) return { part: 'peer', state: 'unknown', note: links.why }
  const link = linkWith(links.value, node.peer, 'vp-', () => name)
  return endMark('peer', peerFinding(node, link)?.verdict, `${link.name} ${node.peer}/30`)
}
