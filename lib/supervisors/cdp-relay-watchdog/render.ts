import type { ExitCode } from '../../base/exit-codes.ts'
import { namesIn } from '../../base/files.ts'
import type { Paths } from '../../base/paths.ts'
import type { MarkState, ReceiptAction } from '../../base/types.ts'
import type { Style } from '../../cli/cli.ts'
import { MARKS, paintState } from '../../cli/marks.ts'
import type { ParsedRegistry } from '../../registry/read.ts'
import { judgeRelay } from '../../relay/judge.ts'
import type { RelayAction } from '../../relay/types.ts'
import { refusedLine } from '../../report/refused.ts'
import { readReceipt } from '../../store/receipts.ts'
import type { Outcome } from './types.ts'

/** What the last run did, as the end of the context line. */
export function lastActed(p: Paths): string {
  const last = lastAction(p)
  if (last === undefined) return 'nothing restarted by the last run'
  const { node, action } = last
  const at = new Date(action.startedWallMs).toISOString().slice(11, 16)
  return `last acted ${at}Z on ${node} (${action.kind}), ${action.helped ? 'helped' : 'did not help'}`
}

function lastAction(p: Paths): { node: string; action: ReceiptAction } | undefined {
  const names = namesIn(`${p.receipts}/cdp-relay-watchdog`).filter((n) => n.endsWith('.json'))
  const found = names.flatMap((file) => {
    const node = file.slice(0, -'.json'.length)
    const look = readReceipt(p, 'cdp-relay-watchdog', node)
    return look.seen ? (look.value?.actions ?? []).map((action) => ({ node, action })) : []
  })
  return found.sort((a, b) => b.action.startedWallMs - a.action.startedWallMs)[0]
}

/** What a planned action would do, for a dry run. */
function describeAction(node: string, action: RelayAction): string {
  if (action.kind === 'restart-relay') return `would restart cdp-relay@${node}.socket`
  const { owner, listener } = action
  return `would remove ${owner.program} (pid ${owner.pid}) from ${listener.address}:${listener.port} in ${listener.netns}`
}

/** One command that a person runs next; none when nothing is wrong any more. */
function nextOf({ observation, decision }: Outcome): string | undefined {
  return observation && decision.verdict.state !== 'healthy' ? judgeRelay(observation).next : undefined
}

/** The path of each node as far as this supervisor sees it, a mark per layer, and what to do next. */
export function renderText(
  outcomes: readonly Outcome[],
  registry: ParsedRegistry,
  dryRun: boolean,
  style: Style,
): string[] {
  const width = Math.max(0, ...outcomes.map((o) => o.node.length))
  const paint = (state: MarkState, text: string) => paintState(style, state, text)
  const lines = outcomes.flatMap((o) => nodeLines(o, width, dryRun, paint))
  lines.push(...registry.errors.map((e) => style.yellow(refusedLine(registry, e))))
  if (outcomes.length === 0) lines.push('no active row for this host')
  return lines
}

function nodeLines(
  outcome: Outcome,
  width: number,
  dryRun: boolean,
  paint: (state: MarkState, text: string) => string,
): string[] {
  const { node, found, did } = outcome
  const marks = found.marks.map((m) => paint(m.state, `${m.layer} ${MARKS[m.state]}`)).join('  ')
  const more: string[] = []
  // The text of a restart that failed has the reason in it.
  if (found.verdict.reason !== '' && did?.helped !== false) more.push(found.verdict.reason)
  if (did !== undefined) more.push(did.text)
  if (found.guard !== undefined) more.push(`held back: ${found.guard.text}`)
  if (dryRun) more.push(...found.actions.map((a) => describeAction(node, a)))
  const next = nextOf(outcome)
  if (next !== undefined) more.push(`next: ${next}`)
  return [`${node.padEnd(width)}  ${marks}`, ...more.map((text) => `${' '.repeat(width)}  ${text}`)]
}

/** The same for programs. */
export function renderJson(
  outcomes: readonly Outcome[],
  { errors: refused }: ParsedRegistry,
  exit: ExitCode,
  dryRun: boolean,
): string {
  const nodes = outcomes.map((o) => {
    const { node, found, decision, actions, did: outcome, receipt } = o
    const next = nextOf(o)
    return {
      node,
      verdict: decision.verdict,
      layers: found.marks,
      ...(dryRun ? { planned: found.actions } : { actions }),
      ...(outcome && { outcome }),
      ...(found.guard && { guard: found.guard }),
      ...(next !== undefined && { next }),
      durationMs: receipt.durationMs,
    }
  })
  return JSON.stringify({ version: 1, exit, nodes, refused }, null, 2)
}
