import { clean, seconds } from '../../base/text.ts'
import type { Node } from '../../base/types.ts'
import { style } from '../../cli/cli.ts'
import { MARKS, paintState } from '../../cli/marks.ts'
import { timerText } from '../../host/systemctl.ts'
import type { Outcome, RunContext } from './finish.ts'
import { loadMemory } from './store.ts'
import type { Attempt } from './types.ts'

/** One line of context: is the timer armed, when does it run next, what did the last attempt do. */
export async function contextLine(ctx: RunContext, node: Node): Promise<string> {
  const last = loadMemory(ctx.p, ctx.config, node.name).value.attempts.at(-1)
  const timer = await timerText(`chromebox-watchdog@${node.name}.timer`)
  return `${node.name}: timer ${timer}; ${lastActed(last)}`
}

function lastActed(last: Attempt | undefined): string {
  if (!last) return 'never acted'
  const how = { ok: 'helped', failed: 'did not help', pending: 'was cut short' }[last.result]
  return `last acted ${clock(last.wallMs)}, ${how}`
}

/** Local `HH:MM`, with the date when it is not of the last 20 hours. */
function clock(wallMs: number): string {
  const date = new Date(wallMs)
  const two = (n: number) => String(n).padStart(2, '0')
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`
  const old = Math.abs(Date.now() - wallMs) > 20 * 3_600_000
  return old ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}` : time
}

/** The path of the node with a mark per layer, then the verdict. */
export async function path(node: Node, outcome: Outcome): Promise<string> {
  const s = await style()
  const lines = outcome.decision.layers.map((l) => {
    const sign = paintState(s, l.state, MARKS[l.state])
    const note = l.note ?? (l.state === 'ok' ? '' : l.state.replace('-', ' '))
    return `  ${sign} ${l.layer.padEnd(8)}${note === '' ? '' : s.dim(clean(note, 160))}`.trimEnd()
  })
  const verdict = verdictLine(node, outcome)
  const colour = { healthy: s.green, unhealthy: s.red, unknown: s.yellow }[outcome.verdict.state]
  return `${[...lines, colour(verdict)].join('\n')}\n`
}

/** How an action that helped, and one that did not, is told: the words of RUNBOOK.md. */
const OUTCOME: Readonly<Record<string, readonly [string, string]>> = {
  'relaunch-browser': ['relaunch OK after', 'relaunch FAILED — needs operator attention, after'],
  'restart-tunnel': ['tunnel restart OK after', 'tunnel restart FAILED after'],
}

/** `muse healthy`, or the reason with what was done, which guard stops it, and what to run next. */
function verdictLine(node: Node, outcome: Outcome): string {
  const { verdict, decision } = outcome
  const parts = [verdict.state === 'healthy' ? 'healthy' : verdict.reason]
  if (verdict.state === 'unknown' && verdict.code !== 'paused') parts[0] = `cannot tell: ${verdict.reason}`
  if (outcome.decision.guard) parts.push(outcome.decision.guard.text)
  for (const a of outcome.actions) {
    const [ok, failed] = OUTCOME[a.kind] ?? [`${a.kind} helped after`, `${a.kind} did not help after`]
    parts.push(`${a.helped ? ok : failed} ${seconds(a.durationMs)}`)
  }
  const next = decision.lines.find((l) => l.next !== undefined)?.next
  if (verdict.state !== 'healthy' && next !== undefined) parts.push(`next: ${next}`)
  return clean(`${node.name}: ${parts.join('; ')}`, 600)
}

/** What would happen, and what stops it: `would relaunch; browser 87 s old, eligible in 33 s`. */
export function dryRun(outcome: Outcome): string {
  const { decision, observation, verdict } = outcome
  const action = decision.actions[0]
  if (action?.kind === 'restart-tunnel') {
    return 'would ask the other rows for an uplink fault, then restart the tunnel once and verify'
  }
  if (action) {
    const confirm = action.confirm === 'at-once' ? 'a second look' : 'a second look after the confirm delay'
    return `would relaunch now, after ${confirm}${action.halfOpen ? ' (half-open attempt)' : ''}`
  }
  const guard = decision.guard
  if (guard) {
    const age = observation.browser?.process?.ageMs
    const what =
      guard.name === 'fresh' && age !== undefined ? `browser ${Math.floor(age / 1000)} s old` : guard.text
    const when =
      guard.eligibleInMs === undefined ? '' : `, eligible in ${Math.ceil(guard.eligibleInMs / 1000)} s`
    const never = guard.name === 'squatted' || guard.name === 'not-applied'
    return never ? `would do nothing: ${what}` : `would relaunch; ${what}${when}`
  }
  if (verdict.state === 'healthy') return 'would do nothing: healthy'
  const next = decision.lines[0]?.next
  const hint = next === undefined ? '' : `; next: ${next}`
  return clean(`would do nothing: ${verdict.reason}${hint}`, 600)
}

/** The receipt; a look that did nothing adds what would be done and what stops it. */
export function json(outcome: Outcome, looksOnly: boolean): string {
  const { receipt, decision, memory } = outcome
  if (!looksOnly) return JSON.stringify(receipt)
  return JSON.stringify({ ...receipt, would: decision.actions, guard: decision.guard ?? null, memory })
}
