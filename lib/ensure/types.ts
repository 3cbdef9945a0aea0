import type { Node } from '../base/types.ts'

/** One unit as systemd has it. Times are milliseconds of CLOCK_MONOTONIC, the clock that systemd prints. */
export interface UnitLook {
  /** `loaded`, `not-found`, `masked`, `bad-setting`... */
  readonly load: string
  /** `enabled`, `disabled`, `masked`, `static`... */
  readonly file: string
  readonly active: string
  readonly sub: string
  readonly result: string
  readonly needReload: boolean
  readonly activeSinceMs?: number | undefined
  /** When it last left `inactive`: the start of a oneshot that is running. */
  readonly startedMs?: number | undefined
  /** A service's start timeout; Infinity when it has none. */
  readonly startTimeoutMs?: number | undefined
  /** How the main process ended: `exited` with its status, or something else. */
  readonly exit?: { readonly exited: boolean; readonly status: number } | undefined
  /** A timer's `OnUnitActiveSec`, the shortest of several. */
  readonly periodMs?: number | undefined
  /** A timer's first elapse after it is armed or the host booted; absent when it has none. */
  readonly firstMs?: number | undefined
  /** How much later than due a timer may fire: its accuracy and its random delay together. */
  readonly lateMs?: number | undefined
  /** The unit that a timer starts. */
  readonly fires?: string | undefined
  /** A service's command lines, `program argument...`. */
  readonly exec?: readonly string[] | undefined
  /** `NetworkNamespacePath=` of a service or a socket; empty when it has none. */
  readonly netns?: string | undefined
  /** A service whose run is over when its process has ended (`Type=oneshot`, not `RemainAfterExit=`). */
  readonly ends?: boolean | undefined
  /** The last start was refused by a condition or an assertion of the unit. */
  readonly refused?: boolean | undefined
  /** Files that are not ours and change the unit, the one that wins last. */
  readonly foreign?: readonly ForeignFile[] | undefined
  /** Infinity when nothing is scheduled. */
  readonly nextMs?: number | undefined
  /** Absent when it never triggered in this boot. */
  readonly lastMs?: number | undefined
  /** A socket's addresses, `10.201.35.2:9410`. */
  readonly listen?: readonly string[] | undefined
}

/** A drop-in, or a whole unit file in place of ours, that somebody else made. */
export interface ForeignFile {
  /** As a word of a shell command. */
  readonly path: string
  /** The settings in it, `OnUnitActiveSec`. */
  readonly keys: readonly string[]
}

export interface WantedFile {
  readonly path: string
  readonly text: string
  /** What it is, for people. */
  readonly what: string
}

/** Somebody else's supervision of the same node (or of the fleet). */
export interface Legacy {
  /** A node's name, or `fleet`. */
  readonly scope: string
  readonly what: string
  /** The command that removes it. */
  readonly remove: string
  /** It acts on its own (a timer, a cron line), so ours must not run beside it. */
  readonly armed: boolean
}

export interface NodeLook {
  readonly node: Node
  /** The files that its settings need, with what is there now (`undefined`: nothing). */
  readonly files: readonly { readonly want: WantedFile; readonly have: string | undefined }[]
  readonly queueReady: boolean
  /** Its WireGuard configuration is there. */
  readonly tunnelConfigured: boolean
}

/** An instance of our units for which this host has no active row. */
export interface Orphan {
  readonly name: string
  readonly why: 'retired' | 'removed'
  /** Units of it that systemd has enabled (`netvm-node@x.target`, the timer). */
  readonly enabled: readonly string[]
  /** Units of it that are active. */
  readonly active: readonly string[]
  /** Our files that are left of it. */
  readonly files: readonly string[]
}

export interface Observation {
  /** CLOCK_MONOTONIC in milliseconds. */
  readonly nowMs: number
  readonly nodes: readonly NodeLook[]
  readonly orphans: readonly Orphan[]
  /** Rows that were refused, as sentences, with the command that opens the file. */
  readonly rowErrors: readonly { readonly scope: string; readonly text: string; readonly next: string }[]
  readonly units: Readonly<Record<string, UnitLook>>
  /** Unit files of the product that are not in place, by file name; `undefined` text: no copy to install. */
  readonly missingUnitFiles: readonly { readonly name: string; readonly copy: string | undefined }[]
  readonly legacy: readonly Legacy[]
  /** Units whose failure an earlier run of ours reset, with the age of that reset in milliseconds. */
  readonly resetAgoMs: Readonly<Record<string, number>>
  /** The boot's own record that every receipt is compared with is not there. */
  readonly bootIdMissing: boolean
}

/** What is done to units, in this order: what stops comes before what starts. */
export const VERBS = ['stop', 'disable', 'reset-failed', 'enable', 'restart'] as const

export type Verb = (typeof VERBS)[number]

export type Action =
  | { readonly kind: 'write-file'; readonly path: string; readonly text: string }
  | { readonly kind: 'remove-files'; readonly paths: readonly string[] }
  | { readonly kind: 'reload' }
  | { readonly kind: 'make-queue'; readonly node: string }
  | { readonly kind: Verb; readonly unit: string }

/** One thing that is not as it should be. */
export interface Finding {
  /** A node's name, or `fleet`. */
  readonly scope: string
  /** Stable word for programs and tests. */
  readonly code: string
  /** What is wrong. */
  readonly says: string
  /** What repairs it; empty when only a person may. */
  readonly actions: readonly Action[]
  /** What the actions did, in words. */
  readonly did: string
  /** The command for a person, when we do not act. */
  readonly next?: string
  /** Loud: worth a page besides the line. */
  readonly page?: boolean
}

/** One thing that was changed, or is still wrong. */
export interface Note {
  /** A node, or `fleet`. */
  readonly scope: string
  readonly text: string
  /** The command for a person. */
  readonly next?: string | undefined
}
