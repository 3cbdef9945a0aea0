import type { Log } from '../../log.ts'
import type { Paths } from '../../paths.ts'
import { hostNamespaces, writeReceipt } from '../../receipts.ts'
import type { ParsedRegistry } from '../../registry.ts'
import { readState, writeState } from '../../state.ts'
import type { Now } from '../../types.ts'

function parseTold(value: unknown): { told: string } {
  const { told } = value as { told?: unknown }
  if (typeof told !== 'string') throw new Error('told is not text')
  return { told }
}

/**
 * Tells of the rows that were refused, once per change of what is wrong with them, and leaves a receipt for
 * each that has a name: nobody watches such a node, and its status must say so.
 * @param dueMs when the next run should have replaced these receipts, from `at`
 */
export function tellRefused(p: Paths, log: Log, registry: ParsedRegistry, at: Now, dueMs: number): void {
  const { errors, nodes } = registry
  const path = `${p.state}/cdp-relay-watchdog-refused.json`
  const lines = errors.map(
    (e) => `registry line ${e.line}${e.name === undefined ? '' : ` (${e.name})`}: ${e.reason}`,
  )
  const told = lines.join('\n')
  const before = readState(path, parseTold, () => ({ told: '' })).value.told
  if (told !== before) {
    for (const [i, line] of lines.entries()) {
      if (before.split('\n').includes(line)) continue
      log.write(
        'WARN',
        errors[i]?.name ?? 'fleet',
        `row refused, node not supervised: ${line}; next: ensure-node-supervision --check`,
        {
          code: 'row-refused',
        },
      )
    }
    writeState(path, { told })
  }
  const accepted = new Set(nodes.map((n) => n.name))
  for (const { name, line, reason } of errors) {
    // Of two rows with one name, the accepted one keeps its receipt.
    if (name === undefined || accepted.has(name)) continue
    const why = `row refused: line ${line}: ${reason}`
    writeReceipt(p, {
      version: 1,
      supervisor: 'cdp-relay-watchdog',
      node: name,
      verdict: { state: 'unknown', layer: 'registry', code: 'row-refused', reason: why, evidence: [] },
      layers: [{ layer: 'registry', state: 'fail', note: why }],
      actions: [],
      at,
      durationMs: 0,
      hostNs: hostNamespaces(p),
      nextDueBootMs: at.bootMs + dueMs,
      extra: {},
    })
  }
}
