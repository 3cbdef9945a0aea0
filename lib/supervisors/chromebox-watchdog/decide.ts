import type { LayerMark, Now, Verdict } from '../../base/types.ts'
import type { RelaunchResult } from '../../browser/relaunch.ts'
import { PROFILE_IN_USE } from '../../browser/singleton.ts'
import type { EgressVerdict } from '../../egress/types.ts'
import { type Ended, signalName } from '../../host/systemd.ts'
import { judgeNetns } from '../../netns/judge.ts'
import { type Code, text } from '../../report/codes.ts'
import { type Line, line, said } from '../../report/line.ts'
import type { PageKind } from '../../report/page.ts'
import { verdict as verdictOf } from '../../report/verdict.ts'
import { forFleet, unwritable, whyNot } from '../cannot-start.ts'
import type { PageEvent } from '../types.ts'
import { endAttempt, holdOf, isQuickDeath, lowerFault, reanchor, waits } from './memory.ts'
import type { Action, Attempt, Decision, Guard, Memory, Observation, Policy } from './types.ts'
import { NEEDS_PERSON } from './types.ts'

/**
 * What one look at a node means and what may be done about it. Pure.
 *
 * Order of attribution: paused → netns → egress → process → CDP → page. The first layer that fails,
 * or that could not be looked at, owns the verdict; nothing above it is acted on.
 */
export function decide(o: Observation, memory: Memory, now: Now, policy: Policy): Decision {
  const m = reanchor(memory, now, policy)
  const found = layers(o, m, now, policy)
  if (o.paused) return paused(o.paused, m, found)
  const confirm = secondLook(m, found)
  return confirm === undefined ? found : { ...found, confirm }
}

/** What was seen is reported as it is; nothing is done, logged or remembered for it, and nothing of this node is paged. */
function paused(why: { reason: string; by: string }, memory: Memory, beneath: Decision): Decision {
  const verdict = verdictOf('paused', [beneath.verdict.reason], why)
  const pages = beneath.pages.filter((e) => e.kind === 'uplink-fault' && e.of === 'fleet')
  return { verdict, marks: beneath.marks, actions: [], memory, pages, lines: [] }
}

/** Who gets a second look under the node lock, and when. */
function secondLook(m: Memory, { actions, verdict }: Decision): Decision['confirm'] {
  // A slow answer gets a moment; a dead process or tunnel does not come back.
  if (actions[0]?.kind === 'relaunch-browser')
    return verdict.code === 'no-process' ? 'at-once' : 'after-delay'
  if (actions.length > 0) return 'at-once'
  // It is paged, and a node-up may be making it.
  if (verdict.code === 'netns-missing') return 'after-delay'
  // An attempt without an end is another run's, still at it, or was cut short: only the lock tells which.
  const underWay = m.attempts.at(-1)?.result === 'pending'
  return underWay && verdict.state === 'unhealthy' ? 'at-once' : undefined
}

function layers(o: Observation, m: Memory, now: Now, policy: Policy): Decision {
  const netns = judgeNetns(`warp-${o.node}`, o.netns)
  if (netns.state === 'unknown') return cannotTell(o, m, netns, [])
  if (netns.state === 'unhealthy') return netnsMissing(o, m, netns)
  const marks: LayerMark[] = [{ layer: 'netns', state: 'ok' }]
  const pages = [over('netns-fault', said('netns-recovered', { netns: `warp-${o.node}` }))]
  const { egress } = o
  if (!egress || egress.state === 'unknown') {
    const unseen = verdictOf('egress-unseen', [], { why: 'not asked' })
    return cannotTell(o, m, egress ? { ...unseen, reason: egress.reason } : unseen, marks, pages)
  }
  if (egress.state === 'unhealthy') return egressDown(o, egress, m, marks, pages)
  const note = egress.note === undefined ? {} : { note: egress.note }
  marks.push({ layer: 'egress', state: egress.state === 'healthy' ? 'ok' : 'not-configured', ...note })
  // Half of the fleet may still be cut off: each of its runs says so again, which starts the recovery's wait anew.
  if (egress.state === 'healthy')
    pages.push({ ...over('uplink-fault', said('uplink-recovered')), of: 'fleet' })
  pages.push(over('tunnel-fault', said('tunnel-recovered')))
  return browserLayers(o, m, now, policy, marks, pages)
}

function netnsMissing(o: Observation, m: Memory, verdict: Verdict): Decision {
  const next = `netvm-node-up ${o.node}`
  return {
    verdict,
    marks: fill([failed(verdict, verdict.evidence[0] ?? 'missing')]),
    actions: [],
    memory: lowerFault(m, 'netns'),
    pages: [failing('netns-fault', verdict)],
    lines: [{ level: 'FAIL_LOUD', code: 'netns-missing', text: withEvidence(verdict), next }],
  }
}

