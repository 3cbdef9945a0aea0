import { join } from 'node:path'
import { now } from '../base/clock.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { present } from '../base/present.ts'
import { readRegistry } from '../registry/read.ts'
import { withLock } from '../store/lock.ts'
import { writeState } from '../store/state.ts'
import { carryOut } from './act.ts'
import { decideDrift } from './decide.ts'
import { type EnsureContext, observe } from './observe.ts'
import { rowLeft } from './preflight.ts'
import { assertRow, ensureRow, type RowOptions } from './row.ts'
import type { Finding, Note } from './types.ts'

/** How long a run waits for another one, in milliseconds: a run takes about a second. */
const LOCK_WAIT_MS = 60_000
/** A repair may show what could not be seen before it (a timer whose unit file was missing). */
const ROUNDS = 3

interface EnsureTarget {
  /** One node; absent means all of this host. */
  readonly node?: string
  readonly row?: RowOptions
  /** The program that asks, for the record that --check reads. */
  readonly by: string
  /** `settings`: row and files only; timers are armed by a later call, once the node is up. */
  readonly stage?: 'settings' | 'all'
}

/** What the `settings` stage repairs. */
const SETTINGS = ['unit-file-missing', 'needs-reload', 'settings-missing', 'settings-differ', 'queue-missing']

/** One line for people. */
export function noteLine({ scope, text, next }: Note): string {
  return `${scope}: ${text}${next === undefined ? '' : `; next: ${next}`}`
}

/** A finding that nobody repaired. */
export function unrepaired(f: Finding): Note {
  return { scope: f.scope, text: f.says, next: nextOf(f) }
}

function nextOf(f: Finding): string | undefined {
  if (f.next !== undefined || f.actions.length === 0) return f.next
  return `ensure-node-supervision ${f.scope === 'fleet' ? '--all' : f.scope}`
}

/** What stayed after it was acted on: doing so again would change as little. */
function futile(f: Finding, refused: ReadonlyMap<string, string>): Note {
  if (f.actions.length === 0) return unrepaired(f)
  const units = actedOn(f)
  const why = units.map((unit) => refused.get(unit)).find((text) => text !== undefined)
  const next = ['systemctl status', ...units.slice(0, 1)].join(' ')
  return { scope: f.scope, text: `${f.says}, and still is: ${why ?? `${f.did}, to no effect`}`, next }
}

function actedOn(f: Finding): string[] {
  return f.actions.flatMap((a) => ('unit' in a ? [a.unit] : []))
}

/** The same finding in two looks. Its sentence is no part of that: it may say how long it has lasted. */
function key({ scope, code, actions, next = '' }: Finding): string {
  const about = actions.map((a) => [a.kind, 'unit' in a ? a.unit : 'path' in a ? a.path : ''])
  return JSON.stringify([scope, code, about, next])
}

/**
 * Makes supervision as the registry says, of one node or of all, under the fleet lock: two runs at once do
 * one after the other what is left to do.
 * @returns what was done and what is left; of one node its row, and whether this run made the row or made it active
 */
export async function ensure(ctx: EnsureContext, target: EnsureTarget, onWait?: (message: string) => void) {
  const doing = `making supervision of ${target.node ?? 'all nodes'} as the registry says`
  const opts = { waitMs: LOCK_WAIT_MS, ...(onWait && { onWait }) }
  // A mistake needs no lock, and leaves none behind.
  if (target.node === undefined) readRegistry(ctx.p, ctx.config)
  else assertRow(ctx, target.node, target.row?.add === true)
  return withLock(ctx.p, 'fleet', doing, opts, async () => {
    const row =
      target.node === undefined ? undefined : await ensureRow(ctx, target.node, target.row ?? { add: false })
    const did: Note[] = row?.did.map((text) => ({ scope: row.node.name, text })) ?? []
    const left = await repairAll(ctx, target, did).catch((err) => {
      throw row?.activated ? rowLeft(err, row.node.name) : err
    })
    const exitCode: ExitCode = left.length > 0 ? EXIT.UNHEALTHY : EXIT.OK
    return { did, left, exitCode, activated: row?.activated === true, node: row?.node }
  })
}

/** Repairs what can be repaired, adding it to `did`. Returns what is left. */
async function repairAll(ctx: EnsureContext, target: EnsureTarget, did: Note[]): Promise<Note[]> {
  let findings: Finding[] = []
  let todo: Finding[] = []
  const refused = new Map<string, string>()
  const tried = new Set<string>()
  for (let round = 0; ; round++) {
    const seen = await observe(ctx, target.node)
    findings = decideDrift(seen).filter((f) => inScope(f, target))
    // A command that succeeded is no proof: a repair is reported when it is seen.
    const still = new Set(findings.filter((f) => f.actions.length > 0).map(key))
    const repaired = (f: Finding) => !still.has(key(f)) && actedOn(f).every((unit) => !refused.has(unit))
    for (const f of todo.filter(repaired)) did.push({ scope: f.scope, text: `${f.says}: ${f.did}` })
    todo = findings.filter((f) => f.actions.length > 0 && !tried.has(key(f)))
    if (todo.length === 0 || round === ROUNDS) break
    for (const [unit, why] of await carryOut(ctx.p, todo)) refused.set(unit, why)
    await pages(ctx, todo)
    for (const f of todo) tried.add(key(f))
    for (const { node } of seen.nodes) recordHook(ctx, node.name, target.by)
  }
  if (target.node !== undefined) recordHook(ctx, target.node, target.by)
  return findings.map((f) => (tried.has(key(f)) ? futile(f, refused) : unrepaired(f)))
}

function inScope(f: Finding, { node, stage }: EnsureTarget): boolean {
  if (stage === 'settings' && !SETTINGS.includes(f.code)) return false
  return node === undefined || f.scope === node || f.code === 'unit-file-missing' || f.code === 'needs-reload'
}

/** The record of the ensure hook: which program last made this node's supervision, and when. */
export function hookPath(ctx: EnsureContext, node: string): string {
  return join(ctx.p.state, 'ensure', 'nodes', `${node}.json`)
}

function recordHook(ctx: EnsureContext, node: string, by: string): void {
  writeState(hookPath(ctx, node), { by, at: now(ctx.p) })
}

/** A unit at its start limit is what monitors wake people for; the rest is for whoever ran us. */
async function pages(ctx: EnsureContext, findings: readonly Finding[]): Promise<void> {
  const loud = findings.filter((f) => f.page)
  if (loud.length === 0) return
  const [{ makeLog }, { page }, { said }] = await Promise.all([
    import('../report/log.ts'),
    import('../report/page.ts'),
    import('../report/line.ts'),
  ])
  const log = makeLog('ensure-node-supervision', ctx.p)
  for (const f of loud) {
    const what = said('supervision-drift', { what: `${f.scope}: ${f.says}` })
    page({ ...ctx, now: now(ctx.p), log }, 'config-fault', f.scope, present({ ...what, next: nextOf(f) }))
  }
}
