import type { Layer } from '../base/types.ts'
import { judgeNetns } from '../netns/judge.ts'
import { verdict } from '../report/verdict.ts'
import type { CloseLook, Finding, LinkState, PortListener, RelayLook } from './types.ts'

export const WILDCARDS = new Set(['0.0.0.0', '::'])
export const socketOf = (name: string) => `cdp-relay@${name}.socket`
export const serviceOf = (name: string) => `cdp-relay@${name}.service`

/**
 * Ours: held by PID 1 (systemd keeps the listening sockets of all socket units itself) or by a process
 * in the relay's own cgroup. Neither is ever a foreign listener, and neither is ever signalled.
 */
export function isOurs(listener: PortListener, node: string): boolean {
  return listener.owners.some((o) => o.pid === 1 || o.unit === serviceOf(node) || o.unit === socketOf(node))
}

export function describe(listener: PortListener): string {
  const where = `${listener.address}:${listener.port} in ${listener.netns}`
  const [owner] = listener.owners
  if (owner === undefined) return `${where} held by a process that cannot be seen`
  return `${where} held by ${owner.program} (pid ${owner.pid}${owner.unit === '' ? '' : `, ${owner.unit}`})`
}

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
  const next = `chromebox-watchdog --why ${node.name}`
  const { browser, detail } = close.inner.value
  if (browser === 'squatted')
    return { verdict: verdict('port-squatted', [detail], { port: node.cdpPort }), level: 'WARN', next }
  const connected = o.answer.kind === 'answer' || o.answer.stage !== 'connect'
  // Whoever has the address can accept: only our relay's socket says something of the relay.
  if (connected && !close.listeners.seen) return notAsked('relay', close.listeners.why)
  const there = (close.listeners.seen ? close.listeners.value : []).filter(
    (l) => l.netns === node.netns && (l.address === node.peer || WILDCARDS.has(l.address)),
  )
  const relayed = connected && there.some((l) => l.address === node.peer && isOurs(l, node.name))
  const strangers = there.filter((l) => !isOurs(l, node.name)).map(describe)
  const evidence = [`127.0.0.1:${node.cdpPort} in ${node.netns}: ${detail}`, ...strangers]
  // Whether there is a process at all is not looked at here: chromebox-watchdog says so.
  const found = relayed
    ? verdict('browser-down', evidence)
    : verdict('browser-and-relay-down', evidence, { endpoint: `${node.peer}:${node.cdpPort}` })
  return { verdict: found, level: 'WARN', next }
}
