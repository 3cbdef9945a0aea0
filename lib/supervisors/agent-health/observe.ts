import { checkApi, checkBoundMs } from '../../api/check.ts'
import { type Finding, unknown } from '../../api/judge.ts'
import type { Paths } from '../../base/paths.ts'
import type { Look, Node } from '../../base/types.ts'
import { findMain, lookBrowser } from '../../browser/look.ts'
import { diagnoseEgress } from '../../egress/diagnose.ts'
import { egressRequests } from '../../egress/probes.ts'
import { fetchInNetns } from '../../host/curl.ts'
import { lookNetns } from '../../host/netns.ts'
import { QueueTimeout, withCdpSlot } from '../../queue/slot.ts'
import type { Priority } from '../../queue/ticket.ts'
import { text } from '../../report/codes.ts'
import { readReceipt } from '../../store/receipts.ts'
import { tunnelConfigured } from '../../tunnel/configured.ts'
import type { Tick } from '../types.ts'
import { notOurs } from './decide.ts'
import { type Observation, policyOf } from './types.ts'

/** Longest wait for a CDP slot, in ms: the default that `cdp-queue` has too. */
const SLOT_WAIT_MS = 60_000

/** Wait for a slot while the node lock is held or a restart is being verified, in ms. */
const SHORT_SLOT_WAIT_MS = 10_000

/** One look at a node: the API through a CDP slot, and the browser's age. */
export async function observe(t: Tick, node: Node): Promise<Observation> {
  const finding = await checkThroughSlot(t, node, 'normal', SLOT_WAIT_MS)
  const last = readReceipt(t.p, 'agent-health', node.name)
  return {
    node,
    finding,
    browserAgeMs: browserAge(t.p, node),
    evidence: finding.kind === 'ok' ? [] : [`asked over ${node.peer}:${node.cdpPort}`],
    ...(last.seen && last.value && { last: last.value }),
  }
}

/** Under the node lock: the browser, and the API again where the browser may be restarted for it. */
export async function observeAgain(t: Tick, node: Node, first: Observation): Promise<Observation> {
  const judgement = await lookBrowser(t, node)
  if (notOurs({ judgement }, policyOf(t.config))) return { ...first, again: { judgement } }
  return { ...first, again: { judgement, finding: await checkSoon(t, node) } }
}

/** The API check ahead of everybody else who waits for a slot. */
export function checkSoon(t: Tick, node: Node): Promise<Finding> {
  return checkThroughSlot(t, node, 'high', SHORT_SLOT_WAIT_MS)
}

/**
 * The API check, holding a slot for as long as it takes. No slot in time is `unknown`: others are at work
 * in the browser, which is no fault of its API.
 */
async function checkThroughSlot(t: Tick, node: Node, priority: Priority, waitMs: number): Promise<Finding> {
  const spareMs = t.deadline.leftMs() - checkBoundMs(t.config)
  if (spareMs < 0) return unknown('api-unseen', 'no time left in this run for a check', 'api')
  const opts = { p: t.p, priority, timeoutMs: Math.min(waitMs, spareMs), doing: 'agent-health: API check' }
  try {
    const finding = await withCdpSlot(node.name, opts, () => checkApi(node, t.config))
    return await blameEgress(t, node, finding)
  } catch (err) {
    if (!(err instanceof QueueTimeout)) throw err
    return unknown('no-slot', err.message, 'cdp')
  }
}

/**
 * Silence from the API is the tunnel's fault when the tunnel is down, and a dead tunnel is not cured by
 * killing the browser. An HTTP status has come through the tunnel and proves it.
 */
async function blameEgress(t: Tick, node: Node, finding: Finding): Promise<Finding> {
  if (finding.kind !== 'failure' || !finding.egressInDoubt || !tunnelConfigured(t.p, node.name)) {
    return finding
  }
  const probes = await fetchInNetns(node.netns, egressRequests(t.config))
  const egress = await diagnoseEgress(t, node, probes)
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
