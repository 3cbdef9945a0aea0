import { now, wallIso } from '../../base/clock.ts'
import { certainMs } from '../../base/damping.ts'
import { clean, seconds } from '../../base/text.ts'
import type { Node, Now, Receipt } from '../../base/types.ts'
import { browserUnit } from '../../browser/verify.ts'
import { style } from '../../cli/cli.ts'
import { MARKS, paintState } from '../../cli/marks.ts'
import { contextLine } from '../../host/systemctl.ts'
import { unitOutput } from '../../host/unit-output.ts'
import { readHistory } from '../../store/receipt-history.ts'
import { readReceipt } from '../../store/receipts.ts'
import type { Tick } from '../types.ts'
import { readMemory } from './memory.ts'
import { type Attempt, NEEDS_PERSON, type Outcome } from './types.ts'

/** One line of context: is the timer armed, when does it run next, what did the last attempt do. */
export function context({ p, config }: Tick, { name }: Node): Promise<string> {
  const last = readMemory(p, config, name).attempts.at(-1)
  return contextLine(`${name}: timer`, `chromebox-watchdog@${name}.timer`, lastActed(last))
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
  const lines = outcome.decision.marks.map((l) => {
    const sign = paintState(s, l.state, MARKS[l.state])
    const note = l.note ?? (l.state === 'ok' ? '' : l.state.replace('-', ' '))
    return `  ${sign} ${l.layer.padEnd(8)}${note === '' ? '' : s.dim(clean(note, 160))}`.trimEnd()
  })
  const verdict = verdictLine(node, outcome)
  const colour = { healthy: s.green, unhealthy: s.red, unknown: s.yellow }[outcome.decision.verdict.state]
  return `${[...lines, colour(verdict)].join('\n')}\n`
}

/** What is said of an action that helped, and of one that did not: the words of RUNBOOK.md. */
const OUTCOME: Readonly<Record<string, readonly [string, string]>> = {
  'relaunch-browser': ['relaunch OK after', 'relaunch FAILED — needs operator attention, after'],
  'restart-tunnel': ['tunnel restart OK after', 'tunnel restart FAILED after'],
}

/** `muse healthy`, or the reason with what was done, which guard stops it, and what to run next. */
function verdictLine(node: Node, outcome: Outcome): string {
  const { decision } = outcome
  const { verdict } = decision
  const parts = [verdict.state === 'healthy' ? 'healthy' : verdict.reason]
  if (verdict.state === 'unknown' && verdict.code !== 'paused') parts[0] = `unknown: ${verdict.reason}`
  if (decision.guard) parts.push(decision.guard.text)
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
  const { decision, observation } = outcome
  const { verdict, guard } = decision
  const action = decision.actions[0]
  if (action?.kind === 'restart-tunnel') {
    return 'would ask the other rows for an uplink fault, then restart the tunnel once and verify'
  }
  if (action) {
    const confirm = decision.confirm === 'at-once' ? 'a second look' : 'a second look after the confirm delay'
    return `would relaunch now, after ${confirm}${action.halfOpen ? ' (half-open attempt)' : ''}`
  }
  if (guard) {
    const age = observation?.browser?.process?.ageMs
    const what =
      guard.code === 'fresh' && age !== undefined ? `browser ${Math.floor(age / 1000)} s old` : guard.text
    const when =
      guard.eligibleInMs === undefined ? '' : `, eligible in ${Math.ceil(guard.eligibleInMs / 1000)} s`
    return NEEDS_PERSON.has(guard.code) ? `would do nothing: ${what}` : `would relaunch; ${what}${when}`
  }
  if (verdict.state === 'healthy') return 'would do nothing: healthy'
  const next = decision.lines[0]?.next
  const hint = next === undefined ? '' : `; next: ${next}`
  return clean(`would do nothing: ${verdict.reason}${hint}`, 600)
}

