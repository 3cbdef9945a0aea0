import type { Config } from '../base/config.ts'
import type { Deadline } from '../base/deadline.ts'
import type { Words } from '../base/errors.ts'
import type { Paths } from '../base/paths.ts'
import type {
  LayerMark,
  Node,
  Now,
  Receipt,
  ReceiptAction,
  Supervisor as SupervisorName,
  Verdict,
} from '../base/types.ts'
import type { ParsedRegistry } from '../registry/read.ts'
import type { Code } from '../report/codes.ts'
import type { Line } from '../report/line.ts'
import type { Log } from '../report/log.ts'
import type { PageKind } from '../report/page.ts'

/** What every look has, whatever else a supervisor sees. */
export interface Observed {
  /** The pause that is in force, from the conductor: the node is looked at and reported, and left alone. */
  readonly paused?: { readonly by: string; readonly reason: string }
  /** What the last run left, where a supervisor reads it; `history` is kept against it. */
  readonly last?: Receipt
}

/** What keeps a run from acting. */
export interface Guard<C extends string = string> {
  /** A code of the table, where it has one. */
  readonly code: C
  readonly text: string
  /** Milliseconds until this guard lets go; absent when time alone will not do it. */
  readonly eligibleInMs?: number
}

/** A fault that needs a person, or the end of one; `code` and `text` are what the page says. */
export interface PageEvent {
  readonly kind: PageKind
  readonly failing: boolean
  readonly code: Code
  readonly cause?: string
  readonly text: string
  /** The command that the page names. Default: that of the first line that has one. */
  readonly next?: string
  /** Whom it is about. Default: the node. */
  readonly of?: 'fleet'
  /** Reported even while this fault's page is open: what the journal's field `NETVM_PAGE` says then. */
  readonly news?: string
}

/** What one look means and what is to be done about it: the result of every `decide`. Data only. */
export interface Decision<A, M> {
  readonly verdict: Verdict
  readonly marks: readonly LayerMark[]
  /** Why nothing is done now. */
  readonly guard?: Guard
  readonly actions: readonly A[]
  /**
   * Take the node lock, look again and decide again, at once or after NETVM_CONFIRM_DELAY: before an action, and for a
   * fault that another run may be working on. Absent: this look is enough.
   */
  readonly confirm?: 'at-once' | 'after-delay'
  /** The same object as the one given when nothing changed: no state is written then. */
  readonly memory: M
  readonly lines: readonly Line[]
  readonly pages: readonly PageEvent[]
}

/** One run of a supervisor: what it may use, how long it has and for whom it is made. */
export interface Tick {
  readonly p: Paths
  readonly config: Config
  readonly log: Log
  readonly registry: ParsedRegistry
  /** The end of the run: everything that is done for any node shares it. */
  readonly deadline: Deadline
  /** How long to wait for the lock of a node, in milliseconds; 0 is not at all. */
  readonly lockWaitMs: number
  /** A person started it, or a script of theirs, and no timer. */
  readonly byHand: boolean
  /** Looks and decides, and does, says and keeps nothing. */
  readonly dryRun: boolean
  /** The nodes that were named; empty for all. */
  readonly named: readonly string[]
  /** Tells a person, and nobody else, what the run waits for. */
  readonly tell: (message: string) => void
}

/** What the code of an action says of it, with the words that go with it. */
export interface Did {
  readonly helped: boolean
  readonly code: Code
  readonly text: string
}

export type Facts = Receipt['extra']

/** How a run of one node ends once something was tried. */
export interface Done<A, M> {
  /** What is so now: verdict, memory, and the lines and pages that are still to be said. */
  readonly decision: Decision<A, M>
  readonly actions: readonly ReceiptAction[]
  /** What the receipt keeps in place of the facts of the look, which are old now. */
  readonly facts?: Facts
  readonly did?: Did
}

export type Acted<O, A, M> =
  /** Only a lower layer was touched: the run goes on with what is seen now, without the lock. */
  | { readonly look: O; readonly actions: readonly ReceiptAction[] }
  | Done<A, M>
  /** The rest needs no lock: a verification that others need not wait for. */
  | { readonly unlocked: () => Promise<Done<A, M>> }

/** What an action may use, under the node lock. */
export interface Round<O, A, M> {
  readonly observation: O
  /** Made under the lock; it has an action. */
  readonly decision: Decision<A, M>
  /** The decision that took the lock. */
  readonly asked: Decision<A, M>
  /** Writes the memory durably, before anything is touched. @returns why that cannot be done, or undefined */
  record(memory: M): Words | undefined
  /** Reports now what is not to wait for the end of the run. */
  say(lines: readonly Line[]): void
}

/** What a supervisor is to the conductor, `tick.ts`: a record of functions and numbers. */
export interface Supervisor<O extends Observed, A, M extends object> {
  readonly name: SupervisorName
  /** When the next run should have replaced a receipt, in milliseconds from it. */
  readonly dueMs: number
  /** The last receipts that were news are kept. Default false. */
  readonly history?: boolean
  /** The command that shows more of a node. */
  next(node: string): string
  readonly memory: {
    /** @throws on anything that this supervisor would not have written */
    parse(raw: unknown): M
    /** Stands in for a file that cannot be read: never one that forgets a hold or an open circuit. */
    cautious(at: Now, t: Tick): M
    fresh(at: Now): M
    /** Nothing to remember: the file goes. Default: never. */
    blank?(memory: M): boolean
    /** What the cautious memory means for people, as the end of a sentence, and the command that ends it. */
    lost(node: string, t: Tick): { readonly more: string; readonly next?: string }
    /** `node`: only a holder of the node lock writes it. `run`: the run itself is the only one. */
    readonly lock: 'node' | 'run'
    /** A memory that cannot be written ends the run of this node. Default false: that is reported, no more. */
    readonly vital?: boolean
  }
  observe(t: Tick, node: Node): Promise<O>
  /** What else a decision needs to see; the same object when that is nothing. Default: nothing. */
  lookCloser?(t: Tick, node: Node, observation: O, decision: Decision<A, M>): Promise<O>
  /**
   * Called before the lock is taken, so that a question may be asked meanwhile.
   * @returns the second look, to be taken under the lock; `waited`: what was seen or asked before is old
   */
  lookAgain(t: Tick, node: Node, first: O, decision: Decision<A, M>): (waited: boolean) => Promise<O>
  /** Pure, but for what the tick says of configuration, names and time left. */
  decide(observation: O, memory: M, at: Now, t: Tick): Decision<A, M>
  /** What the first look leads to is reported and kept before the lock is taken. Default false. */
  readonly tellsFirst?: boolean
  /** What the lock is held for, in words. */
  doing(decision: Decision<A, M>): string
  /** Carries out a decision that was made under the lock; imported when it is needed. */
  act(t: Tick, node: Node, round: Round<O, A, M>): Promise<Acted<O, A, M>>
  /** What is so when the lock stays with another. Default: the run of the node fails with the LockedError. */
  locked?(decision: Decision<A, M>, err: Error, node: Node): Decision<A, M>
  /** What the receipt keeps for status displays. @param observation absent when it is old, or there was none */
  facts(observation: O | undefined, memory: M, at: Now, t: Tick): Facts
}

/** What one run made of one node. */
export interface Outcome<O, A, M> {
  readonly node: string
  /** The last look; absent when the run failed before one. */
  readonly observation?: O
  /** What that look led to, before anything was done. */
  readonly found: Decision<A, M>
  /** What is so at the end. */
  readonly decision: Decision<A, M>
  readonly actions: readonly ReceiptAction[]
  readonly did?: Did
  readonly receipt: Receipt
}
