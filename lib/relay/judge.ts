import type { Layer, LayerMark, Verdict } from '../base/types.ts'
import type { SocketOwner } from '../host/listeners.ts'
import { HEALTHY, verdict } from '../report/verdict.ts'
import {
  belowFinding,
  describe,
  isOurs,
  notAsked,
  serviceOf,
  socketOf,
  vethFinding,
  WILDCARDS,
} from './judge-below.ts'
import type { CloseLook, Finding, PortListener, RelayAction, RelayLook, RelayUnits } from './types.ts'

const LOOPBACK = /^(?:127\.|::1$)/
const journalOf = (name: string) => `journalctl -n 20 -u ${socketOf(name)} -u ${serviceOf(name)}`

/** What one look means, and the mark of each layer that it says something of. Pure; who acts decides on it. */
export function judgeRelay(look: RelayLook): Finding & { readonly marks: readonly LayerMark[] } {
  const finding = find(look)
  return { ...finding, marks: marksOf(look, finding.verdict) }
}

function find(look: RelayLook): Finding {
  const veth = vethFinding(look)
  if (veth !== undefined) return veth
  // An answer came over the veth: it stands, even when `ip` could not be asked.
  if (look.browser !== undefined) return { verdict: HEALTHY }
  const inner = look.close?.inner
  if (look.id !== undefined && (!inner?.seen || inner.value.id === look.id)) return { verdict: HEALTHY }
  if (!look.veth.seen) return notAsked('netns', look.veth.why)
  const { close } = look
  if (close === undefined) return notAsked('relay', 'there was no time to look closer')
  return belowFinding(look, close) ?? relayFinding(look, close)
}

/** Below the finding a layer is healthy only when it was looked at, and a browser that answers shows its process as well. */
function wasSeenHealthy(look: RelayLook, layer: Layer): boolean {
  if (layer === 'netns') return look.veth.seen
  const inner = look.close?.inner
  return inner?.seen === true && inner.value.browser === 'answers'
}

function marksOf(look: RelayLook, found: Verdict): LayerMark[] {
  const layers: readonly Layer[] = ['netns', 'process', 'cdp', 'relay']
  const at = layers.indexOf(found.layer ?? 'relay')
  return layers.map((layer, i) => {
    if (found.state === 'healthy') {
      return layer === 'process'
        ? { layer, state: 'not-checked' }
        : { layer, state: 'ok', ...(layer === 'relay' ? { note: `${look.answer.ms} ms` } : {}) }
    }
    if (i < at) return { layer, state: wasSeenHealthy(look, layer) ? 'ok' : 'not-checked' }
    if (i > at) return { layer, state: 'not-checked' }
    const state = found.state === 'unknown' ? 'unknown' : 'fail'
    return { layer, state, code: found.code, note: found.reason }
  })
}

/**
 * May be ended: a process that was identified, that is not systemd, that is no part of this product's own
 * units and that was not started as a browser.
 */
function removable(owner: SocketOwner): boolean {
  return owner.pid > 1 && !owner.browser && !/^(?:chromebox|cdp-relay|netvm-)/.test(owner.unit)
}

function removals(foreign: readonly PortListener[]): RelayAction[] {
  return foreign.flatMap((listener) =>
    listener.owners.filter(removable).map((owner) => ({ kind: 'remove-listener', listener, owner }) as const),
  )
}

