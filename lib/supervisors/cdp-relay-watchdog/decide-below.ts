import type { Layer } from '../../types.ts'
import type { CloseLook, Finding, RelayObservation } from './types.ts'

/** The host's end of the veth: missing, without its address, or down. `undefined` when well or not seen. */
export function vethFinding(o: RelayObservation): Finding | undefined {
  if (!o.veth.seen) return undefined
  const { name, exists, up, hasAddress } = o.veth.value
  const base = { state: 'unhealthy', layer: 'netns', level: 'FAIL_LOUD', page: true } as const
  const reason = `veth ${name} has no ${o.node.gw}/30`
  if (!exists) {
    return {
      ...base,
      code: 'veth-missing',
      reason,
      evidence: [`${name} does not exist`],
      next: `netvm-node-up ${o.node.name}`,
    }
  }
  const raise = `ip link set dev ${name} up`
  const add = `ip addr add ${o.node.gw}/30 dev ${name}`
  if (!hasAddress) return { ...base, code: 'veth-no-address', reason, next: up ? add : `${raise} && ${add}` }
  if (!up) return { ...base, code: 'veth-down', reason: `veth ${name} is down`, next: raise }
  return undefined
}

/** Layers below the relay that only the close look sees: the namespace, its end of the veth, the browser. */
export function belowFinding(o: RelayObservation, close: CloseLook): Finding | undefined {
  const { node } = o
  const unknown = (layer: Layer, why: string): Finding => ({
    state: 'unknown',
    layer,
    code: 'cannot-look',
    reason: `relay does not answer, and ${why}`,
    level: 'WARN',
  })
  if (!close.netns.seen) return unknown('netns', close.netns.why)
  if (close.netns.value !== 'there') {
    const what = close.netns.value === 'missing' ? 'missing' : 'is not a namespace'
    // chromebox-watchdog pages for the namespace: one fault, one page.
    return {
      state: 'unhealthy',
      layer: 'netns',
      code: 'netns-missing',
      reason: `netns ${node.netns} ${what}`,
      level: 'FAIL_LOUD',
      next: `netvm-node-up ${node.name}`,
    }
  }
  if (close.peerLink.seen) {
    const { name, exists, up, hasAddress } = close.peerLink.value
    const base = { state: 'unhealthy', layer: 'netns', level: 'FAIL_LOUD', page: true } as const
    const reason = `veth ${name} in ${node.netns} has no ${node.peer}/30`
    const ip = `ip -n ${node.netns}`
    const raise = `${ip} link set dev ${name} up`
    const add = `${ip} addr add ${node.peer}/30 dev ${name}`
    if (!exists) return { ...base, code: 'peer-missing', reason, next: `netvm-node-up ${node.name}` }
    if (!hasAddress)
      return { ...base, code: 'peer-no-address', reason, next: up ? add : `${raise} && ${add}` }
    if (!up)
      return { ...base, code: 'peer-down', reason: `veth ${name} in ${node.netns} is down`, next: raise }
  }
  if (!close.inner.seen) return unknown('cdp', close.inner.why)
  if (close.inner.value.browser === 'answers') return undefined
  const { browser, detail } = close.inner.value
  const connected = o.answer.kind === 'answer' || o.answer.stage !== 'connect'
  return {
    state: 'unhealthy',
    layer: browser === 'refused' ? 'process' : 'cdp',
    code: connected ? 'browser-down' : 'browser-and-relay-down',
    reason: connected
      ? 'browser down behind a working relay'
      : `browser down, and its relay does not take connections on ${node.peer}:${node.cdpPort} (looked at again when the browser answers)`,
    evidence: [`127.0.0.1:${node.cdpPort} in ${node.netns}: ${detail}`],
    level: 'WARN',
    next: `chromebox-watchdog --why ${node.name}`,
  }
}
