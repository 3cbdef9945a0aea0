/** D7 as a checklist: for every active node, proof that its supervisors run, silently. Pure. */

import { seconds } from '../base/text.ts'
import { type Look, type Receipt, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { LOOP_RUN_MS, unitOf } from '../evidence/owners.ts'
import type { JournalFacts, JournalRun } from '../evidence/types.ts'
import { SLACK_MS } from './finding.ts'
import type { Note } from './types.ts'

/** A run may be this many periods old. */
const FRESH_PERIODS = 2

/** One thing that was to be proven. */
export type Point = Note & { readonly ok: boolean }

type Ran = Pick<Receipt, 'at' | 'verdict'>

export interface ProofFacts {
  /** Boot milliseconds. */
  readonly nowMs: number
  readonly nodes: readonly string[]
  readonly journal: (node: string) => Look<JournalFacts>
  /** Receipts of this boot. */
  readonly receipt: (supervisor: Supervisor, node: string) => Ran | undefined
  /** Effective period of the supervisor's timer for the node, in milliseconds. */
  readonly periodMs: (supervisor: Supervisor, node: string) => number
  /** Which program last made the node's supervision; absent when none did. */
  readonly hook: (node: string) => string | undefined
}

/** One point per node and supervisor, and one per node for the ensure hook. */
export function prove(facts: ProofFacts): Point[] {
  return facts.nodes.flatMap((node) => [
    ...SUPERVISORS.map((s) => proveRuns(facts, s, node)),
    hook(facts, node),
  ])
}

function hook(facts: ProofFacts, node: string): Point {
  const by = facts.hook(node)
  if (by !== undefined) return { scope: node, ok: true, text: `supervision made by ${by}` }
  const text = 'nothing on record has made its supervision'
  return { scope: node, ok: false, text, next: `ensure-node-supervision ${node}` }
}

function proveRuns(facts: ProofFacts, supervisor: Supervisor, node: string): Point {
  const look = facts.journal(node)
  const receipt = facts.receipt(supervisor, node)
  const limit = FRESH_PERIODS * facts.periodMs(supervisor, node) + SLACK_MS
  const say = (ok: boolean, text: string, next?: string): Point => ({
    scope: node,
    ok,
    text: `${supervisor}: ${text}`,
    next,
  })
  const unit = unitOf(supervisor, node)
  const journal = `journalctl -u ${unit}.service -n 30`
  if (!look.seen) return say(false, `the journal cannot be read: ${look.why}`, 'journalctl -n 1')
  const { incomplete } = look.value
  if (incomplete !== undefined) return say(false, `the journal is incomplete: ${incomplete}`, journal)
  const runs = look.value.runs.filter((r) => r.supervisor === supervisor)
  const last = judged(runs.at(-1), receipt)
  // A run may have ended since the clocks were read.
  const age = Math.max(0, facts.nowMs - Math.max(last?.endBootMs ?? 0, receipt?.at.bootMs ?? 0))
  if (last === undefined && receipt === undefined) {
    return say(false, 'no run in this boot', `systemctl list-timers ${unit}.timer`)
  }
  if (age > limit) {
    const due = seconds(facts.periodMs(supervisor, node))
    return say(false, `last run ${seconds(age)} ago, due every ${due}`, journal)
  }
  // A receipt is written before its run ends, so one that is younger than the last end on record is of a later run.
  const later = last !== undefined && receipt !== undefined && receipt.at.bootMs > last.endBootMs
  if (last?.outcome === 'failure' && !later) {
    const ago = seconds(facts.nowMs - last.endBootMs)
    const why = last.failure?.text ?? receipt?.verdict.reason
    return say(false, `last run failed ${ago} ago${why ? `: ${why}` : ''}`, last.failure?.next ?? journal)
  }
  // The loops watch all rows in one run: their receipt says that this row was among them.
  if (receipt === undefined || facts.nowMs - receipt.at.bootMs > limit) {
    return say(false, 'ran, but left no receipt of this node', journal)
  }
  if (receipt.verdict.state !== 'healthy') {
    return say(
      false,
      `last run said ${receipt.verdict.state}${receipt.verdict.reason && `: ${receipt.verdict.reason}`}`,
      journal,
    )
  }
  // With systemd's log level above info PID 1 does not write how runs end; the receipt proves the run then.
  const source = last === undefined || later ? ' (receipt; systemd logs no runs)' : ''
  return say(true, `last run ${seconds(age)} ago, healthy${source}, ${silence(facts, runs)}`)
}

/**
 * The last run, as far as this node goes. One over all rows fails for any of them: when it says nothing of this one
 * and has left its receipt in that time, it did not fail here.
 */
function judged(last: JournalRun | undefined, receipt: Ran | undefined): JournalRun | undefined {
  if (last?.outcome !== 'failure' || last.failure !== undefined || last.supervisor === 'chromebox-watchdog') {
    return last
  }
  const its = receipt !== undefined && receipt.at.bootMs > last.endBootMs - LOOP_RUN_MS
  return its ? { ...last, outcome: 'success' } : last
}

function silence(facts: ProofFacts, runs: readonly JournalRun[]): string {
  // A loop that failed for another row said nothing of this one.
  const own = (r: JournalRun) => r.outcome === 'failure' && r.supervisor === 'chromebox-watchdog'
  const noisy = runs.findLast((r) => own(r) || r.failure !== undefined)
  if (noisy === undefined) return 'silent'
  return `silent since a fault ${seconds(facts.nowMs - noisy.endBootMs)} ago`
}
