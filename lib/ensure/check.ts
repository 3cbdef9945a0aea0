import { hostname } from 'node:os'
import { clocks } from '../base/clock.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { textIfThere } from '../base/files.ts'
import { fromJson, record, text } from '../base/shape.ts'
import { clean } from '../base/text.ts'
import type { Supervisor } from '../base/types.ts'
import { lookAtJournal } from '../evidence/journal.ts'
import { PERIOD_MS, unitOf } from '../evidence/owners.ts'
import { activeLocalNodes, findNode, readRegistry } from '../registry/read.ts'
import { readReceipt } from '../store/receipts.ts'
import { decideDrift } from './decide.ts'
import { hookPath, noteLine, unrepaired } from './ensure.ts'
import { type EnsureContext, observe } from './observe.ts'
import { type Point, prove } from './proof.ts'
import type { Observation } from './types.ts'

const JOURNAL_DEADLINE_MS = 20_000

/**
 * `--check`: changes nothing. Drift of the configuration first, then D7 proven from the journal and the
 * receipts: `ok` lines for what is met, `NOT MET` lines for what is not. Exit 1 when anything is not.
 */
export async function checkCommand(ctx: EnsureContext, only?: string): Promise<ExitCode> {
  const registry = readRegistry(ctx.p, ctx.config)
  if (only !== undefined) findNode(registry, only)
  const seen = await observe(ctx, only)
  const drift = decideDrift(seen).filter((f) => only === undefined || f.scope === only)
  const active = activeLocalNodes(registry, hostname()).map((n) => n.name)
  const nodes = active.filter((n) => only === undefined || n === only)
  const points = await proof(ctx, seen, nodes)
  for (const point of points.filter((x) => x.ok)) console.log(`ok       ${clean(noteLine(point), 300)}`)
  if (drift.length === 0) console.log('ok       units, timers and settings are as the registry says')
  const unmet = [...drift.map(unrepaired), ...points.filter((x) => !x.ok)]
  for (const note of unmet) console.log(`NOT MET  ${clean(noteLine(note), 400)}`)
  return unmet.length === 0 ? EXIT.OK : EXIT.UNHEALTHY
}

async function proof(ctx: EnsureContext, seen: Observation, nodes: readonly string[]): Promise<Point[]> {
  const at = clocks(ctx.p)
  const journal = await lookAtJournal(nodes, at, JOURNAL_DEADLINE_MS)
  const receipt = (supervisor: Supervisor, node: string) => {
    const look = readReceipt(ctx.p, supervisor, node)
    return look.seen && look.value?.at.bootId === at.bootId ? look.value : undefined
  }
  const periodMs = (supervisor: Supervisor, node: string) => {
    // A timer that has none to read is judged by the release's.
    return seen.units[`${unitOf(supervisor, node)}.timer`]?.periodMs ?? PERIOD_MS[supervisor]
  }
  const hook = (node: string) => {
    // A torn record is none.
    const made = fromJson(textIfThere(hookPath(ctx, node)) ?? '', record({ by: text }))
    return made && clean(made.by, 60)
  }
  return prove({ nowMs: at.bootMs, nodes, journal, receipt, periodMs, hook })
}
