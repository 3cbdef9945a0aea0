import type { MarkState } from '../../base/types.ts'
import type { Style } from '../../cli/cli.ts'
import { MARKS, paintState } from '../../cli/marks.ts'
import type { RelayAction } from '../../relay/types.ts'
import { refusedLine } from '../../report/refused.ts'
import type { NodeResult, RunResult } from './run.ts'

/** What a planned action would do, for a dry run. */
export function describeAction(node: string, action: RelayAction): string {
  if (action.kind === 'restart-relay') return `would restart cdp-relay@${node}.socket`
  const { owner, listener } = action
  return `would remove ${owner.program} (pid ${owner.pid}) from ${listener.address}:${listener.port} in ${listener.netns}`
}

/** The path of each node as far as this supervisor sees it, a mark per layer, and what to do next. */
export function printText(run: RunResult, dryRun: boolean, style: Style): string[] {
  const width = Math.max(0, ...run.results.map((r) => r.node.length))
  const paint = (state: MarkState, text: string) => paintState(style, state, text)
  const lines = run.results.flatMap((r) => nodeLines(r, width, dryRun, paint))
  lines.push(...run.refused.map((e) => style.yellow(refusedLine(run.registry, e))))
  if (run.results.length === 0) lines.push('no active row for this host')
  return lines
}

function nodeLines(
  { node, decision, verdict, outcome }: NodeResult,
  width: number,
  dryRun: boolean,
  paint: (state: MarkState, text: string) => string,
): string[] {
  const marks = decision.layers.map((m) => paint(m.state, `${m.layer} ${MARKS[m.state]}`)).join('  ')
  const more: string[] = []
  // The text of a restart that failed has the reason in it.
  if (decision.verdict.reason !== '' && outcome?.helped !== false) more.push(decision.verdict.reason)
  if (outcome !== undefined) more.push(outcome.text)
  if (decision.guard !== undefined) more.push(`held back: ${decision.guard.text}`)
  if (dryRun) more.push(...decision.actions.map((a) => describeAction(node, a)))
  if (verdict.state !== 'healthy' && decision.next !== undefined) more.push(`next: ${decision.next}`)
  return [`${node.padEnd(width)}  ${marks}`, ...more.map((text) => `${' '.repeat(width)}  ${text}`)]
}

/** The same for programs. */
export function printJson(run: RunResult, dryRun: boolean): string {
  const nodes = run.results.map(({ node, decision, verdict, actions, outcome, durationMs }) => ({
    node,
    verdict,
    layers: decision.layers,
    ...(dryRun ? { planned: decision.actions } : { actions }),
    ...(outcome === undefined ? {} : { outcome }),
    ...(decision.guard === undefined ? {} : { guard: decision.guard }),
    ...(decision.next === undefined || verdict.state === 'healthy' ? {} : { next: decision.next }),
    durationMs,
  }))
  return JSON.stringify({ version: 1, exit: run.exit, nodes, refused: run.refused }, null, 2)
}