function egressDown(
  o: Observation,
  egress: EgressVerdict,
  m: Memory,
  marks: LayerMark[],
  pages: PageEvent[],
): Decision {
  const { code, reason, evidence } = egress
  const uplink = code === 'uplink-down'
  const verdict: Verdict = { state: 'unhealthy', layer: 'egress', code, reason, evidence }
  const repairable = egress.repair && !o.tunnelTried
  // Never as a browser fault; the uplink has a page of its own, one for the fleet.
  if (!repairable && !uplink) pages.push(failing('tunnel-fault', verdict))
  const next = uplink ? 'box fleet status' : why(o.node)
  return {
    verdict,
    marks: fill([...marks, failed(verdict, egress.note ?? reason)]),
    actions: repairable ? [{ kind: 'restart-tunnel', reason }] : [],
    memory: lowerFault(m, 'egress'),
    pages,
    lines: [{ level: 'FAIL', code: codeOf(verdict), text: withEvidence(verdict), next }],
  }
}

function browserLayers(
  o: Observation,
  m: Memory,
  now: Now,
  policy: Policy,
  below: LayerMark[],
  pages: PageEvent[],
): Decision {
  const browser = o.browser
  if (!browser) return cannotTell(o, m, verdictOf('browser-not-asked', []), below, pages)
  const { verdict } = browser
  const seen = [...below, ...browser.marks]
  if (verdict.state === 'unknown') return cannotTell(o, m, verdict, seen, pages)
  const marks = fill(seen)
  if (verdict.state === 'healthy') {
    const well = healthy(verdict, marks, m, pages)
    return o.unwritable === undefined ? well : unwritable(o.node, o.unwritable, well)
  }
  const held = holdOf(m, now, policy)
  const memory = held && !m.held ? { ...m, held } : m
  const guard = strictest(guards(o, memory, now, policy))
  const code = codeOf(verdict)
  if (held) {
    const what = said('held-down', { failures: m.failures, reason: verdict.reason })
    pages.push({ kind: 'browser-fault', failing: true, ...what })
  }
  const toPage = () => (o.program === undefined ? pages : forFleet(pages, o.program))
  const fail = (then: string, next: string): Line[] => [
    { level: 'FAIL', code, text: `${withEvidence(verdict)}; ${then}`, next },
  ]
  if (guard) {
    if (NEEDS_PERSON.has(guard.code)) {
      const says = guard.code === 'squatted' || guard.code === 'refuses'
      const what = says ? verdict.reason : `${verdict.reason}; ${guard.text}`
      pages.push({ kind: 'browser-fault', failing: true, code, text: what })
    }
    const ways: Partial<Record<Guard['code'], string>> = {
      held: release(o.node),
      'not-applied': `ensure-node-supervision ${o.node}`,
    }
    const lines = fail(guard.text, ways[guard.code] ?? why(o.node))
    return { verdict, marks, actions: [], guard, memory, pages: toPage(), lines }
  }
  const action: Action = {
    kind: 'relaunch-browser',
    reason: verdict.reason,
    halfOpen: held !== undefined,
  }
  const lines = fail(held ? 'half-open attempt: relaunching' : 'relaunching', why(o.node))
  return { verdict, marks, actions: [action], memory, pages: toPage(), lines }
}

function healthy(verdict: Verdict, marks: readonly LayerMark[], m: Memory, pages: PageEvent[]): Decision {
  const { held, lowerFault: _l, notBeforeBootMs, ...rest } = m
  const stale = held ?? _l ?? notBeforeBootMs ?? (m.failures > 0 ? m.failures : undefined)
  pages.push(over('browser-fault', said('browser-recovered')))
  // Where others still fail for it, each of their runs reports that, which starts the recovery's wait anew.
  pages.push({ ...over('browser-fault', said('program-recovered')), of: 'fleet' })
  const lines: Line[] = held ? [line('INFO', 'hold-closed')] : []
  const memory = stale === undefined ? m : { ...rest, failures: 0 }
  return { verdict, marks, actions: [], memory, pages, lines }
}

/** Every guard that stands in the way now, in the order in which people want to hear of them. */
function guards(o: Observation, m: Memory, now: Now, policy: Policy): Guard[] {
  const found: Guard[] = []
  if (o.browser?.verdict.code === 'port-squatted') found.push({ code: 'squatted', text: text('squatted') })
  if (o.browser?.verdict.code === 'cdp-refuses') found.push({ code: 'refuses', text: text('refuses') })
  if (o.notApplied !== undefined)
    found.push({ code: 'not-applied', text: text('not-applied', { what: o.notApplied }) })
  const age = o.browser?.process?.ageMs
  const cannot = whyNot(o)
  if (cannot !== undefined) found.push({ code: 'cannot-start', text: text('cannot-start', { why: cannot }) })
  if (age !== undefined && age < policy.freshBrowserMs) {
    const skip = text('fresh', { seconds: Math.floor(age / 1000) })
    found.push({ code: 'fresh', text: skip, eligibleInMs: policy.freshBrowserMs - age })
  }
  const quick = m.quickDeaths + (isQuickDeath(o, m, now, policy) ? 1 : 0)
  return [...found, ...waits(m, quick, now, policy)]
}

