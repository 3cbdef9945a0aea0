import type { Layer } from '../base/types.ts'
import { judgeNetns } from '../netns/judge.ts'
import { verdict } from '../report/verdict.ts'
import type { CloseLook, Finding, LinkState, RelayLook } from './types.ts'

const LOUD = { level: 'FAIL_LOUD', page: true } as const

/** The relay is silent, and what is below it could not be looked at. */
export function notAsked(layer: Layer, why: string): Finding {
  return { verdict: { ...verdict('relay-not-asked', [], { why }), layer }, level: 'WARN' }
}

/** The host's end of the veth: missing, without its address, or down. `undefined` when healthy or not seen. */
export function vethFinding(o: RelayLook): Finding | undefined {
  if (!o.veth.seen) return undefined
  const { name, exists, up, hasAddress } = o.veth.value
  const what = { veth: name, gw: o.node.gw }
  if (!exists) {
    const found = verdict('veth-missing', [`${name} does not exist`], what)
    return { ...LOUD, verdict: found, next: `netvm-node-up ${o.node.name}` }
  }
  const raise = `ip link set dev ${name} up`
  const add = `ip addr add ${o.node.gw}/30 dev ${name}`
  if (!hasAddress)
    return { ...LOUD, verdict: verdict('veth-no-address', [], what), next: up ? add : `${raise} && ${add}` }
  if (!up) return { ...LOUD, verdict: verdict('veth-down', [], { veth: name }), next: raise }
  return undefined
}

/** The namespace's end of the veth; `undefined` when healthy. */
export function peerFinding(node: RelayLook['node'], link: LinkState): Finding | undefined {
  const { name, exists, up, hasAddress } = link
  const what = { veth: name, netns: node.netns, peer: node.peer }
  const ip = `ip -n ${node.netns}`
  const raise = `${ip} link set dev ${name} up`
  const add = `${ip} addr add ${node.peer}/30 dev ${name}`
  if (!exists)
    return { ...LOUD, verdict: verdict('peer-missing', [], what), next: `netvm-node-up ${node.name}` }
  if (!hasAddress)
    return { ...LOUD, verdict: verdict('peer-no-address', [], what), next: up ? add : `${raise} && ${add}` }
  return up ? undefined : { ...LOUD, verdict: verdict('peer-down', [], what), next: raise }
}

/** Layers below the relay that only the close look sees: the namespace, its end of the veth, the browser. */
export function belowFinding(o: RelayLook, close: CloseLook): Finding | undefined {
  const { node } = o
  if (!close.netns.seen) return notAsked('netns', close.netns.why)
  // chromebox-watchdog pages for the namespace: one fault, one page.
  const netns = judgeNetns(node.netns, close.netns)
  if (netns.state !== 'healthy')
    return { verdict: netns, level: 'FAIL_LOUD', next: `netvm-node-up ${node.name}` }
  const peer = close.peerLink.seen ? peerFinding(node, close.peerLink.value) : undefined
  if (peer !== undefined) return peer
  if (!close.inner.seen) return notAsked('cdp', close.inner.why)
  if (close.inner.value.browser === 'answers') return undefined
  const connected = o.answer.kind === 'answer' || o.answer.stage !== 'connect'
  const evidence = [`127.0.0.1:${node.cdpPort} in ${node.netns}: ${close.inner.value.detail}`]
  // Whether there is a process at all is not looked at here: chromebox-watchdog says so.
  const found = connected
    ? verdict('browser-down', evidence)
    : verdict('browser-and-relay-down', evidence, { endpoint: `${node.peer}:${node.cdpPort}` })
  return {
    verdict: found,
    level: 'WARN',
    next: `chromebox-watchdog --why ${node.name}`,
  }
}
