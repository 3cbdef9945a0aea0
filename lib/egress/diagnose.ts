import type { FetchResult } from '../curl.ts'
import type { Look, Node } from '../types.ts'
import type { EgressContext, EgressVerdict } from './types.ts'

/**
 * The egress verdict of one tick. Healthy at once when any probe answered, with no child process. Otherwise looks
 * closer: the interface, its unit, the endpoint's address, and the probes once more for about 1.5 s, so an
 * answer is at the same time the second look that must precede an action.
 */
export async function diagnoseEgress(
  _ctx: EgressContext,
  _node: Node,
  _probes: Look<readonly FetchResult[]>,
): Promise<EgressVerdict> {
  throw new Error('not there yet')
}