/** The browser answers inside its namespace and the relay does not: why, and what helps. */
function relayFinding(o: RelayLook, close: CloseLook): Finding {
  const { node } = o
  const endpoint = `${node.peer}:${node.cdpPort}`
  const socket = socketOf(node.name)
  const as = o.id === undefined ? 'not as a browser' : 'as another browser'
  const said = o.answer.kind === 'answer' ? `answers ${o.answer.status}, ${as}` : o.answer.detail
  const evidence = [`http://${endpoint}/json/version: ${said}`, '127.0.0.1 answers inside the namespace']
  const base = { level: 'WARN', next: journalOf(node.name) } as const
  if (!close.units.seen) return { ...base, ...notAsked('relay', close.units.why) }
  const units = close.units.value
  const listeners = close.listeners.seen ? close.listeners.value : []
  const inOwn = listeners.filter((l) => l.netns === node.netns && l.port === node.cdpPort)
  const held = inOwn.some((l) => l.address === node.peer && isOurs(l, node.name))
  const squatter = inOwn.find((l) => !held && WILDCARDS.has(l.address) && !isOurs(l, node.name))
  const sockets = `ip netns exec ${node.netns} ss -ltnp`
  /** No restart helps. */
  const stuck = (found: Verdict, next: string): Finding => ({
    verdict: found,
    level: 'FAIL',
    page: true,
    next,
  })
  if (squatter !== undefined) {
    const pid = squatter.owners.find(removable)?.pid
    const what = { endpoint, where: describe(squatter) }
    const next = pid === undefined ? sockets : `kill ${pid}`
    return stuck(verdict('foreign-wildcard-listener', evidence, what), next)
  }
  // The socket does not start without the service, which it requires by name.
  const masks = [
    units.socketLoad === 'masked' && socket,
    units.serviceLoad === 'masked' && serviceOf(node.name),
  ]
  const masked = masks.filter((unit) => unit !== false)
  if (masked.length > 0) {
    const what = `${masked.join(' and ')} ${masked.length > 1 ? 'are' : 'is'}`
    return stuck(verdict('relay-masked', evidence, { masked: what }), `systemctl unmask ${masked.join(' ')}`)
  }
  const ensure = `ensure-node-supervision ${node.name}`
  if (units.socketLoad !== 'loaded')
    return stuck(verdict('relay-not-installed', evidence, { socket, load: units.socketLoad }), ensure)
  if (!units.listen.includes(endpoint)) {
    const listen = units.listen.join(', ') || 'nothing'
    return stuck(verdict('relay-unit-address', evidence, { socket, listen, endpoint }), ensure)
  }
  // The address itself, or this relay's port on an address that is another row's. The browser's own listener
  // on loopback is neither.
  const foreign = listeners.filter(
    (l) =>
      l.port === node.cdpPort &&
      !isOurs(l, node.name) &&
      (l.otherNode !== undefined || (l.netns === node.netns && l.address === node.peer)),
  )
  const thief = foreign.find((l) => l.netns === node.netns && l.address === node.peer)
  if (thief !== undefined && !thief.owners.some(removable))
    return stuck(verdict('foreign-kept', evidence, { where: describe(thief) }), sockets)
  const found = relayCause(o, units, close, inOwn, foreign, thief)
  const failed = units.socketActive === 'failed' || units.serviceActive === 'failed'
  return {
    ...base,
    verdict: { ...found, evidence: [...evidence, ...foreign.map(describe)] },
    // A start limit is a loop that somebody must look at, even when one restart helps for now.
    page: found.code === 'relay-start-limit',
    actions: [
      ...removals(foreign),
      { kind: 'restart-relay', stopService: units.serviceActive !== 'inactive', resetFailed: failed },
    ],
  }
}

function relayCause(
  o: RelayLook,
  units: RelayUnits,
  close: CloseLook,
  inOwn: readonly PortListener[],
  foreign: readonly PortListener[],
  thief: PortListener | undefined,
): Verdict {
  const { node } = o
  const endpoint = `${node.peer}:${node.cdpPort}`
  const socket = socketOf(node.name)
  if (thief !== undefined) return verdict('foreign-listener', [], { where: describe(thief) })
  const limit = [units.socketResult, units.serviceResult].find((r) => r.endsWith('-limit-hit'))
  if (limit !== undefined && (units.socketActive === 'failed' || units.serviceActive === 'failed')) {
    return verdict('relay-start-limit', [], { socket, limit })
  }
  const astray = [...inOwn, ...foreign].find(
    (l) =>
      l.address !== node.peer &&
      !LOOPBACK.test(l.address) &&
      (l.otherNode !== undefined || isOurs(l, node.name)),
  )
  if (astray !== undefined) {
    return verdict('relay-wrong-address', [], { where: describe(astray), endpoint })
  }
  if (units.socketActive !== 'active') {
    const how = units.socketActive === 'failed' ? ` (${units.socketResult})` : ''
    return verdict('relay-down', [], { socket, state: `${units.socketActive}${how}` })
  }
  if (close.listeners.seen && !inOwn.some((l) => l.address === node.peer)) {
    return verdict('relay-stale-namespace', [], { socket, endpoint, netns: node.netns })
  }
  return verdict('relay-silent', [], { endpoint })
}