/** The receipt; a look that did nothing adds what would be done and what stops it. */
export function json({ receipt, decision }: Outcome, looksOnly: boolean): string {
  if (!looksOnly) return JSON.stringify(receipt)
  const { actions, confirm, memory } = decision
  const { code: name, ...more } = decision.guard ?? {}
  const guard = name === undefined ? null : { name, ...more }
  return JSON.stringify({ ...receipt, would: actions.map((a) => ({ ...a, confirm })), guard, memory })
}

/** Of what the browser printed. */
const LINES = 15

/** All that is known of a node's browser, for a person: layers, last runs, attempts, end, last words. */
export async function why(t: Tick, node: Node, outcome: Outcome): Promise<string> {
  const [unit, printed] = await Promise.all([browserUnit(node.name), lastLines(node.name)])
  const facts = outcome.decision.verdict.evidence.map((e) => `  ${clean(e, 300)}`)
  return [
    (await path(node, outcome)).trimEnd(),
    ...facts,
    ...lastRuns(t, node),
    ...attempts(outcome),
    `last browser: ${unit ? `${unit.ended.how}, ${unit.ended.detail} (unit ${unit.active})` : 'systemctl did not say'}`,
    `last ${LINES} lines it printed, D-Bus complaints left out (journalctl -u chromebox@${node.name}):`,
    ...printed.map((l) => `  ${l}`),
    '',
  ].join('\n')
}

/** The last run, and before it the last few that found or did something else than their previous run. */
function lastRuns(t: Tick, node: Node): string[] {
  const at = now(t.p)
  const history = readHistory(t.p, 'chromebox-watchdog', node.name)
  const changes = history.seen ? history.value : []
  const head = 'runs that found or did something new, newest last:'
  const kept = history.seen ? changes.map((r) => `  ${runLine(r, at)}`) : [`  cannot be read: ${history.why}`]
  const read = readReceipt(t.p, 'chromebox-watchdog', node.name)
  const seen = read.seen ? read.value && runLine(read.value, at) : `cannot read its receipt: ${read.why}`
  return [...(kept.length > 0 ? [head, ...kept] : []), `last run: ${seen ?? 'none since this boot'}`]
}

/** `2026-01-01T02:11:00.000Z (2m 3s ago) healthy; relaunch-browser helped after 3s: …` */
function runLine(r: Receipt, at: Now): string {
  const { verdict, actions } = r
  const sameBoot = r.at.bootId === at.bootId
  const age = sameBoot ? `${seconds(certainMs(r.at, at))} ago` : 'before the last reboot'
  const did = actions.map((a) => {
    const detail = typeof a.detail === 'string' && a.detail !== '' ? `: ${a.detail}` : ''
    return `; ${a.kind} ${a.helped ? 'helped' : 'did not help'} after ${seconds(a.durationMs)}${detail}`
  })
  const said = verdict.reason === '' ? verdict.state : `${verdict.state}: ${verdict.reason}`
  return clean(`${wallIso(r.at.wallMs)} (${age}) ${said}${did.join('')}`, 500)
}

function attempts({ decision }: Outcome): string[] {
  const { memory } = decision
  if (memory.attempts.length === 0) return ['relaunches: none on record']
  const held = memory.held ? `, HELD DOWN since ${wallIso(memory.held.sinceWallMs)}` : ''
  const lines = memory.attempts.map((a) => {
    const result = { ok: `OK after ${a.seconds}s`, failed: 'FAILED', pending: 'cut short' }[a.result]
    const detail = a.detail === '' ? '' : `: ${a.detail}`
    return `  ${clean(`${wallIso(a.wallMs)} ${a.reason} -> relaunch ${result}${detail} (before: ${a.ended})`, 400)}`
  })
  return [`relaunches, newest last (${memory.failures} failed in a row${held}):`, ...lines]
}

async function lastLines(node: string): Promise<string[]> {
  const said = await unitOutput(`chromebox@${node}.service`, {
    lines: 300,
    dated: true,
    match: '_TRANSPORT=stdout',
  })
  if (!said.seen) return [`cannot read the journal: ${said.why}`]
  return said.value.length > 0 ? said.value.slice(-LINES).map((l) => clean(l, 300)) : ['(nothing)']
}
