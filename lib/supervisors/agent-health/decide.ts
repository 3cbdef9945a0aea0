import {
  type CircuitMemory,
  type CircuitState,
  circuitState,
  cooldownLeftMs,
  type Note,
  type ReviewKind,
  stepCircuit,
} from '../../api/circuit.ts'
import type { Finding } from '../../api/judge.ts'
import { coarse } from '../../base/text.ts'
import type { LayerMark, Now, Verdict } from '../../base/types.ts'
import { type Code, text } from '../../report/codes.ts'
import { type Line, line, said } from '../../report/line.ts'
import { HEALTHY } from '../../report/verdict.ts'
import type { Facts, PageEvent } from '../types.ts'
import type { Decision, Guard, Observation, Policy, Restarted, SecondLook } from './types.ts'

/** What a review notice asks a person to consider (decision D4 of CONTRACT.md). */
export const REVIEW_TEXT: Readonly<Record<ReviewKind, string>> = {
  'trips-often':
    'the circuit opened more than twice in 7 days: perhaps it opens too easily (NETVM_API_STRIKES, NETVM_FUTILE_LIMIT)',
  'well-after-cooldown':
    'it sat out a whole cooldown and was healthy at once: perhaps too long (NETVM_CIRCUIT_COOLDOWN)',
  'reset-early': 'an operator closed it before its cooldown ended: perhaps too long (NETVM_CIRCUIT_COOLDOWN)',
}

const NO_BROWSER = { code: 'no-process', text: 'no browser process: chromebox-watchdog brings it back' }
const PAUSED = { code: 'paused', text: 'paused: watched, not acted on' }

const statusCommand = (node: string) => `agent-health status ${node}`

/** The guard that forbids a restart now, if there is one (decision D2 of CONTRACT.md: both supervisors keep it). */
function guardOf(look: Observation, policy: Policy): Guard | undefined {
  if (look.paused) return { ...PAUSED, held: { kind: 'paused' } }
  if (!look.browserAgeMs.seen) {
    const { why } = look.browserAgeMs
    const text = `the browser's age is not known: ${why}`
    return { code: 'process-unseen', text, held: { kind: 'age-unknown', why } }
  }
  const ageMs = look.browserAgeMs.value
  // A missing process is chromebox-watchdog's fault to act on; two owners would start it twice.
  if (ageMs === undefined) return { ...NO_BROWSER, held: { kind: 'no-browser' } }
  if (ageMs < policy.freshBrowserMs) {
    const eligibleInMs = policy.freshBrowserMs - ageMs
    const text = `browser ${Math.floor(ageMs / 1000)} s old, eligible in ${Math.ceil(eligibleInMs / 1000)} s`
    return { code: 'fresh', text, held: { kind: 'fresh', ageMs, eligibleInMs } }
  }
  const { leftMs = policy.restartNeedsMs } = policy
  if (leftMs >= policy.restartNeedsMs) return undefined
  const text = 'too little time left in this run; the next one restarts it'
  return { code: 'out-of-time', text, held: { kind: 'no-time', leftMs } }
}

/**
 * A page that is still loading fails like a broken one, and a paused node may be under somebody's hands:
 * such failures are reported, and not counted.
 */
function uncounted(look: Observation, policy: Policy): boolean {
  const age = look.browserAgeMs.seen ? look.browserAgeMs.value : undefined
  return look.paused !== undefined || (age !== undefined && age < policy.freshBrowserMs)
}

/**
 * What one look at a node leads to. Pure: no clock and no I/O. The second look, under the node lock, moves the circuit
 * only where it found the API healthy: it is no other failure.
 */
export function decide(look: Observation, before: CircuitMemory, now: Now, policy: Policy): Decision {
  const { finding, node } = look
  const verdict = verdictOf(finding, look.evidence)
  const marks = marksOf(verdict, finding)
  const restart = {
    actions: [{ kind: 'restart-browser', reason: verdict.reason }],
    confirm: 'at-once',
  } as const
  const found = (memory: CircuitMemory) => {
    const pages = pagesOf(node, verdict, memory, policy)
    return { verdict, marks, actions: [], memory, lines: [], pages }
  }
  if (look.again) {
    const guard = look.paused ? PAUSED : notOurs(look.again, policy)
    const planned = { ...found(before), ...restart }
    if (guard === undefined) return planned
    const refused = notRestarted(node.name, planned, guard)
    return look.again.finding?.kind === 'ok' ? healed(node, refused, guard, now, policy) : refused
  }
  const spared = finding.kind === 'failure' && uncounted(look, policy)
  const { memory, notes, wantsRestart } = stepCircuit(before, spared ? 'unknown' : finding.kind, now, policy)
  const wanted = finding.kind === 'failure' && (wantsRestart || spared)
  const guard = wanted ? guardOf(look, policy) : undefined
  const held = guard !== undefined && { guard }
  const decision = { ...found(memory), ...(wanted && !held && restart), ...held }
  return {
    ...decision,
    lines: linesOf(look, decision, { notes, circuit: circuitState(memory, now, policy) }, policy),
  }
}

