import { rmSync } from 'node:fs'
import { monotonicMs, now } from '../base/clock.ts'
import { errorWords, type Words } from '../base/errors.ts'
import { statePath } from '../base/paths.ts'
import type { Node, Receipt, ReceiptAction } from '../base/types.ts'
import { text } from '../report/codes.ts'
import { type Line, said } from '../report/line.ts'
import { page, pageRecovered } from '../report/page.ts'
import { isPaused, readIntent } from '../store/intent.ts'
import { hostNamespaces, isNews, writeReceipt } from '../store/receipts.ts'
import { readState, type StateRead, writeState } from '../store/state.ts'
import type { Decision, Done, Facts, Observed, Outcome, PageEvent, Supervisor, Tick } from './types.ts'

/** How a run ended. `found` is what led to it, where something was done; default: its decision. */
type Ended<O, A, M> = Omit<Done<A, M>, 'actions'> & Partial<Pick<Outcome<O, A, M>, 'observation' | 'found'>>

/** What one tick of one node reads, keeps, says and leaves behind. When it does so is the conductor's, `tick.ts`. */
export class Run<O extends Observed, A, M extends object> {
  /** What was done so far. */
  readonly actions: ReceiptAction[] = []
  readonly #path: string
  /** The memory on disk, as far as this run knows. */
  #stored: M | undefined
  /** The memory cannot be written; to report that once a run is enough. */
  #unkept = false

  constructor(
    readonly s: Supervisor<O, A, M>,
    readonly t: Tick,
    readonly node: Node,
    /** `monotonicMs` */
    readonly began: number,
  ) {
    this.#path = statePath(t.p, s.name, node.name)
  }

  decide(observation: O, memory: M): Decision<A, M> {
    return this.s.decide(observation, memory, now(this.t.p), this.t)
  }

  /** The look with the pause that is in force now; one that an earlier look had may be over. */
  withPause(look: O): O {
    const { intent, corrupt } = readIntent(this.t.p, this.node.name)
    if (corrupt) this.#sayCorrupt(corrupt, { more: '', next: `box node resume ${this.node.name}` })
    const { paused: _, ...rest } = look
    const on = intent && isPaused(intent, now(this.t.p))
    return { ...rest, ...(on && { paused: { by: intent.by, reason: intent.reason } }) } as O
  }

  /** The memory of the last run; a file that cannot be used is reported, and stands as the cautious one. */
  load(): M {
    const { memory } = this.s
    const at = now(this.t.p)
    const cautious = () => memory.cautious(at, this.t)
    const read = readState<M>(this.#path, memory.parse, cautious, () => memory.fresh(at))
    if (read.corrupt) this.#sayCorrupt(read.corrupt, memory.lost(this.node.name, this.t))
    this.#stored = read.value
    return read.value
  }

  #sayCorrupt(
    { why, keptAs: kept }: NonNullable<StateRead<M>['corrupt']>,
    lost: { more: string; next?: string },
  ) {
    const { more, ...next } = lost
    if (!this.t.dryRun) this.say([{ level: 'WARN', ...said('state-corrupt', { why, kept, more }), ...next }])
  }

  /** Writes a memory that changed. A disk that takes nothing is reported, and changes nothing of what was seen and done. */
  keep(memory: M): void {
    const reported = this.#unkept
    const problem = memory === this.#stored ? undefined : this.record(memory)
    if (problem !== undefined && !reported) this.#sayNotKept(problem)
  }

  /** @returns why the memory cannot be written, or undefined. @throws that, where it is vital */
  record(memory: M): Words | undefined {
    try {
      if (this.s.memory.blank?.(memory)) rmSync(this.#path, { force: true })
      else writeState(this.#path, memory)
      this.#stored = memory
      return undefined
    } catch (err) {
      if (this.s.memory.vital) throw err
      this.#unkept = true
      return errorWords(err)
    }
  }

  say(lines: readonly Line[]): void {
    for (const line of lines) this.t.log.write(this.node.name, line)
  }

  #sayNotKept({ text: why, ...next }: Words): void {
    this.say([{ level: 'WARN', ...said('state-not-kept', { why }), ...next }])
  }

  /** Says, pages and leaves behind what the run found and did. */
  async finish(ended: Ended<O, A, M>): Promise<Outcome<O, A, M>> {
    const { t, s } = this
    const { lines, pages } = ended.decision
    this.say(lines)
    const next = lines.find((l) => l.next !== undefined)?.next ?? s.next(this.node.name)
    for (const event of pages) this.#page(event, next)
    const outcome = this.outcome(ended)
    try {
      writeReceipt(t.p, outcome.receipt)
      if (s.history && isNews(outcome.receipt, ended.observation?.last))
        (await import('../store/receipt-history.ts')).keepReceipt(t.p, outcome.receipt)
    } catch (err) {
      this.#sayNotKept(errorWords(err))
    }
    return outcome
  }

  #page({ kind, failing, of, news, ...words }: PageEvent, next: string): void {
    const { p, config, log } = this.t
    const pager = { p, config, log, now: now(p) }
    const whom = of ?? this.node.name
    if (!failing) {
      pageRecovered(pager, kind, whom, words)
      return
    }
    const paged = { next, ...words }
    if (page(pager, kind, whom, paged) !== undefined || news === undefined) return
    log.write(whom, { ...paged, level: 'PAGE', text: `${kind}: ${words.text}` }, { kind, page: news })
  }

  /** What the run comes to, with the receipt that it leaves or, when it is dry, would leave. */
  outcome({ decision, found = decision, facts, ...ended }: Ended<O, A, M>): Outcome<O, A, M> {
    const { s, t, node, actions, began } = this
    const at = now(t.p)
    const receipt: Receipt = {
      version: 1,
      supervisor: s.name,
      node: node.name,
      verdict: decision.verdict,
      layers: decision.marks,
      actions,
      at,
      durationMs: Math.round(monotonicMs() - began),
      hostNs: hostNamespaces(t.p),
      nextDueBootMs: at.bootMs + s.dueMs,
      extra: {
        ...s.facts(facts === undefined ? ended.observation : undefined, decision.memory, at, t),
        ...guardFacts(ended.observation, decision, at.bootMs),
        ...facts,
      },
    }
    return { node: node.name, ...ended, found, decision, actions, receipt }
  }
}

/** Why nothing is done. A pause is the same thing in every receipt, whatever was found beneath it. */
function guardFacts(o: Observed | undefined, { guard }: Decision<unknown, unknown>, bootMs: number): Facts {
  if (o?.paused) return { paused: true, guard: text('paused', o.paused), guardCode: 'paused' }
  if (guard === undefined) return {}
  const left = guard.eligibleInMs
  const eligible = left === undefined ? {} : { eligibleBootMs: bootMs + left }
  return { guard: guard.text, guardCode: guard.code, ...eligible }
}
