import { anchoredMs, backoffMs, certainMs, isAhead, type Moment, waitLeftMs } from '../../base/damping.ts'
import type { LayerMark, Now, Verdict } from '../../base/types.ts'
import { judgeNetns } from '../../netns/judge.ts'
import { type Code, text } from '../../report/codes.ts'
import { type Line, line, said } from '../../report/line.ts'
import type { PageKind } from '../../report/page.ts'
import { verdict as verdictOf } from '../../report/verdict.ts'
import { holdOf } from './memory.ts'
import type { Action, Decision, Guard, Memory, Observation, PageEvent, Policy } from './types.ts'

/**
 * What one look at a node means and what may be done about it. Pure.
 *
 * Order of attribution: paused → netns → egress → process → CDP → page. The first layer that fails,
 * or that could not be looked at, owns the verdict; nothing above it is acted on.
 */
export function decide(o: Observation, memory: Memory, now: Now, policy: Policy): Decision {
  const m = reanchor(memory, now, policy)
  if (o.paused) {
    const { paused: why, ...bare } = o
    return paused(why, m, decide(bare, m, now, policy))
  }
  const netns = judgeNetns(`warp-${o.node}`, o.netns)
  if (netns.state === 'unknown') return cannotTell(o, m, netns, [])
  if (netns.state === 'unhealthy') return netnsMissing(o, m, netns)
  const marks: LayerMark[] = [{ layer: 'netns', state: 'ok' }]
  const back = said('netns-recovered', { netns: `warp-${o.node}` })
  const pages: PageEvent[] = [{ kind: 'netns-fault', failing: false, ...back }]
  const egress = o.egress
  if (!egress || egress.state === 'unknown') {
    const unseen = verdictOf('egress-unseen', [], { why: 'not asked' })
    return cannotTell(o, m, egress ? { ...unseen, reason: egress.reason } : unseen, marks, pages)
  }
  if (egress.state === 'down' || egress.state === 'uplink-down') return egressDown(o, m, marks, pages)
  const note = egress.note === undefined ? {} : { note: egress.note }
  marks.push({ layer: 'egress', state: egress.state === 'ok' ? 'ok' : 'not-configured', ...note })
  pages.push({ kind: 'tunnel-fault', failing: false, ...said('tunnel-recovered') })
  return browserLayers(o, m, now, policy, marks, pages)
}

/** When the waits began: the end of the last attempt (its start, when it was cut short), and the loss of a state file. */
function waitsOf(m: Memory, policy: Policy): { readonly last?: Moment; readonly caution?: Moment } {
  const { bootId, last, notBeforeBootMs } = m
  return {
    ...(last && { last: { bootId, bootMs: last.endBootMs ?? last.startBootMs } }),
    ...(notBeforeBootMs !== undefined && {
      caution: { bootId, bootMs: notBeforeBootMs - policy.backoffMaxMs },
    }),
  }
}

/**
 * Memory of another boot keeps its counts and its hold, and its waits start again with this boot: a reboot must never
 * earn an attempt that the wait forbade. What is ahead of the clock starts again now.
 */
export function reanchor(m: Memory, now: Now, policy: Policy): Memory {
  const { last, caution } = waitsOf(m, policy)
  if (m.bootId === now.bootId && ![last, caution].some((began) => began && isAhead(began, now))) return m
  const { notBeforeBootMs: _n, last: _l, ...rest } = m
  const waits = m.failures > 0 || m.held !== undefined || m.quickDeaths > 0
  return {
    ...rest,
    bootId: now.bootId,
    // Without an end: what a reboot ended has not died by itself.
    ...(waits && last && { last: { startBootMs: anchoredMs(last, now) } }),
    ...(caution && { notBeforeBootMs: anchoredMs(caution, now) + policy.backoffMaxMs }),
  }
}

/** Milliseconds until a held node has its half-open attempt. A lower layer that failed since earns it one sooner. */
export function holdLeftMs(m: Memory, now: Now, policy: Policy): number {
  const { last } = waitsOf(m, policy)
  const waitMs = m.lowerFault === undefined ? policy.halfOpenMs : policy.backoffBaseMs
  return last === undefined ? 0 : waitLeftMs(last, waitMs, now)
}

/** What was seen is told as it is; nothing is done, paged, logged or remembered for it. */
function paused(why: { reason: string; by: string }, memory: Memory, beneath: Decision): Decision {
  const verdict = verdictOf('paused', [beneath.verdict.reason], why)
  return { verdict, layers: beneath.layers, actions: [], memory, pages: [], lines: [] }
}