export function verdictOf(finding: Finding, evidence: readonly string[]): Verdict {
  if (finding.kind === 'ok') return { ...HEALTHY, evidence }
  const { code, reason } = finding
  if (finding.kind === 'unknown') return { state: 'unknown', layer: finding.layer, code, reason, evidence }
  return { state: 'unhealthy', layer: 'api', code, reason, evidence }
}

function marksOf(verdict: Verdict, finding: Finding): LayerMark[] {
  const { code, reason: note, layer = 'api' } = verdict
  if (finding.kind === 'ok') return [{ layer: 'api', state: 'ok' }]
  if (finding.kind === 'failure') return [{ layer: 'api', state: 'fail', code, note }]
  const { below } = finding
  const seen: LayerMark = below ? { layer, state: 'fail', ...below } : { layer, state: 'unknown', code, note }
  return layer === 'api' ? [seen] : [seen, { layer: 'api', state: 'not-checked' }]
}

/** The command that shows what stands between this program and the API. */
function lookAt(node: string, { code, layer }: Verdict): string {
  if (code === 'no-slot') return `cdp-queue depth ${node}`
  return layer === 'relay' ? `cdp-relay-watchdog --dry-run ${node}` : `chromebox-watchdog ${node} --why`
}

/** What is said of a look, before any restart. */
function linesOf(
  look: Observation,
  { verdict, guard, memory }: Decision,
  { notes, circuit }: { readonly notes: readonly Note[]; readonly circuit: CircuitState },
  policy: Policy,
): Line[] {
  const { name } = look.node
  const { state, reason } = verdict
  const code = verdict.code as Code
  const repeated = look.last?.verdict.code === code
  if (state === 'unknown') {
    const lost = { level: 'WARN', text: `unknown: ${reason}`, code, next: lookAt(name, verdict) } as const
    return repeated ? [] : [lost]
  }
  const changed = noteLines(name, notes)
  if (state === 'healthy' || guard?.code === 'paused') return changed
  const fault = (level: 'WARN' | 'FAIL', text: string): Line[] => [
    ...changed,
    { level, text, code, next: statusCommand(name) },
  ]
  if (guard !== undefined) return fault('WARN', `${reason}; ${refusal(guard)}`)
  if (notes.includes('struck'))
    return fault('FAIL', `${reason} (strike ${memory.strikes} of ${policy.strikeLimit})`)
  return circuit !== 'closed' && !repeated ? fault('FAIL', `${reason}; circuit ${circuit}`) : changed
}

function refusal({ held, text: words }: Guard): string {
  if (held?.kind !== 'fresh') return `not restarted: ${words}`
  return text('fresh', { seconds: Math.floor(held.ageMs / 1000) })
}

/** Lines that a change of the circuit calls for, whatever was looked at. */
function noteLines(node: string, notes: readonly Note[]): Line[] {
  return notes.flatMap((note): Line[] => {
    if (note === 'closed') return [line('INFO', 'circuit-closed')]
    if (!(note in REVIEW_TEXT)) return []
    const review = said('circuit-review', { what: REVIEW_TEXT[note as ReviewKind] })
    return [{ level: 'WARN', ...review, next: statusCommand(node) }]
  })
}

type Asked = Observation['node']

/** What an open circuit means and where to look, for its line and its page. */
function openText({ apiCheck }: Asked, reason: string, policy: Policy): string {
  const what = apiCheck === '' ? 'the page itself' : apiCheck
  const futile = `${reason}, and ${policy.futileLimit} restarts in a row did not help`
  const then = `no restart for ${coarse(policy.cooldownMs)}. Look at ${what}: its server, and the agent's login`
  return text('circuit-open', { what: `${futile}; ${then}` })
}

/** Paged while the circuit is open, recovered when the API is healthy. */
function pagesOf(
  node: Asked,
  { state, code, reason }: Verdict,
  memory: CircuitMemory,
  policy: Policy,
): PageEvent[] {
  const kind = 'api-fault'
  if (state === 'healthy') return [{ kind, failing: false, ...said('api-recovered') }]
  if (state === 'unknown' || memory.openedAt === null) return []
  const open = { code: 'circuit-open', cause: code, text: openText(node, reason, policy) } as const
  return [{ kind, failing: true, ...open, next: statusCommand(node.name) }]
}

