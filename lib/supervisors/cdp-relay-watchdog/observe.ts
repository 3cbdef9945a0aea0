import type { Node } from '../../base/types.ts'
import { lookFleet } from '../../relay/fleet.ts'
import { askInside, askRelay } from '../../relay/look.ts'
import type { Tick } from '../types.ts'
import type { Observation } from './types.ts'

/** Every node side by side, in their order. */
export function observeAll(t: Tick, nodes: readonly Node[]): Promise<Observation[]> {
  return lookFleet(t.p, t.config, nodes, t.registry.nodes)
}

/** The two questions that decide, asked anew; the rest of the close look is a second old and is checked by the actions. */
export async function observeAgain(
  { p, config }: Tick,
  node: Node,
  first: Observation,
): Promise<Observation> {
  const [asked, inner] = await Promise.all([
    askRelay(p, node, config.innerDeadlineMs),
    askInside(p, node, config),
  ])
  const { browser: _, id: _i, close, ...rest } = first
  return { ...rest, ...asked, ...(close && { close: { ...close, inner } }), again: true }
}
