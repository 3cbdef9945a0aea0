import { present } from '../../base/present.ts'
import type { Look, Node } from '../../base/types.ts'
import { judgeBrowser } from '../../browser/judge.ts'
import {
  type BrowserContext,
  cdpRequests,
  findMain,
  provedIdentity,
  readAnswers,
  settlePage,
} from '../../browser/look.ts'
import { whyNoStart, whyUnwritable } from '../../browser/startable.ts'
import type { BrowserLook } from '../../browser/types.ts'
import { browserUnit } from '../../browser/verify.ts'
import { answered, egressRequests } from '../../egress/probes.ts'
import type { EgressVerdict } from '../../egress/types.ts'
import { type FetchResult, fetchInNetns } from '../../host/curl.ts'
import { lookNetns } from '../../host/netns.ts'
import type { UnitState } from '../../host/systemd.ts'
import { readReceipt } from '../../store/receipts.ts'
import { tunnelConfigured } from '../../tunnel/configured.ts'
import type { Tick } from '../types.ts'
import type { Decision, Observation } from './types.ts'

const WORKS: EgressVerdict = { state: 'healthy', code: 'ok', reason: '', evidence: [], repair: false }
const NOT_CONFIGURED: EgressVerdict = {
  ...WORKS,
  state: 'not-configured',
  code: 'not-configured',
  note: 'not configured',
}

/**
 * One look at a node from inside its namespace. A healthy one costs a walk through /proc and a single
 * child process: the curl that asks CDP and the egress URLs side by side.
 */
export async function observe(ctx: BrowserContext, node: Node): Promise<Observation> {
  const { p, config } = ctx
  const netns = lookNetns(p, node.netns)
  const left = readReceipt(p, 'chromebox-watchdog', node.name)
  const last = left.seen ? left.value : undefined
  const start = { node: node.name, netns, ...(last ? { last } : {}) }
  if (!netns.seen || !netns.value.isNamespace) return start
  const found = findMain(p, node, netns.value.inode)
  const main = found.process.seen ? found.process.value : undefined
  const cdp = main ? cdpRequests(node, config.probeDeadlineMs) : []
  const configured = tunnelConfigured(p, node.name)
  const requests = configured ? [...cdp, ...egressRequests(config)] : cdp
  const results: Look<FetchResult[]> =
    requests.length > 0 ? await fetchInNetns(node.netns, requests) : { seen: true, value: [] }
  const probes = results.seen ? ({ seen: true, value: results.value.slice(cdp.length) } as const) : results
  const egress = configured ? await askEgress(ctx, node, probes) : NOT_CONFIGURED
  const answers = main ? readAnswers(p, node, main, results, provedIdentity(last)) : {}
  const look: BrowserLook = { ...found, ...(await settlePage(node, answers, config.innerDeadlineMs)) }
  const browser = judgeBrowser(look, { title: node.chatTitle, port: node.cdpPort })
  const failing = main !== undefined && browser.verdict.state === 'unhealthy'
  const row = failing ? (await import('../../registry/node-env.ts')).notApplied(p, node) : undefined
  // Where CDP does not answer, a page that the row has elsewhere is not what is wrong.
  const stale = row?.what === 'port' || browser.verdict.layer === 'page' ? row?.text : undefined
  const unwritable = main && whyUnwritable(p, node.name, main.pid)
  const identity = look.cdp?.seen && look.cdp.value.state === 'ok' ? look.cdp.value.identity : undefined
  return {
    ...start,
    egress,
    browser,
    ...(stale === undefined ? {} : { notApplied: stale }),
    ...(identity === undefined ? {} : { identity }),
    ...(unwritable === undefined ? {} : { unwritable }),
  }
}

/**
 * The same look with the state of a failing browser's unit: whether a start can succeed and, where there is no process,
 * how the last one ended, which can lift the crash-loop guard and is kept with the attempt. A first look that asks for a
 * relaunch does without this systemctl call; the second look, which acts, has it.
 * @param asked the answer, where the question was put a moment ago; asked again while the unit has not ended
 */
export async function withUnit(
  t: Pick<Tick, 'p' | 'config' | 'registry'>,
  node: Node,
  observation: Observation,
  asked?: Promise<UnitState | undefined>,
): Promise<Observation> {
  if (observation.browser?.verdict.state !== 'unhealthy') return observation
  const early = await asked
  // systemd learns of an end a moment after /proc shows it; until then it does not know how it was.
  const ended = early !== undefined && ['inactive', 'failed'].includes(early.active)
  const unit = ended ? early : await browserUnit(node.name)
  const noStart = whyNoStart(t.p, node.name, unit)
  const { lookProgram } = await import('../changed-program.ts')
  return present({ ...observation, unit, noStart, program: lookProgram(t, unit?.program) })
}

/** The egress layer from probes that were made; looks closer only when none of them answered. */
async function askEgress(
  ctx: BrowserContext,
  node: Node,
  probes: Look<readonly FetchResult[]>,
): Promise<EgressVerdict> {
  // The usual case is settled here, so that a healthy tick loads nothing of the diagnosis.
  if (probes.seen && probes.value.some(answered) && !probes.value.some((r) => r.exitCode === 6)) return WORKS
  return (await import('../../egress/diagnose.ts')).diagnoseEgress(ctx, node, probes)
}

/** The look that decides, under the node lock; its question to systemd is put while the lock is taken. */
export function lookAgain(
  t: Pick<Tick, 'p' | 'config' | 'registry'>,
  node: Node,
  first: Observation,
  asked: Decision,
): (waited: boolean) => Promise<Observation> {
  const unit = asked.verdict.code === 'no-process' ? browserUnit(node.name) : undefined
  return async (waited) => {
    // A tunnel takes seconds to restart, and the look before it as long as a look may: one is enough.
    if (asked.actions[0]?.kind === 'restart-tunnel' && !waited) return first
    const seen = await withUnit(t, node, await observe(t, node), waited ? undefined : unit)
    return first.tunnelTried ? { ...seen, tunnelTried: true } : seen
  }
}
