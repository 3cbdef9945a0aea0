import type { Note, ReviewKind } from '../../api/circuit.ts'
import type { Layer } from '../../base/types.ts'
import { type Code, text } from '../../report/codes.ts'
import { type Line, line, said } from '../../report/line.ts'
import type { Decision, Guard, HealthPolicy } from './decide.ts'

/** A duration in whole seconds or minutes: texts of this program need no more. */
export function spell(ms: number): string {
  const s = Math.round(ms / 1000)
  return s < 120 ? `${s}s` : `${Math.round(s / 60)}m`
}

/** What a review notice asks a person to consider (D4). */
export const REVIEW_TEXT: Readonly<Record<ReviewKind, string>> = {
  'trips-often':
    'the circuit opened more than twice in 7 days: perhaps too touchy (NETVM_API_STRIKES, NETVM_FUTILE_LIMIT)',
  'well-after-cooldown':
    'it sat out a whole cooldown and was well at once: perhaps too long (NETVM_CIRCUIT_COOLDOWN)',
  'reset-early': 'an operator closed it before its cooldown ended: perhaps too long (NETVM_CIRCUIT_COOLDOWN)',
}

/** The guard that stops a restart, in words. */
export function guardText(guard: Guard): string {
  switch (guard.kind) {
    case 'paused':
      return 'paused: watched, not acted on'
    case 'fresh':
      return `browser ${Math.floor(guard.ageMs / 1000)} s old, eligible in ${Math.ceil(guard.eligibleInMs / 1000)} s`
    case 'age-unknown':
      return `the browser's age cannot be told: ${guard.why}`
    case 'no-browser':
      return 'no browser process: chromebox-watchdog brings it back'
    case 'no-time':
      return 'too little time left in this run; the next one restarts it'
  }
}

/** What an open circuit means and where to look, for its line and its page. */
export function openText(
  node: { apiCheck: string; chatUrl: string },
  reason: string,
  policy: HealthPolicy,
): string {
  const what = node.apiCheck === '' ? 'the page itself' : node.apiCheck
  const futile = `${reason}, and ${policy.futileLimit} restarts in a row did not help`
  const then = `no restart for ${spell(policy.cooldownMs)}. Look at ${what}: its server, and the agent's login`
  return text('circuit-open', { what: `${futile}; ${then}` })
}

/** The command that shows what stands between this program and the API. */
function lookAt(node: string, code: string, layer: Layer | undefined): string {
  if (code === 'no-slot') return `cdp-queue depth ${node}`
  return layer === 'relay' ? `cdp-relay-watchdog --dry-run ${node}` : `chromebox-watchdog ${node} --why`
}

/** The lines of a look that restarted nothing. */
export function lookLines(
  node: string,
  decision: Decision,
  policy: HealthPolicy,
  /** The code of the verdict before this one, from its receipt. */
  before: string | undefined,
): Line[] {
  const { verdict, action, notes, memory } = decision
  const status = `agent-health status ${node}`
  if (verdict.state === 'unknown') {
    if (before === verdict.code) return []
    const next = lookAt(node, verdict.code, verdict.layer)
    return [{ level: 'WARN', text: `cannot tell: ${verdict.reason}`, code: verdict.code as Code, next }]
  }
  const lines: Line[] = noteLines(node, notes)
  if (verdict.state === 'healthy') return lines
  const { reason } = verdict
  const code = verdict.code as Code
  if (action.kind === 'held') {
    if (action.guard.kind === 'paused') return lines
    const why =
      action.guard.kind === 'fresh'
        ? text('fresh', { seconds: Math.floor(action.guard.ageMs / 1000) })
        : `not restarted: ${guardText(action.guard)}`
    lines.push({ level: 'WARN', text: `${reason}; ${why}`, code, next: status })
  } else if (notes.includes('struck')) {
    const struck = `${reason} (strike ${memory.strikes} of ${policy.strikeLimit})`
    lines.push({ level: 'FAIL', text: struck, code, next: status })
  } else if (decision.circuit !== 'closed' && before !== code) {
    lines.push({ level: 'FAIL', text: `${reason}; circuit ${decision.circuit}`, code, next: status })
  }
  return lines
}

/** Lines that a change of the circuit calls for by itself. */
export function noteLines(node: string, notes: readonly Note[]): Line[] {
  return notes.flatMap((note): Line[] => {
    if (note === 'closed') return [line('INFO', 'circuit-closed')]
    if (note in REVIEW_TEXT) {
      const review = said('circuit-review', { what: REVIEW_TEXT[note as ReviewKind] })
      return [{ level: 'WARN', ...review, next: `agent-health status ${node}` }]
    }
    return []
  })
}
