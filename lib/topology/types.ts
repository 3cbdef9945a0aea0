import type { Look, MarkState, Node, Now } from '../base/types.ts'
import type { OwnedListener } from '../host/listeners.ts'
import type { Interface } from '../host/netns.ts'
import type { ifNames } from '../registry/names.ts'
import type { ParsedRegistry } from '../registry/read.ts'
import type { RelayLook } from '../relay/types.ts'
import type { Observation } from '../supervisors/chromebox-watchdog/types.ts'

/** Stands for the host's own namespace, which has no name under /run/netns; no name there can be empty. */
export const HOST = ''

/** A loaded unit of ours, as `systemctl show` prints it. */
export interface UnitSeen {
  readonly id: string
  readonly active: string
  /** Sockets only: `<address>:<port>`. */
  readonly listen: readonly string[]
}

export interface BrowserSeen {
  readonly pid: number
  /** The value of its `--user-data-dir=`, below the directory of all profiles. */
  readonly node: string
  readonly unit: string
  /** Inode of its network namespace, when that could be read. */
  readonly netns?: number | undefined
}

/** What is in one namespace of ours. */
export interface InsideLook {
  readonly inode?: number | undefined
  readonly links: Look<readonly Interface[]>
}

/** One active local node, as its two watchdogs look at it. */
export interface NodeLook {
  readonly watchdog: Observation
  readonly relay: RelayLook
}

/** Everything that was looked at, once, by connectivity: no pidfile, no state of ours. */
export interface FleetLook {
  readonly host: string
  readonly now: Now
  readonly netnsDir: string
  readonly registry: Pick<ParsedRegistry, 'nodes' | 'errors'>
  readonly names: ReadonlyMap<string, ReturnType<typeof ifNames>>
  readonly hostLinks: Look<readonly Interface[]>
  readonly namespaces: Look<{ readonly names: readonly string[]; readonly others: readonly string[] }>
  readonly inside: ReadonlyMap<string, InsideLook>
  readonly listeners: Look<readonly OwnedListener[]>
  readonly units: Look<readonly UnitSeen[]>
  readonly browsers: Look<readonly BrowserSeen[]>
  readonly nodes: ReadonlyMap<string, NodeLook>
}

/** The layers of the other screens, and the two ends of the veth. */
export type Part = 'veth' | 'netns' | 'peer' | 'egress' | 'process' | 'cdp' | 'page' | 'relay'

export interface PartMark {
  readonly part: Part
  readonly state: MarkState
  readonly note: string
  /** The finding's code where it fails or could not be looked at. */
  readonly code?: string | undefined
}

export interface NodeTopology {
  readonly node: string
  readonly port: number
  readonly parts: readonly PartMark[]
}

export interface Stray {
  readonly kind: 'listener' | 'netns' | 'veth' | 'browser' | 'relay-unit' | 'retired'
  readonly what: string
  /** The command that removes it; absent when it may belong to a row, which is then named in `why`. */
  readonly remove?: string
  readonly why: string
}

export interface Topology {
  readonly host: string
  readonly nodes: readonly NodeTopology[]
  readonly strays: readonly Stray[]
  /** Seen, and left alone: what belongs to a row that was refused or that another host runs. */
  readonly notes: readonly Stray[]
  /** What could not be looked at, and why. */
  readonly blind: readonly string[]
}

/** Whose a name is. `unknown-row`: a refused row has no readable name, so anything nameless may be its. */
export type Ownership =
  | { readonly is: 'active'; readonly row: Node }
  | { readonly is: 'retired' }
  | { readonly is: 'refused' | 'elsewhere' | 'unknown-row'; readonly why: string }
  | { readonly is: 'none' }