function netnsMissing(o: Observation, m: Memory, verdict: Verdict): Decision {
  const next = `netvm-node-up ${o.node}`
  return {
    verdict,
    layers: fill([failed(verdict, verdict.evidence[0] ?? 'missing')]),
    actions: [],
    memory: lowerFault(m, 'netns'),
    pages: [failing('netns-fault', verdict)],
    lines: [{ level: 'FAIL_LOUD', code: 'netns-missing', text: withEvidence(verdict), next }],
  }
}

function egressDown(o: Observation, m: Memory, marks: LayerMark[], pages: PageEvent[]): Decision {
  const egress = o.egress as NonNullable<Observation['egress']>
  const uplink = egress.state === 'uplink-down'
  const verdict: Verdict = {
    state: 'unhealthy',
    layer: 'egress',
    code: egress.code,
    reason: egress.reason,
    evidence: egress.evidence,
  }
  const futile = egress.futile === true || o.tunnelTried === true
  const actions: Action[] =
    uplink || futile ? [] : [{ kind: 'restart-tunnel', reason: egress.reason, confirm: 'at-once' }]
  // Never as a browser fault; the uplink has a page of its own, one for the fleet.
  if (futile && !uplink) pages.push(failing('tunnel-fault', verdict))
  const next = uplink ? 'box fleet status' : `chromebox-watchdog ${o.node} --why`
  return {
    verdict,
    layers: fill([...marks, failed(verdict, egress.note ?? egress.reason)]),
    actions,
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
  const layers = fill([...below, ...browser.marks])
  if (verdict.state === 'unknown') return cannotTell(o, m, verdict, [...below, ...browser.marks], pages)
  if (verdict.state === 'healthy') return healthy(verdict, layers, m, pages)
  const held = holdOf(m, now, policy)
  const memory = held && !m.held ? { ...m, held } : m
  const guard = strictest(guards(o, memory, now, policy))
  const finding = withEvidence(verdict)
  const code = codeOf(verdict)
  if (held) {
    const what = said('held-down', { failures: m.failures, reason: verdict.reason })
    pages.push({ kind: 'browser-fault', failing: true, ...what })
  }
  if (guard) {
    if (guard.name === 'squatted' || guard.name === 'not-applied') {
      const what = guard.name === 'squatted' ? verdict.reason : `${verdict.reason}; ${guard.text}`
      pages.push({ kind: 'browser-fault', failing: true, code, text: what })
    }
    const ways = {
      held: `chromebox-watchdog release ${o.node}`,
      'not-applied': `ensure-node-supervision ${o.node}`,
    }
    const next = ways[guard.name as keyof typeof ways] ?? why(o.node)
    const lines: Line[] = [{ level: 'FAIL', code, text: `${finding}; ${guard.text}`, next }]
    return { verdict, layers, actions: [], guard, memory, pages, lines }
  }
  const action: Action = {
    kind: 'relaunch-browser',
    reason: verdict.reason,
    confirm: verdict.code === 'no-process' ? 'at-once' : 'after-delay',
    halfOpen: held !== undefined,
  }
  const doing = held ? 'half-open attempt: relaunching' : 'relaunching'
  const lines: Line[] = [{ level: 'FAIL', code, text: `${finding}; ${doing}`, next: why(o.node) }]
  return { verdict, layers, actions: [action], memory, pages, lines }
}

function healthy(verdict: Verdict, layers: readonly LayerMark[], m: Memory, pages: PageEvent[]): Decision {
  const { held, lowerFault: _l, notBeforeBootMs, ...rest } = m
  const stale = held ?? _l ?? notBeforeBootMs ?? (m.failures > 0 ? m.failures : undefined)
  pages.push({ kind: 'browser-fault', failing: false, ...said('browser-recovered') })
  const lines: Line[] = held ? [line('INFO', 'hold-closed')] : []
  const memory = stale === undefined ? m : { ...rest, failures: 0 }
  return { verdict, layers, actions: [], memory, pages, lines }
}

/** Every guard that stands in the way now, in the order in which people want to hear of them. */
export function guards(o: Observation, m: Memory, now: Now, policy: Policy): Guard[] {
  const found: Guard[] = []
  const browser = o.browser
  if (browser?.verdict.code === 'port-squatted') {
    found.push({ name: 'squatted', text: text('squatted') })
  }
  if (o.notApplied !== undefined) {
    found.push({ name: 'not-applied', text: text('not-applied', { what: o.notApplied }) })
  }
  const age = browser?.process?.ageMs
  if (age !== undefined && age < policy.freshBrowserMs) {
    const skip = text('fresh', { seconds: Math.floor(age / 1000) })
    found.push({ name: 'fresh', text: skip, eligibleInMs: policy.freshBrowserMs - age })
  }
  const { last, caution } = waitsOf(m, policy)
  const waitFrom = (waitMs: number) => (last === undefined ? 0 : waitLeftMs(last, waitMs, now))
  if (m.held) {
    const left = holdLeftMs(m, now, policy)
    if (left > 0) {
      const why = text('held', { failures: m.failures, wait: span(left) })
      found.push({ name: 'held', text: why, eligibleInMs: left })
    }
  } else if (m.failures > 0) {
    const left = waitFrom(backoffMs(m.failures, policy))
    const why = text('backoff', { failed: count(m.failures, 'failed relaunch'), wait: span(left) })
    if (left > 0) found.push({ name: 'backoff', text: why, eligibleInMs: left })
  }
  const cautious = caution === undefined ? 0 : waitLeftMs(caution, policy.backoffMaxMs, now)
  if (cautious > 0) {
    const why = text('cautious', { wait: span(cautious) })
    found.push({ name: 'cautious', text: why, eligibleInMs: cautious })
  }
  const quick = m.quickDeaths + (isQuickDeath(o, m, now, policy) ? 1 : 0)
  if (quick > policy.holdAfter) {
    const left = waitFrom(backoffMs(quick - policy.holdAfter, policy))
    const why = text('crash-loop', { times: quick, wait: span(left) })
    if (left > 0) found.push({ name: 'crash-loop', text: why, eligibleInMs: left })
  }
  return found
}

/** SIGKILL and SIGTERM. */
const FROM_OUTSIDE: ReadonlySet<number> = new Set([9, 15])

/**
 * True when the browser that the last attempt brought back ended by itself within the guard time. A
 * KILL or TERM from outside is no crash; a browser that answers and then dies every few seconds is.
 */
export function isQuickDeath(o: Observation, m: Memory, now: Now, policy: Policy): boolean {
  if (o.browser?.verdict.code !== 'no-process' || m.attempts.at(-1)?.result !== 'ok') return false
  const bootMs = m.last?.endBootMs
  if (bootMs === undefined || certainMs({ bootMs, bootId: m.bootId }, now) >= policy.freshBrowserMs)
    return false
  const ended = o.unit?.ended
  return !(ended?.how === 'signal' && FROM_OUTSIDE.has(ended.status ?? 0))
}

/** The guard that is told first, with the wait of the one that lasts longest. */
function strictest(all: readonly Guard[]): Guard | undefined {
  const first = all[0]
  if (!first) return undefined
  const { eligibleInMs: _e, ...bare } = first
  const waits = all.map((g) => g.eligibleInMs)
  return waits.includes(undefined) ? bare : { ...bare, eligibleInMs: Math.max(...(waits as number[])) }
}

function cannotTell(
  o: Observation,
  memory: Memory,
  verdict: Verdict,
  seen: readonly LayerMark[],
  pages: PageEvent[] = [],
): Decision {
  const last = seen.some((s) => s.state === 'unknown')
  const here: LayerMark[] =
    last || !verdict.layer
      ? []
      : [{ layer: verdict.layer, state: 'unknown', code: verdict.code, note: verdict.reason }]
  const told = `cannot tell: ${verdict.reason}`
  const lines: Line[] = [{ level: 'WARN', code: codeOf(verdict), text: told, next: why(o.node) }]
  return { verdict, layers: fill([...seen, ...here]), actions: [], memory, pages, lines }
}

function lowerFault(m: Memory, layer: 'netns' | 'egress'): Memory {
  return m.lowerFault === layer ? m : { ...m, lowerFault: layer }
}

function fill(marks: readonly LayerMark[]): LayerMark[] {
  const seen = new Set(marks.map((m) => m.layer))
  const all = ['netns', 'egress', 'process', 'cdp', 'page'] as const
  return [
    ...marks,
    ...all.filter((l) => !seen.has(l)).map((layer): LayerMark => ({ layer, state: 'not-checked' })),
  ]
}

const codeOf = (v: Verdict) => v.code as Code
const failing = (kind: PageKind, v: Verdict): PageEvent => ({
  kind,
  failing: true,
  code: codeOf(v),
  text: v.reason,
})

function failed({ layer, code }: Verdict, note: string): LayerMark {
  return { layer: layer ?? 'process', state: 'fail', code, note }
}

function withEvidence(v: Verdict): string {
  return v.evidence.length > 0 ? `${v.reason} (${v.evidence.join('; ')})` : v.reason
}

const why = (node: string) => `chromebox-watchdog ${node} --why`
const count = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 'es'}`

function span(ms: number): string {
  const s = Math.max(1, Math.ceil(ms / 1000))
  return s < 120 ? `${s}s` : `${Math.ceil(s / 60)}m`
}
