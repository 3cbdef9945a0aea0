import type { Node } from '../types.ts'
import type { EgressContext, UplinkAnswer, UplinkFacts } from './types.ts'

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
    reason: down ? 'uplink down' : '',
    evidence: [
      `egress fails on ${failing} of ${answers.length} active nodes${names.length > 0 ? ` (also ${names.join(' ')})` : ''}`,
      `the host's own probe: ${facts.host}`,
    ],
    facts,
  }
}

/**
 * Asks, side by side and before any restart, the egress of the other active local rows (each from inside its own
 * namespace) and the host's own. `node` itself has just failed and is not asked again.
 */
export async function askUplink(
  _ctx: EgressContext,
  _node: Node,
  _others: readonly Node[],
): Promise<UplinkAnswer> {
  throw new Error('not there yet')
}
