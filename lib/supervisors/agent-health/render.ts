import { type CircuitMemory, circuitState, cooldownLeftMs, WEEK_MS } from '../../api/circuit.ts'
import { wallIso } from '../../base/clock.ts'
import type { Paths } from '../../base/paths.ts'
import { clean, coarse, seconds } from '../../base/text.ts'
import type { Node, Now } from '../../base/types.ts'
import type { Style } from '../../cli/cli.ts'
import { readReceipt } from '../../store/receipts.ts'
import { REVIEW_TEXT } from './decide.ts'
import { loadMemory } from './memory.ts'
import type { Guard, Outcome, Policy } from './types.ts'

const SIGNS = { healthy: '✓', unhealthy: '✗', unknown: '?' } as const

/** One line per node: mark, finding, circuit, what was done or what would be. */
export function renderText(outcomes: readonly Outcome[], dryRun: boolean, s: Style): string[] {
  const paint = { healthy: s.green, unhealthy: s.red, unknown: s.yellow }
  const width = Math.max(0, ...outcomes.map((o) => o.node.length))
  if (outcomes.length === 0) return ['no active row for this host']
  return outcomes.map((o) => {
    const { state } = o.decision.verdict
    return `${o.node.padEnd(width)}  api ${paint[state](SIGNS[state])}  ${clean(sentence(o, dryRun), 600)}`
  })
}

function sentence(o: Outcome, dryRun: boolean): string {
  const { node, decision, receipt } = o
  const { state, reason } = decision.verdict
  const parts = [state === 'healthy' ? 'ok' : reason]
  if (state === 'unknown') parts[0] = `unknown: ${reason}`
  if (receipt.extra.circuit !== 'closed') parts.push(`circuit ${receipt.extra.circuit}`)
  const guard = decision.guard?.text
  if (guard !== undefined) {
    parts.push(dryRun ? `would restart the browser; ${guard}` : `not restarted: ${guard}`)
  } else if (dryRun) {
    const restart = decision.actions.length > 0
    parts.push(restart ? 'would restart the browser, after a second look' : 'would do nothing')
  }
  for (const a of o.actions) {
    parts.push(`${a.kind} ${a.helped ? 'helped' : 'did NOT help'} in ${seconds(a.durationMs)}`)
  }
  if (state !== 'healthy') parts.push(`next: agent-health status ${node}`)
  return parts.join('; ')
}

/** The receipts, each with what the run decided. */
export function renderJson(outcomes: readonly Outcome[]): string {
  return JSON.stringify(
    outcomes.map((o) => ({ ...o.receipt, decided: decidedOf(o) })),
    null,
    2,
  )
}

/** What the first look led to, whatever the second one made of it. */
function decidedOf({ observation, found }: Outcome) {
  const [action] = found.actions
  if (action !== undefined) return action
  const guard: Guard | undefined = found.guard
  if (guard?.held !== undefined) return { kind: 'held', guard: guard.held }
  const { finding } = observation ?? {}
  if (guard === undefined || finding?.kind !== 'failure') return { kind: 'none' }
  return { kind: 'restart-browser', reason: finding.reason }
}

/** What `agent-health status --json` reports of one node. */
type NodeStatus = ReturnType<typeof statusOf>

/** Reads what is on disk; looks at no browser. */
export function statusOf(p: Paths, node: Node, at: Now, policy: Policy) {
  const memory: CircuitMemory = loadMemory(p, node.name, at, policy)
  const circuit = circuitState(memory, at, policy)
  const recent = (wallMs: number) => Math.abs(at.wallMs - wallMs) <= WEEK_MS
  const receipt = readReceipt(p, 'agent-health', node.name)
  const last = receipt.seen ? receipt.value : undefined
  return {
    node: node.name,
    circuit,
    /** When the circuit last opened or closed, RFC 3339; null when it never did. */
    since: memory.changedWallMs === 0 ? null : wallIso(memory.changedWallMs),
    strikes: memory.strikes,
    strikeLimit: policy.strikeLimit,
    futile: memory.futile,
    futileLimit: policy.futileLimit,
    /** Milliseconds until the half-open probe; null while closed. */
    nextProbeInMs: circuit === 'closed' ? null : cooldownLeftMs(memory, at, policy),
    trips7d: memory.trips.filter(recent).length,
    reviews: memory.reviews
      .filter((r) => recent(r.wallMs))
      .map((r) => ({ kind: r.kind, at: wallIso(r.wallMs), text: REVIEW_TEXT[r.kind] })),
    /** The last run's finding: `ok`, or its reason; null when no run has left a receipt. */
    last: last
      ? {
          state: last.verdict.state,
          reason: last.verdict.state === 'healthy' ? 'ok' : clean(last.verdict.reason),
          at: wallIso(last.at.wallMs),
        }
      : null,
  }
}

/** The same for people: one line per node, and more where there is more to say. */
export function statusText(list: readonly NodeStatus[]): string[] {
  if (list.length === 0) return ['no active row for this host']
  const width = Math.max(...list.map((s) => s.node.length))
  return list.flatMap((s) => {
    const counts = `strikes ${s.strikes}/${s.strikeLimit}, futile restarts ${s.futile}/${s.futileLimit}, trips in 7 days ${s.trips7d}`
    const last = s.last === null ? 'no run yet' : `last run ${s.last.at}: ${s.last.reason}`
    const lines = [`${s.node.padEnd(width)}  circuit ${s.circuit}, ${counts}; ${last}`]
    const pad = ' '.repeat(width + 2)
    if (s.circuit === 'open') {
      lines.push(
        `${pad}open since ${s.since}: restarts do not help; next probe in ${coarse(s.nextProbeInMs ?? 0)}`,
        `${pad}look at the API's own server and the agent's login; next: agent-health reset ${s.node}`,
      )
    } else if (s.circuit === 'half-open') {
      lines.push(`${pad}open since ${s.since}: the next run may restart once; next: agent-health ${s.node}`)
    }
    lines.push(...s.reviews.map((r) => `${pad}review (${r.at}): ${r.text}`))
    return lines
  })
}