/** The guard that people hear of first, with the wait of the one that lasts longest. */
function strictest(all: readonly Guard[]): Guard | undefined {
  const first = all[0]
  if (!first) return undefined
  const { eligibleInMs: _e, ...bare } = first
  const left = all.map((g) => g.eligibleInMs)
  return left.includes(undefined) ? bare : { ...bare, eligibleInMs: Math.max(...(left as number[])) }
}

/** How the browser that an attempt started ended; one that refused its profile would only do so again. */
function endOf(died: Ended | undefined): Pick<Attempt, 'died' | 'final'> {
  if (died === undefined) return {}
  const { how, detail, status = 0 } = died
  const refused = how === 'exit-code' && status === PROFILE_IN_USE
  return { died: how === 'signal' ? signalName(status) : detail, ...(refused && { final: true }) }
}

/** The actuator looked once more and left the browser alone: too fresh, too little time left, no record. */
export function declined(found: Decision, node: string, reason: string): Decision {
  const words = `${found.verdict.reason}; ${reason}`
  return { ...found, lines: [{ level: 'FAIL', code: codeOf(found.verdict), text: words, next: why(node) }] }
}

export type Relaunched = Exclude<RelaunchResult, { did: 'nothing' }>

/**
 * What a relaunch, recorded as `begun`, leads to: verdict and layers are those of its own last look. A hold is news of
 * its own even while the browser's fault is paged already: nothing but the half-open attempts happens from there on.
 */
export function relaunched(
  found: Decision,
  begun: Memory,
  result: Relaunched,
  node: string,
  now: Now,
  policy: Policy,
): Decision {
  const { verdict } = result.judgement
  const below = found.marks.filter((l) => l.layer === 'netns' || l.layer === 'egress')
  const seconds = Math.max(1, Math.round(result.durationMs / 1000))
  const ok = result.did === 'ok'
  const memory = endAttempt(begun, now, { ok, detail: result.reason, seconds, ...endOf(result.died) }, policy)
  const rest = found.pages.filter((e) => e.kind !== 'browser-fault')
  const after = { ...found, verdict, marks: [...below, ...result.judgement.marks], memory }
  const notes = result.notes.length > 0 ? ` (${result.notes.join('; ')})` : ''
  const { how, detail } = result.ended
  if (ok) {
    const was = how === 'unknown' ? '' : `, the previous one ended: ${detail}`
    const closed = begun.held ? ', hold-down closed' : ''
    const back = said('relaunch-ok', { seconds })
    const helped: Line = { level: 'INFO', ...back, text: `${back.text}${was}${closed}${notes}` }
    return { ...after, lines: [helped], pages: [over('browser-fault', back), ...rest] }
  }
  const { reason } = result
  const words = `${reason}; the previous one: ${how}, ${detail}${notes}`
  const failed = { ...said('relaunch-failed', { reason: words }), cause: verdict.code, next: why(node) }
  const lines: Line[] = [{ level: 'FAIL', ...failed }]
  const paged = { kind: 'browser-fault', failing: true } as const
  if (!memory.held) return { ...after, lines, pages: [{ ...paged, ...failed }, ...rest] }
  const down = { ...said('held-down', { failures: memory.failures, reason }), next: release(node) }
  const news = begun.held ? {} : { news: 'held' }
  const pages = [{ ...paged, ...down, ...news }, ...rest]
  return { ...after, lines: [...lines, { level: 'FAIL', ...down }], pages }
}

function cannotTell(
  o: Observation,
  memory: Memory,
  verdict: Verdict,
  seen: readonly LayerMark[],
  pages: PageEvent[] = [],
): Decision {
  const { layer, code, reason: note } = verdict
  const marked = !layer || seen.some((s) => s.state === 'unknown')
  const marks = fill(marked ? seen : [...seen, { layer, state: 'unknown', code, note }])
  const line: Line = { level: 'WARN', code: codeOf(verdict), text: `unknown: ${note}`, next: why(o.node) }
  return { verdict, marks, actions: [], memory, pages, lines: [line] }
}

function fill(marks: readonly LayerMark[]): LayerMark[] {
  const seen = new Set(marks.map((m) => m.layer))
  const all = ['netns', 'egress', 'process', 'cdp', 'page'] as const
  const unseen = all.filter((l) => !seen.has(l))
  return [...marks, ...unseen.map((layer): LayerMark => ({ layer, state: 'not-checked' }))]
}

const codeOf = (v: Verdict) => v.code as Code
const failing = (kind: PageKind, v: Verdict): PageEvent => ({
  kind,
  failing: true,
  code: codeOf(v),
  text: v.reason,
})
const over = (kind: PageKind, back: Pick<Line, 'code' | 'text'>): PageEvent => ({
  kind,
  failing: false,
  ...back,
})

function failed({ layer, code }: Verdict, note: string): LayerMark {
  return { layer: layer ?? 'process', state: 'fail', code, note }
}

function withEvidence(v: Verdict): string {
  return v.evidence.length > 0 ? `${v.reason} (${v.evidence.join('; ')})` : v.reason
}

const why = (node: string) => `chromebox-watchdog ${node} --why`
const release = (node: string) => `chromebox-watchdog release ${node}`
