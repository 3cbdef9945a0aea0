import { mapBounded } from '../base/bounded.ts'
import type { Node } from '../base/types.ts'
import { fetchInNetns } from '../host/curl.ts'
import { text } from '../report/codes.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { answered, egressRequests } from './probes.ts'
import type { EgressAnswer, EgressContext, UplinkAnswer, UplinkFacts } from './types.ts'

/** Child processes at once; each is one curl. */
const CHILDREN = 64
/** Long enough for a name, a handshake and an answer through a slow tunnel; short, because a tick waits for it. */
const ASK_DEADLINE_MS = 3_000
/** A fleet smaller than this many failing rows is never called an uplink fault by counting. */
const LEAST_FAILING = 3

/**
 * Whether the fault is the host's way out and not one node's tunnel. Pure.
 *
 * Counting: at least half of all rows that have a tunnel fail, this one counted, and at least three. A row that
 * could not be asked stays in the total and is not counted as failing. Or: the host's own probe fails
 * and no row passes.
 */
export function decideUplink(facts: UplinkFacts): UplinkAnswer {
  const answers = [facts.self, ...facts.others.map((other) => other.egress)]
  const failing = answers.filter((answer) => answer === 'fail').length
  const passing = answers.filter((answer) => answer === 'pass').length
  const byCount = failing >= LEAST_FAILING && failing * 2 >= answers.length
  const byHost = facts.host === 'fail' && passing === 0 && failing > 0
  const down = byCount || byHost
  const names = facts.others.filter((other) => other.egress === 'fail').map((other) => other.node)
  return {
    down,
    reason: down ? text('uplink-down') : '',
    evidence: [
      `egress fails on ${failing} of ${answers.length} active nodes${names.length > 0 ? ` (also ${names.join(' ')})` : ''}`,
      `the host's own probe: ${facts.host}`,
    ],
    facts,
  }
}

/**
 * Asks, side by side and before any restart, the egress of the other active local rows (each from inside its own
 * namespace) and the host's own. `node` itself has just failed and is not asked again. At most about 3 s in all.
 */
export async function askUplink(
  ctx: EgressContext,
  node: Node,
  others: readonly Node[],
): Promise<UplinkAnswer> {
  // A row without a tunnel has no egress to count.
  const asked = others.filter((other) => other.name !== node.name && tunnelConfigured(ctx.p, other.name))
  const where = [undefined, ...asked.map((other) => other.netns)]
  const [host = 'unknown', ...answers] = await mapBounded(where, CHILDREN, (netns) => ask(ctx, netns))
  return decideUplink({
    self: 'fail',
    others: asked.map((other, i) => ({ node: other.name, egress: answers[i] ?? 'unknown' })),
    host,
  })
}

async function ask(ctx: EgressContext, netns: string | undefined): Promise<EgressAnswer> {
  const probes = await fetchInNetns(netns, egressRequests(ctx.config, ASK_DEADLINE_MS))
  if (!probes.seen || probes.value.length === 0) return 'unknown'
  return probes.value.some(answered) ? 'pass' : 'fail'
}