/**
 * Why the browser is not to be restarted after all: the fault must still be the API's, in a browser that is otherwise
 * healthy. Without a finding it says whether the API is worth asking again. Pure.
 * @returns undefined when nothing speaks against it
 */
export function notOurs({ judgement, finding }: SecondLook, policy: Policy): Guard | undefined {
  const { verdict, process } = judgement
  if (process === undefined) return NO_BROWSER
  const { state, code, reason } = verdict
  if (state !== 'healthy') return { code, text: `${reason}: chromebox-watchdog's to repair` }
  if (process.ageMs < policy.freshBrowserMs) {
    return { code: 'fresh', text: text('fresh', { seconds: Math.floor(process.ageMs / 1000) }) }
  }
  if (finding?.kind === 'ok') return { code: 'api-recovered', text: 'a second look found the API healthy' }
  if (finding?.kind !== 'unknown') return undefined
  return { code: finding.code, text: `the second look saw nothing: ${finding.reason}` }
}

/** A restart that was decided and is not made. */
export function notRestarted(node: string, { confirm: _, ...planned }: Decision, guard: Guard): Decision {
  const { reason, code } = planned.verdict
  const text = `${reason}; not restarted: ${guard.text}`
  const warning = { level: 'WARN', text, code: code as Code, next: statusCommand(node) } as const
  return { ...planned, guard, actions: [], lines: [warning] }
}

/** A second look that found the API healthy is the newest there is: it ends the strikes. */
function healed(node: Asked, refused: Decision, guard: Guard, now: Now, policy: Policy): Decision {
  const { memory, notes } = stepCircuit(refused.memory, 'ok', now, policy)
  const verdict = { ...HEALTHY, evidence: [`${refused.verdict.reason}; ${guard.text}`] }
  return {
    ...refused,
    verdict,
    marks: [{ layer: 'api', state: 'ok' }],
    memory,
    lines: [...refused.lines, ...noteLines(node.name, notes)],
    pages: pagesOf(node, verdict, memory, policy),
  }
}

/** What is so after a restart that `begun` has counted as futile: only a good look takes that back. */
export function settleRestart(
  node: Asked,
  planned: Decision,
  begun: CircuitMemory,
  { finding, durationMs }: Restarted,
  now: Now,
  policy: Policy,
): Decision {
  const { reason, code } = planned.verdict
  const helped = finding.kind === 'ok'
  const { memory, notes } = stepCircuit(begun, helped ? 'restart-helped' : 'restart-futile', now, policy)
  const end = (verdict: Verdict, lines: readonly Line[]): Decision => ({
    ...planned,
    verdict,
    marks: helped ? [{ layer: 'api', state: 'ok' }] : planned.marks,
    memory,
    lines: [...lines, ...noteLines(node.name, notes)],
    pages: pagesOf(node, verdict, memory, policy),
  })
  if (helped) {
    const ok = line('INFO', 'api-restart-ok', { took: coarse(durationMs), detail: `${reason} is gone` })
    return end({ ...HEALTHY, evidence: [`${reason}; ${ok.text}`] }, [ok])
  }
  const then = { cause: code, next: statusCommand(node.name) }
  const count = `futile restart ${memory.futile} in a row, ${policy.futileLimit} open the circuit`
  const futile = said('api-restart-futile', { detail: finding.reason, count })
  const lines: Line[] = [{ level: 'FAIL', ...futile, ...then }]
  const wait = coarse(policy.cooldownMs)
  const reopened = `${reason}; the half-open restart did not help, no restart for ${wait}`
  if (notes.includes('tripped'))
    lines.push({ level: 'FAIL_LOUD', code: 'circuit-open', text: openText(node, reason, policy), ...then })
  else if (notes.includes('reopened'))
    lines.push({ level: 'FAIL_LOUD', ...said('circuit-reopened', { what: reopened }), ...then })
  const evidence = [...planned.verdict.evidence, `still down after restart: ${finding.reason}`]
  return end({ ...planned.verdict, evidence }, lines)
}

/** What a receipt keeps beside the verdict. */
export function factsOf(memory: CircuitMemory, now: Now, policy: Policy): Facts {
  const { strikes, futile } = memory
  const left = cooldownLeftMs(memory, now, policy)
  const probe = left > 0 ? { nextProbeBootMs: now.bootMs + left } : {}
  return { circuit: circuitState(memory, now, policy), strikes, futile, ...probe }
}
