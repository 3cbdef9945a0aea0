import { hostname } from 'node:os'
import { now } from '../../base/clock.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import { relaunchLocked } from '../../browser/relaunch.ts'
import { repairTunnel } from '../../egress/repair.ts'
import { askUplink } from '../../egress/uplink.ts'
import { pageUplink } from '../../egress/uplink-page.ts'
import { activeLocalNodes } from '../../registry/read.ts'
import { said } from '../../report/line.ts'
import { forFleet } from '../cannot-start.ts'
import { lookProgram } from '../changed-program.ts'
import type { Tick } from '../types.ts'
import { declined, relaunched } from './decide.ts'
import { beginAttempt, isQuickDeath, unrecorded } from './memory.ts'
import { observe } from './observe.ts'
import type { Acted, Done, Round } from './types.ts'

/** Carries out what the look under the lock asks for. A lock taken for the tunnel is none for the browser, and no deadline either. */
export async function act(t: Tick, node: Node, round: Round): Promise<Acted> {
  const { asked, decision, observation } = round
  const kind = decision.actions[0]?.kind
  if (asked.actions[0]?.kind === 'restart-tunnel') {
    return kind === 'restart-tunnel' ? tunnel(t, node, round) : { look: observation, actions: [] }
  }
  return kind === 'relaunch-browser' ? relaunch(t, node, round) : { decision, actions: [] }
}

/**
 * Decision D3 of CONTRACT.md: is it everybody's uplink? Else restart the tunnel once and look again. The browser is not touched here; the run
 * goes on with it only when egress is back.
 */
async function tunnel(t: Tick, node: Node, round: Round): Promise<Acted> {
  const { observation, decision } = round
  const others = activeLocalNodes(t.registry, hostname()).filter((n) => n.name !== node.name)
  const uplink = await askUplink(t, node, others)
  if (uplink.down) {
    pageUplink({ p: t.p, config: t.config, now: now(t.p), log: t.log }, uplink)
    const { reason, evidence } = uplink
    const egress = { state: 'unhealthy', code: 'uplink-down', reason, evidence, repair: false } as const
    return { look: { ...observation, egress }, actions: [] }
  }
  round.say(decision.lines.map((l) => ({ ...l, text: `${l.text}; restarting the tunnel` })))
  const { ok, text, evidence, verdict, startedWallMs, durationMs } = await repairTunnel(t, node)
  const code = ok ? 'tunnel-restart-ok' : 'tunnel-restart-failed'
  const action: ReceiptAction = {
    kind: 'restart-tunnel',
    startedWallMs,
    durationMs: Math.round(durationMs),
    helped: ok,
    code,
    detail: [text, ...evidence].join('; '),
  }
  if (ok) {
    round.say([{ level: 'INFO', code, text }])
    return { look: { ...(await observe(t, node)), tunnelTried: true }, actions: [action] }
  }
  const why = evidence.length > 0 ? ` (${evidence.join('; ')})` : ''
  const failed = { code, cause: verdict.code, text: `${text}: ${verdict.reason}${why}` } as const
  round.say(decision.lines.map(({ next = '' }) => ({ level: 'FAIL', ...failed, next })))
  return { look: { ...observation, egress: verdict, tunnelTried: true }, actions: [action] }
}

/** Relaunches the browser through the actuator that all supervisors share, with its attempt on record before that. */
async function relaunch(t: Tick, node: Node, round: Round): Promise<Done> {
  const { observation, decision } = round
  const { browser, unit } = observation
  if (!browser) throw new TypeError('a relaunch needs a look at the browser')
  let memory = decision.memory
  const startedWallMs = Date.now()
  const result = await relaunchLocked(t, node, browser, {
    why: decision.verdict.reason,
    deadline: t.deadline,
    ...(unit ? { unit } : {}),
    // Before anything is touched: a run that is killed in the attempt has used it up.
    begin: ({ how, detail }, alive) => {
      const at = now(t.p)
      const quickDeath = isQuickDeath(observation, memory, at, t.config)
      const ended = `${how}: ${detail}`
      const begun = beginAttempt(memory, at, { reason: decision.verdict.reason, ended, quickDeath })
      const problem = round.record(begun)
      if (problem !== undefined) {
        const { text, ...next } = problem
        const why = unrecorded(observation, memory, { problem: text, alive }, at, t.config)
        if (why !== undefined) return why
        const lost = said('state-not-kept', { why: `${text}: this attempt will not be remembered` })
        round.say([{ level: 'WARN', ...lost, ...next }])
      }
      memory = begun
      round.say(decision.lines)
      return undefined
    },
  })
  if (result.did === 'nothing') return { decision: declined(decision, node.name, result.why), actions: [] }
  const { ended, notes, reason, durationMs, judgement } = result
  const helped = result.did === 'ok'
  const action: ReceiptAction = {
    kind: 'relaunch-browser',
    startedWallMs,
    durationMs,
    helped,
    code: helped ? 'relaunch-ok' : 'relaunch-failed',
    detail: [`before: ${ended.how}, ${ended.detail}`, reason, ...notes].filter((s) => s !== '').join('; '),
  }
  const pid = judgement.process?.pid
  const last = relaunched(decision, memory, result, node.name, now(t.p), t.config)
  const { attempts } = last.memory
  const program = helped ? undefined : lookProgram(t, unit?.program, { node: node.name, attempts })
  return {
    decision: program === undefined ? last : { ...last, pages: forFleet(last.pages, program) },
    actions: [action],
    facts: pid === undefined ? {} : { browserPid: pid },
  }
}
