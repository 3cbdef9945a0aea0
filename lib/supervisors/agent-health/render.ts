import { clean, seconds } from '../../base/text.ts'
import { style } from '../../cli/cli.ts'
import { timerText } from '../../host/systemctl.ts'
import { guardText } from './lines.ts'
import type { Outcome } from './run.ts'

const TIMER = 'agent-health.timer'
const SIGNS = { healthy: '✓', unhealthy: '✗', unknown: '?' } as const

/** One line for a person who starts a run by hand: is the timer armed, and when is it due. */
export async function contextLine(): Promise<string> {
  return `${TIMER} ${await timerText(TIMER)}`
}

/** One line per node: mark, finding, circuit, what was done or what would be. */
export async function renderText(outcomes: readonly Outcome[], dryRun: boolean): Promise<string[]> {
  const s = await style()
  const paint = { healthy: s.green, unhealthy: s.red, unknown: s.yellow }
  const width = Math.max(0, ...outcomes.map((o) => o.node.length))
  if (outcomes.length === 0) return ['no active row for this host']
  return outcomes.map((o) => {
    const mark = paint[o.verdict.state](SIGNS[o.verdict.state])
    return `${o.node.padEnd(width)}  api ${mark}  ${clean(sentence(o, dryRun), 600)}`
  })
}

function sentence(o: Outcome, dryRun: boolean): string {
  const { verdict, decision, receipt } = o
  const parts = [verdict.state === 'healthy' ? 'ok' : verdict.reason]
  if (verdict.state === 'unknown') parts[0] = `cannot tell: ${verdict.reason}`
  if (receipt.extra.circuit !== 'closed') parts.push(`circuit ${receipt.extra.circuit}`)
  if (decision.action.kind === 'held') {
    const guard = guardText(decision.action.guard)
    parts.push(dryRun ? `would restart the browser; ${guard}` : `not restarted: ${guard}`)
  } else if (dryRun) {
    parts.push(
      decision.action.kind === 'none' ? 'would do nothing' : 'would restart the browser, after a second look',
    )
  }
  if (o.held !== undefined) parts.push(`not restarted: ${o.held}`)
  for (const a of o.actions) {
    parts.push(`${a.kind} ${a.helped ? 'helped' : 'did NOT help'} in ${seconds(a.durationMs)}`)
  }
  if (verdict.state !== 'healthy') parts.push(`next: agent-health status ${o.node}`)
  return parts.join('; ')
}

/** The receipts, each with what the run decided. */
export function renderJson(outcomes: readonly Outcome[]): string {
  const list = outcomes.map((o) => ({ ...o.receipt, decided: o.decision.action }))
  return JSON.stringify(list, null, 2)
}
