import type { Config } from '../base/config.ts'
import type { Paths } from '../base/paths.ts'
import type { Look, VerdictState } from '../base/types.ts'
import type { FetchResult } from '../host/curl.ts'
import type { WgDump } from '../tunnel/wg-dump.ts'

/** What the egress functions need of a run. */
export interface EgressContext {
  readonly p: Paths
  readonly config: Config
}

/** Everything `judgeEgress` may weigh. Only `probes` is looked at while any of them answers. */
export interface EgressFacts {
  readonly node: string
  /** A tunnel configuration exists for this node. */
  readonly configured: boolean
  /** Name of the WireGuard interface, for the reason texts. */
  readonly wg: string
  /** Results of the requests of `egressRequests`, not seen when curl could not be run. */
  readonly probes: Look<readonly FetchResult[]>
  /** `undefined` inside: the interface is not there. Absent: not looked at. */
  readonly dump?: Look<WgDump | undefined>
  /** The peer sent something while the second round of probes ran. */
  readonly rxGrew?: boolean
  /** The interface is as old as this run's restart, so a handshake on it is a fresh one. */
  readonly afterRestart?: boolean
  /** `ActiveState` of netvm-tunnel@<node> and how it ended, e.g. `failed`, `signal 9`. */
  readonly unit?: Look<{ readonly active: string; readonly detail: string }>
  /** Where the configured endpoints point now, as `ip:port`. */
  readonly endpoints?: Look<readonly string[]>
  /** Why the configuration file is refused, naming the line and no value. */
  readonly confProblem?: string
  /** Wall-clock milliseconds, for the age of handshakes only. */
  readonly wallMs?: number
  /** Latest handshake that an earlier run kept (wall-clock ms): reveals a clock that went back across a reboot. */
  readonly keptHandshakeMs?: number
}

/** The faults of this layer, codes of `report/codes.ts`. */
export type EgressFault =
  | 'egress-config'
  | 'egress-interface-missing'
  | 'egress-unit-inactive'
  | 'egress-no-peers'
  | 'egress-clock'
  | 'egress-no-handshake'
  | 'egress-endpoint-moved'
  | 'egress-peer-silent'
  | 'egress-dns'
  | 'egress-behind-peer'
  | 'egress-no-answer'

/** `uplink-down` once the other rows were asked: the fault is everybody's. */
export type EgressCode = 'ok' | 'not-configured' | 'egress-unseen' | 'uplink-down' | EgressFault

export interface EgressVerdict {
  readonly state: VerdictState | 'not-configured'
  readonly code: EgressCode
  /** The text of the code; empty when healthy. */
  readonly reason: string
  readonly evidence: readonly string[]
  /**
   * Unhealthy only: a restart of the tunnel may help (D3). False for a clock that went back and for a
   * refused configuration: page the tunnel fault at once, a restart would only repeat itself.
   */
  readonly repair: boolean
  /** A remark on a healthy layer, e.g. that names do not resolve while an address answers. */
  readonly note?: string
}

/** What one restart of a tunnel did. */
export interface TunnelRepair {
  readonly ok: boolean
  /** `tunnel restart OK after <s>s` or `tunnel restart FAILED`. */
  readonly text: string
  /** How egress looked afterwards: healthy when `ok`. */
  readonly verdict: EgressVerdict
  readonly evidence: readonly string[]
  readonly startedWallMs: number
  readonly durationMs: number
}

export type EgressAnswer = 'pass' | 'fail' | 'unknown'

/** How the egress of the fleet looked when one node's had failed. */
export interface UplinkFacts {
  /** This node: always `fail` when the question is asked before a restart. */
  readonly self: EgressAnswer
  /** Every other active local row that has a tunnel. */
  readonly others: readonly { readonly node: string; readonly egress: EgressAnswer }[]
  /** The host's own probe of the same URLs, outside every tunnel. */
  readonly host: EgressAnswer
}

export interface UplinkAnswer {
  readonly down: boolean
  /** `uplink down` when down, else empty. */
  readonly reason: string
  readonly evidence: readonly string[]
  readonly facts: UplinkFacts
}
