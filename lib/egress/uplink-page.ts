import type { PageContext } from '../page.ts'
import type { Paths } from '../paths.ts'
import type { Node } from '../types.ts'
import type { UplinkAnswer } from './types.ts'

/** Pages `uplink down` once for the whole fleet, under the fleet lock: later runs find it said. */
export async function pageUplink(_ctx: PageContext, _answer: UplinkAnswer): Promise<void> {
  throw new Error('not there yet')
}

/** Whether the fleet was paged and not yet told of the recovery. One stat: cheap enough for a healthy tick. */
export function uplinkPageOpen(_p: Paths): boolean {
  return false
}

/**
 * For a node whose egress passes while the uplink page is open: asks the fleet again and says the recovery once it no
 * longer counts as down. Asking first keeps the half that still works from flapping the page.
 */
export async function settleUplink(_ctx: PageContext, _node: Node, _others: readonly Node[]): Promise<void> {}
