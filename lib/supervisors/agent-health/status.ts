import { type CircuitMemory, type CircuitState, circuitState, cooldownLeftMs } from '../../api/circuit.ts'
import { wallIso } from '../../base/clock.ts'
import type { Paths } from '../../base/paths.ts'
import { clean } from '../../base/text.ts'
import type { Node, Now } from '../../base/types.ts'
import { readReceipt } from '../../store/receipts.ts'
import type { HealthPolicy } from './decide.ts'
import { REVIEW_TEXT, spell } from './lines.ts'
import { loadMemory } from './memory.ts'

const WEEK_MS = 7 * 24 * 3600 * 1000

/** What `agent-health status --json` tells of one node. */
export interface NodeStatus {
  readonly node: string
  readonly circuit: CircuitState
  /** When the circuit last opened or closed, RFC 3339; null when it never did. */
  readonly since: string | null
  readonly strikes: number
  readonly strikeLimit: number
  readonly futile: number
  readonly futileLimit: number
  /** Milliseconds until the half-open probe; null while closed. */
  readonly nextProbeInMs: number | null
  readonly trips7d: number
  readonly reviews: readonly { readonly kind: string; readonly at: string; readonly text: string }[]
  /** The last run's finding: `ok`, or its reason; null when no run has left a receipt. */
  readonly last: { readonly state: string; readonly reason: string; readonly at: string } | null
}

/** Reads what is on disk; looks at no browser. */
export function statusOf(p: Paths, node: Node, at: Now, policy: HealthPolicy): NodeStatus {
  const memory: CircuitMemory = loadMemory(p, node.name, at, policy).value
  const circuit = circuitState(memory, at, policy)
  const recent = (wallMs: number) => Math.abs(at.wallMs - wallMs) <= WEEK_MS
  const receipt = readReceipt(p, 'agent-health', node.name)
  const last = receipt.seen ? receipt.value : undefined
  return {
    node: node.name,
    circuit,
    since: memory.changedWallMs === 0 ? null : wallIso(memory.changedWallMs),
    strikes: memory.strikes,
    strikeLimit: policy.strikeLimit,
    futile: memory.futile,
    futileLimit: policy.futileLimit,
    nextProbeInMs: circuit === 'closed' ? null : cooldownLeftMs(memory, at, policy),
    trips7d: memory.trips.filter(recent).length,
    reviews: memory.reviews
      .filter((r) => recent(r.wallMs))
      .map((r) => ({ kind: r.kind, at: wallIso(r.wallMs), text: REVIEW_TEXT[r.kind] })),
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
        `${pad}open since ${s.since}: restarts do not help; next probe in ${spell(s.nextProbeInMs ?? 0)}`,
        `${pad}look at the API's own server and the agent's login; next: agent-health reset ${s.node}`,
      )
    } else if (s.circuit === 'half-open') {
      lines.push(`${pad}open since ${s.since}: the next run may restart once; next: agent-health ${s.node}`)
    }
    lines.push(...s.reviews.map((r) => `${pad}review (${r.at}): ${r.text}`))
    return lines
  })
}
