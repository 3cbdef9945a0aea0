import { now, wallIso } from '../../base/clock.ts'
import { certainMs } from '../../base/damping.ts'
import { clean, seconds } from '../../base/text.ts'
import type { Node, Now, Receipt } from '../../base/types.ts'
import { browserUnit } from '../../browser/verify.ts'
import { unitOutput } from '../../host/unit-output.ts'
import { readHistory } from '../../store/receipt-history.ts'
import { readReceipt } from '../../store/receipts.ts'
import type { Outcome, RunContext } from './finish.ts'
import { path } from './render.ts'

const LINES = 15

/** All that is known of a node's browser, for a person: layers, last runs, attempts, end, last words. */
export async function why(ctx: RunContext, node: Node, outcome: Outcome): Promise<string> {
  const [unit, printed] = await Promise.all([browserUnit(node.name), lastLines(node.name)])
  const facts = outcome.verdict.evidence.map((e) => `  ${clean(e, 300)}`)
  return [
    (await path(node, outcome)).trimEnd(),
    ...facts,
    ...lastRuns(ctx, node),
    ...attempts(outcome),
    `last browser: ${unit ? `${unit.ended.how}, ${unit.ended.detail} (unit ${unit.active})` : 'systemctl did not say'}`,
    `last ${LINES} lines it printed, D-Bus complaints left out (journalctl -u chromebox@${node.name}):`,
    ...printed.map((l) => `  ${l}`),
    '',
  ].join('\n')
}

/** The last run, and before it the last few that found or did something else than the run before them. */
function lastRuns(ctx: RunContext, node: Node): string[] {
  const at = now(ctx.p)
  const history = readHistory(ctx.p, 'chromebox-watchdog', node.name)
  const changes = history.seen ? history.value : []
  const head = 'runs that found or did something new, newest last:'
  const kept = history.seen ? changes.map((r) => `  ${told(r, at)}`) : [`  cannot be read: ${history.why}`]
  const read = readReceipt(ctx.p, 'chromebox-watchdog', node.name)
  const last = read.seen
    ? read.value
      ? `last run: ${told(read.value, at)}`
      : 'last run: none since this boot'
    : `last run: cannot read its receipt: ${read.why}`
  return [...(kept.length > 0 ? [head, ...kept] : []), last]
}

/** `2026-01-01T02:11:00.000Z (2m 3s ago) healthy; relaunch-browser helped after 3s: …` */
function told(r: Receipt, at: Now): string {
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

function attempts(outcome: Outcome): string[] {
  const { memory } = outcome
  if (memory.attempts.length === 0) return ['relaunches: none on record']
  const held = memory.held ? `, HELD DOWN since ${wallIso(memory.held.sinceWallMs)}` : ''
  const lines = memory.attempts.map((a) => {
    const result =
      a.result === 'ok'
        ? `relaunch OK after ${a.seconds}s`
        : a.result === 'failed'
          ? 'relaunch FAILED'
          : 'relaunch cut short'
    const detail = a.detail === '' ? '' : `: ${a.detail}`
    return `  ${clean(`${wallIso(a.wallMs)} ${a.reason} -> ${result}${detail} (before: ${a.ended})`, 400)}`
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
