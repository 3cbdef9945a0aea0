import { errorLine } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { shellWord } from '../base/os-error.ts'
import type { Paths } from '../base/paths.ts'
import { text as asText, record } from '../base/shape.ts'
import type { Now, Supervisor } from '../base/types.ts'
import type { ParsedRegistry, RowError } from '../registry/read.ts'
import { hostNamespaces, writeReceipt } from '../store/receipts.ts'
import { readState, writeState } from '../store/state.ts'
import { text } from './codes.ts'
import { line as sayLine } from './line.ts'
import type { Log } from './log.ts'

/**
 * The exit code of a run over the whole fleet beside refused rows: at least `unknown`, because nobody looked at
 * the nodes of these rows. What is known to be wrong with another node weighs more.
 */
export function exitBeside(exit: ExitCode, refused: readonly RowError[]): ExitCode {
  return refused.length > 0 && (exit === EXIT.OK || exit === EXIT.LOCKED) ? EXIT.UNKNOWN : exit
}

/** One line about a refused row for whoever runs a program by hand. */
export function refusedLine(registry: Pick<ParsedRegistry, 'path'>, e: RowError): string {
  return `${refusal(e)}; next: ${editCommand(registry)}`
}

const editCommand = (registry: Pick<ParsedRegistry, 'path'>) =>
  `editor ${shellWord(registry.path ?? '/etc/netvm/NODES.md')}`

function refusal({ line, name, reason }: RowError): string {
  return text('row-refused', { line, name: name === undefined ? '' : ` (${name})`, why: reason })
}

/**
 * Reports the rows that were refused, once per change of what is wrong with them, and leaves a receipt for
 * each that has a name: nobody watches such a node, and its status must say so. Never throws: the other rows
 * are to be supervised whatever happens here.
 * @param dueMs when the next run should have replaced these receipts, from `at`
 */
export function reportRefused(
  p: Paths,
  supervisor: Supervisor,
  log: Log,
  registry: ParsedRegistry,
  at: Now,
  dueMs: number,
): void {
  try {
    reportNews(p, supervisor, log, registry)
    leaveReceipts(p, supervisor, registry, at, dueMs)
  } catch (err) {
    const why = `cannot keep what was reported of refused rows: ${errorLine(err)}`
    log.write('fleet', sayLine('WARN', 'state-not-kept', { why }))
  }
}

function reportNews(p: Paths, supervisor: Supervisor, log: Log, registry: ParsedRegistry): void {
  const path = `${p.state}/${supervisor}-refused.json`
  const lines = registry.errors.map(refusal)
  const reported = lines.join('\n')
  const before = readState(path, record({ told: asText }), () => ({ told: '' })).value.told
  if (reported === before) return
  for (const [i, e] of registry.errors.entries()) {
    if (before.split('\n').includes(lines[i] ?? '')) continue
    const next = editCommand(registry)
    log.write(e.name ?? 'fleet', { level: 'WARN', code: 'row-refused', text: refusal(e), next })
  }
  writeState(path, { told: reported })
}

function leaveReceipts(
  p: Paths,
  supervisor: Supervisor,
  { errors, nodes }: ParsedRegistry,
  at: Now,
  dueMs: number,
): void {
  const accepted = new Set(nodes.map((n) => n.name))
  for (const { name, line, reason } of errors) {
    // Of two rows with one name, the accepted one keeps its receipt.
    if (name === undefined || accepted.has(name)) continue
    const why = refusal({ name, line, reason })
    writeReceipt(p, {
      version: 1,
      supervisor,
      node: name,
      verdict: { state: 'unknown', layer: 'registry', code: 'row-refused', reason: why, evidence: [] },
      layers: [{ layer: 'registry', state: 'fail', code: 'row-refused', note: why }],
      actions: [],
      at,
      durationMs: 0,
      hostNs: hostNamespaces(p),
      nextDueBootMs: at.bootMs + dueMs,
      extra: {},
    })
  }
}
