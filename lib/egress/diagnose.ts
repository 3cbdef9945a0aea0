import type { Look, Node } from '../base/types.ts'
import type { FetchResult } from '../host/curl.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { judgeEgress } from './judge.ts'
import { answered } from './probes.ts'
import type { EgressContext, EgressVerdict } from './types.ts'

/**
 * The egress verdict on one round of probes. Healthy at once when any probe answered, with no child process.
 * Otherwise looks closer: the interface, its unit, the endpoint's address, and the probes once more for about
 * 1.5 s, so an answer is at the same time the second look that must precede an action.
 *
 * @param afterRestart the interface has just been made anew, so any handshake on it is a fresh one
 */
export async function diagnoseEgress(
  ctx: EgressContext,
  node: Node,
  probes: Look<readonly FetchResult[]>,
  afterRestart = false,
): Promise<EgressVerdict> {
  const configured = tunnelConfigured(ctx.p, node.name)
  if (!configured || !probes.seen || probes.value.length === 0 || probes.value.some(answered)) {
    return judgeEgress({ node: node.name, configured, wg: '', probes })
  }
  // A healthy tick must not pay for loading what only a fault needs.
  const { lookCloser } = await import('./look.ts')
  return judgeEgress(await lookCloser(ctx, node, probes.value, afterRestart))
}
