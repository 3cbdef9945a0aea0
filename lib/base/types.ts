/** A registry row that passed every check. Addresses are plain IPv4 text without a prefix length. */
export interface Node {
  /** `[a-z0-9][a-z0-9-]{0,31}`: safe in unit names, paths and argv. */
  readonly name: string
  readonly agent: string
  /** Always `warp-<name>`. */
  readonly netns: string
  readonly cdpPort: number
  /** The host's end of the /30. */
  readonly gw: string
  /** The namespace's end of the /30, where the relay listens. */
  readonly peer: string
  /** `127.0.0.1:<cdpPort>`: what the relay forwards to inside the namespace. */
  readonly relayTarget: string
  readonly status: 'active' | 'retired'
  /** Absolute http(s) URL, or empty. */
  readonly chatUrl: string
  /** Text that must occur in a page's title; empty means any page that is not an error page. */
  readonly chatTitle: string
  /** Empty, a path that starts with `/`, or an absolute http(s) URL. */
  readonly apiCheck: string
  /** Empty, or the host name that runs this row. */
  readonly host: string
  /** 1-based line of the row in the registry file. */
  readonly line: number
}

/** One reading of the clocks. Durations use `bootMs`; `wallMs` is for people and log lines only. */
export interface Now {
  readonly wallMs: number
  /** Milliseconds since boot, suspend included (CLOCK_BOOTTIME). */
  readonly bootMs: number
  readonly bootId: string
}

/** The path of a node in order of attribution: the first failing layer owns the fault. */
export const LAYERS = ['registry', 'netns', 'egress', 'process', 'cdp', 'page', 'relay', 'api'] as const

export type Layer = (typeof LAYERS)[number]

export type VerdictState = 'healthy' | 'unhealthy' | 'unknown'

/** What a supervisor says of a node. `unknown` never causes an action and never reads as healthy. */
export interface Verdict {
  readonly state: VerdictState
  /** The lowest failing (or unknown) layer; absent when healthy. */
  readonly layer?: Layer
  /** A code of `report/codes.ts`, which programs decide on, e.g. `netns-missing`; `ok` when healthy. */
  readonly code: string
  /** The human sentence; the contract's texts stand here verbatim. Empty when healthy. */
  readonly reason: string
  /** Short facts that led here, one per entry, already cleaned of control characters. */
  readonly evidence: readonly string[]
}

export type MarkState = 'ok' | 'fail' | 'unknown' | 'not-checked' | 'not-configured' | 'paused'

/** How one layer looked in one run. */
export interface LayerMark {
  readonly layer: Layer
  readonly state: MarkState
  /** The finding's code where the layer fails or could not be looked at. */
  readonly code?: string
  /** Short explanation, e.g. `pid 4711, 87 s old`. */
  readonly note?: string
}

/**
 * The result of a look at something outside: `seen` with what was there, or not seen with why we
 * could not look. "Could not look" is not "is not there".
 */
export type Look<T> =
  | { readonly seen: true; readonly value: T }
  | { readonly seen: false; readonly why: string }

export type Supervisor = 'chromebox-watchdog' | 'cdp-relay-watchdog' | 'agent-health'

export const SUPERVISORS: readonly Supervisor[] = ['chromebox-watchdog', 'cdp-relay-watchdog', 'agent-health']

/** One thing a run did, as it is kept in the receipt. */
export interface ReceiptAction {
  /** The action's kind, e.g. `relaunch-browser`. */
  readonly kind: string
  /** How it ended, a code of `report/codes.ts`; absent in receipts of earlier releases. */
  readonly code?: string
  readonly startedWallMs: number
  readonly durationMs: number
  /** True when a look afterwards found the fault gone. */
  readonly helped: boolean
  readonly detail: string
}

/** What a run leaves behind, healthy or not; replaces the previous one. */
export interface Receipt {
  readonly version: 1
  readonly supervisor: Supervisor
  readonly node: string
  readonly verdict: Verdict
  readonly layers: readonly LayerMark[]
  readonly actions: readonly ReceiptAction[]
  readonly at: Now
  readonly durationMs: number
  /** Inodes of the host's own namespaces, so that a reader knows when it is in others. */
  readonly hostNs: { readonly net: number; readonly pid: number }
  /** Boot milliseconds by which the next run should have replaced this receipt. */
  readonly nextDueBootMs: number
  /** Supervisor-specific facts for status displays: held, circuit, backoff, browser pid... */
  readonly extra: Readonly<Record<string, string | number | boolean>>
}

export type LogLevel = 'INFO' | 'WARN' | 'FAIL' | 'FAIL_LOUD' | 'PAGE'
