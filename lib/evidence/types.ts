import type { Layer, Look, Now, Receipt, Supervisor } from '../base/types.ts'
import type { BrowserLook, CdpFinding, PageFinding } from '../browser/types.ts'
import type { NetnsLook } from '../host/netns.ts'
import type { Intent } from '../store/intent.ts'
import type { Message } from './message.ts'

/** Where a statement about a node comes from. `live` is a look made now, by us, at the thing itself. */
export type Source = 'live' | 'unit' | 'receipt' | 'journal' | 'log' | 'state' | 'none'

/** Everything `decide` may know of one node. Each part says for itself whether it could be looked at. */
export interface NodeFacts {
  readonly node: string
  readonly retired: boolean
  readonly now: Now
  readonly live: LiveFacts
  /** systemd's own record; not seen without a bus, or when that systemd does not know our units. */
  readonly units: Look<UnitFacts>
  /** Only receipts that root wrote get here; not seen: why (no permission, forged, unreadable). */
  readonly receipts: Readonly<Record<Supervisor, Look<Receipt | undefined>>>
  /** Not seen without root: the configuration holds a key. */
  readonly tunnel: Look<TunnelFact>
  /** Runs found in the journal; absent when it was not needed. */
  readonly journal?: Look<JournalFacts>
  /** Per supervisor the newest line about the node that is a failure or a recovery. */
  readonly logs: Look<readonly LogLine[]>
  readonly intent?: Pick<Intent, 'by' | 'reason' | 'untilWallMs'>
  /** The time of the pause on record, in force or over; within it a run ends with success whatever it finds. */
  readonly pausedBootMs?: { readonly from: number; readonly until: number }
  /** What the watchdog's memory says about a hold; not seen when the file could not be read. */
  readonly held: Look<boolean>
  /** Besides: hold and circuit in words, with their next probe. */
  readonly memos: readonly string[]
}

/** Whether a node is meant to have a tunnel. */
export interface TunnelFact {
  readonly configured: boolean
  /** Boot milliseconds: so for certain since then. Of a file that is not there: now. */
  readonly sinceBootMs: number
  readonly source: 'live' | 'unit'
  /** Systemd knows that it does not run although it was to: its state in words, and since when. */
  readonly down?: { readonly text: string; readonly sinceBootMs: number }
}

/** The answer to one GET of `/json/version` on the relay's address. */
export type CdpAnswer =
  /** A browser, and what its two answers amount to, read as the watchdog reads them. */
  | { readonly kind: 'browser'; readonly found: CdpFinding }
  /** An answer, or bytes, that no browser gives: something else sits on the relay's address, or on the browser's port. */
  | { readonly kind: 'not-a-browser'; readonly detail: string }
  /** Nobody listens there. */
  | { readonly kind: 'refused' }
  /** Taken and closed without a byte. */
  | { readonly kind: 'closed' }
  | { readonly kind: 'timeout'; readonly afterMs: number }
  /** The kernel has no way to the address. */
  | { readonly kind: 'unreachable'; readonly detail: string }

export interface LiveFacts {
  /** What a page must be titled and which port the browser has, for `judgeBrowser`. */
  readonly asked: { readonly title: string; readonly port: number }
  /** Seen only from the host's PID namespace with nothing hidden. */
  readonly process: BrowserLook['process']
  /** The node's namespace by its name; seen only where the directory of names is the host's. */
  readonly netns: { readonly name: string; readonly look: Look<NetnsLook> }
  /** The host's end of the veth, by its address; seen only from the host's network namespace. */
  readonly gateway: Look<boolean>
  /** Seen only from the host's network namespace. */
  readonly cdp: Look<CdpAnswer>
  readonly page: Look<PageFinding>
  /** The list of targets came and is one. */
  readonly listed: boolean
}

/** How the last run of a supervisor's service ended, as systemd remembers it. */
export interface UnitRun {
  /** False when there is no exit timestamp: such a unit says Result=success as well. */
  readonly ended: boolean
  readonly exitBootMs: number
  readonly status: number
  readonly result: string
}

export interface TimerFact {
  readonly state: 'armed' | 'unarmed' | 'missing'
  /** Why it is not armed, in words. */
  readonly why: string
  readonly enabled: boolean
}

export interface ServiceFact {
  readonly active: boolean
  /** Starting or stopping at this moment. */
  readonly changing: boolean
  /** Boot milliseconds of the last start; undefined when it never started in this boot. */
  readonly sinceBootMs?: number
  /** `inactive`, `failed (exit-code)`, … */
  readonly text: string
}

export interface UnitFacts {
  readonly netns: ServiceFact
  readonly browser: ServiceFact
  readonly relay: ServiceFact
  /** Absent when the tunnel's unit was never started in this boot. */
  readonly tunnel?: TunnelFact | undefined
  readonly timers: Readonly<Record<Supervisor, TimerFact>>
  readonly runs: Readonly<Record<Supervisor, UnitRun>>
}

/** One run of a node's supervisor in the journal, as PID 1 and the run itself reported it (root only). */
export interface JournalRun {
  readonly supervisor: Supervisor
  readonly endBootMs: number
  readonly outcome: 'success' | 'failure' | 'locked'
  /** The last failure line the run printed for this node. */
  readonly failure?: Message | undefined
}

export interface JournalFacts {
  readonly runs: readonly JournalRun[]
  /** Set when entries are known to be missing (rate limit, vacuumed): then a success proves nothing. */
  readonly incomplete?: string | undefined
  /** Why there may have been runs that are not in the journal: it does not reach back that far. */
  readonly begins?: string | undefined
}

export interface LogLine extends Message {
  readonly supervisor: Supervisor
  readonly wallMs: number
  readonly level: string
}

/** `absent`: the node has no such layer (no tunnel configured), and that is healthy. */
export type FactState = 'ok' | 'fail' | 'unknown' | 'absent'

/** What is said of one layer. */
export interface Mark {
  readonly state: FactState
  readonly note: string
  /** The finding's code, where it fails or could not be looked at and that is known. */
  readonly code?: string | undefined
}

/** What is known of one layer after everything was weighed. */
export interface LayerKnowledge extends Mark {
  readonly layer: Layer
  readonly source: Source
  readonly ageMs: number
  /** Who looks at what is not known of it, where that is not the layer's owner. */
  readonly next?: Supervisor
}

/** Something that could not be looked at, or does not count. */
export interface Unknown {
  /** `receipt`, `units`, `journal`, `logs`, a live look. */
  readonly what: string
  /** Whose, when it is one supervisor's. */
  readonly supervisor?: Supervisor
  readonly why: string
}

export type Word = 'ACTIVE' | 'ACTIVE [*]' | 'DEGRADED' | 'STOPPED' | 'PAUSED' | 'HELD DOWN' | 'UNKNOWN'

export interface NodeVerdict {
  readonly node: string
  readonly word: Word
  /** The word without the pause: what the exit status counts. */
  readonly beneath: Exclude<Word, 'PAUSED'>
  /** The failing layer of DEGRADED, where it is known. */
  readonly layer?: Layer
  readonly reason: string
  /** What the word rests on. */
  readonly source: Source
  readonly ageMs: number
  readonly layers: readonly LayerKnowledge[]
  /** Everything an operator should know besides: unarmed timers, a pause, an overdue run. */
  readonly notes: readonly string[]
  /** Why anything is unknown. */
  readonly unknowns: readonly Unknown[]
}

/** For anything read over CDP from this shell. */
export type Readable = 'OK' | 'BLIND' | 'DOWN' | 'UNKNOWN'
