import { mapBounded } from '../base/bounded.ts'
import type { Config } from '../base/config.ts'
import type { Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { lookInterfaces } from '../host/netns.ts'
import { ifNames } from '../registry/names.ts'
import { lookClose } from './close-look.ts'
import { type Asked, askRelay, linkWith } from './look.ts'
import type { RelayLook } from './types.ts'

/** Open sockets of one sweep. */
const MAX_SOCKETS = 256

/**
 * Looks at every node side by side. A healthy node costs one socket and its share of one `ip` call. Nodes
 * that have not answered after the inner deadline are looked into while their question is still open, so
 * that a fleet half of which is silent takes one probe deadline and not the sum of both.
 * @param rows every accepted row, to tell whose a strange address is
 */
export async function lookFleet(
  p: Paths,
  config: Config,
  nodes: readonly Node[],
  rows: readonly Node[],
): Promise<RelayLook[]> {
  const links = lookInterfaces(undefined, config.probeDeadlineMs)
  const asked = new Map<string, Asked>()
  const probes = mapBounded(nodes, MAX_SOCKETS, async (node) => {
    asked.set(node.name, await askRelay(p, node, config.probeDeadlineMs))
  })
  await atMost(probes, config.innerDeadlineMs)
  const host = await links
  const vethOf = ({ name, gw }: Node): RelayLook['veth'] =>
    host.seen ? { seen: true, value: linkWith(host.value, gw, 've-', () => ifNames(name).veth) } : host
  const veths = nodes.map(vethOf)
  const suspects = nodes.filter((node, i) => {
    const veth = veths[i]
    const bare = veth?.seen === true && !(veth.value.up && veth.value.hasAddress)
    return asked.get(node.name)?.browser === undefined && !bare
  })
  const close = await lookClose(p, config, suspects, rows)
  await probes
  return nodes.map((node, i) => {
    const veth = veths[i] ?? vethOf(node)
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
