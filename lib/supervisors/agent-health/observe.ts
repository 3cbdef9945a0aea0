import { checkApi, checkBoundMs } from '../../api/check.ts'
import { type Finding, unknown } from '../../api/judge.ts'
import type { Config } from '../../base/config.ts'
import type { Paths } from '../../base/paths.ts'
import type { Look, Node, Now } from '../../base/types.ts'
import type { Deadline } from '../../browser/deadline.ts'
import { findMain } from '../../browser/look.ts'
import { diagnoseEgress } from '../../egress/diagnose.ts'
import { egressRequests } from '../../egress/probes.ts'
import { fetchInNetns } from '../../host/curl.ts'
import { lookNetns } from '../../host/netns.ts'
import { QueueTimeout, withCdpSlot } from '../../queue/slot.ts'
import type { Priority } from '../../queue/ticket.ts'
import { text } from '../../report/codes.ts'
import { isPaused, readIntent } from '../../store/intent.ts'
import { tunnelConfigured } from '../../tunnel/configured.ts'
import type { Observation } from './decide.ts'

export interface HealthContext {
  readonly p: Paths
  readonly config: Config
  /** The end of the run: everything done for any node shares it. */
  readonly deadline: Deadline
}

/** Longest wait for a CDP slot, in ms (DESIGN §9). */
const SLOT_WAIT_MS = 60_000

/** One look at a node: the API through a CDP slot, the browser's age, and whether a person paused it. */
export async function observe(ctx: HealthContext, node: Node, now: Now): Promise<Observation> {
  const finding = await checkThroughSlot(ctx, node, 'normal')
  const { intent } = readIntent(ctx.p, node.name)
  return {
    finding,
    browserAgeMs: browserAge(ctx.p, node),
    paused: isPaused(intent, now),
    evidence: finding.kind === 'ok' ? [] : [`asked over ${node.peer}:${node.cdpPort}`],
  }
}

/**
 * The API check, holding a slot for as long as it takes. No slot in time is `unknown`: others are at work
 * in the browser, which is no fault of its API.
 */
export async function checkThroughSlot(
  ctx: HealthContext,
  node: Node,
  priority: Priority,
  waitMs = SLOT_WAIT_MS,
): Promise<Finding> {
  const spareMs = ctx.deadline.leftMs() - checkBoundMs(ctx.config)
  if (spareMs < 0) return unknown('api-unseen', 'no time left in this run for a check', 'api')
  const opts = { p: ctx.p, priority, timeoutMs: Math.min(waitMs, spareMs), doing: 'agent-health: API check' }
  try {
    const finding = await withCdpSlot(node.name, opts, () => checkApi(node, ctx.config))
    return await blameEgress(ctx, node, finding)
  } catch (err) {
    if (!(err instanceof QueueTimeout)) throw err
    return unknown('no-slot', err.message, 'cdp')
  }
}

/**
 * Silence from the API is the tunnel's fault when the tunnel is down, and a dead tunnel is not cured by
 * killing the browser. An HTTP status has come through the tunnel and proves it.
 */
async function blameEgress(ctx: HealthContext, node: Node, finding: Finding): Promise<Finding> {
  if (finding.kind !== 'failure' || !finding.egressInDoubt || !tunnelConfigured(ctx.p, node.name)) {
    return finding
  }
  const probes = await fetchInNetns(node.netns, egressRequests(ctx.config))
  const egress = await diagnoseEgress(ctx, node, probes)
  if (egress.state === 'healthy' || egress.state === 'not-configured') return finding
  const why = text('egress-below', { reason: finding.reason, egress: egress.reason })
  const fails = egress.state === 'unhealthy'
  return unknown(
    'egress-below',
    why,
    'egress',
    fails ? { code: egress.code, note: egress.reason } : undefined,
  )
}

function browserAge(p: Paths, node: Node): Look<number | undefined> {
  const netns = lookNetns(p, node.netns)
  const { process } = findMain(p, node, netns.seen ? netns.value.inode : undefined)
  return process.seen ? { seen: true, value: process.value?.ageMs } : process
}
