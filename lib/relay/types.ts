import type { LogLevel, Look, Node, Verdict } from '../base/types.ts'
import type { HttpAnswer } from '../host/http.ts'
import type { OwnedListener, SocketOwner } from '../host/listeners.ts'
import type { NetnsLook } from '../host/netns.ts'

/** A host or namespace interface, as `ip -j addr` reports it. */
export interface LinkState {
  readonly name: string
  readonly exists: boolean
  readonly up: boolean
  /** It carries the address that was asked for, with prefix length 30. */
  readonly hasAddress: boolean
}

/** The relay's two units, as systemd reports them. */
export interface RelayUnits {
  /** `not-found`, `masked`, `loaded`... of the socket. */
  readonly socketLoad: string
  readonly socketActive: string
  readonly socketResult: string
  /** The addresses that the loaded unit listens on, `<address>:<port>`. */
  readonly listen: readonly string[]
  /** Like `socketLoad`, of the service. */
  readonly serviceLoad: string
  readonly serviceActive: string
  readonly serviceResult: string
}

/** A TCP listener that matters to a node: on its port in its namespace, or its port on another node's address. */
export interface PortListener extends OwnedListener {
  /** The row whose peer address this is, when it is another node's. */
  readonly otherNode?: string
}

/** What the browser itself says, asked inside the namespace on its loopback, past the relay. */
export interface InnerAnswer {
  readonly browser: 'answers' | 'refused' | 'silent' | 'not-a-browser' | 'squatted'
  readonly detail: string
  /** Of the browser that answers. */
  readonly id?: string
}

/** The look that is taken only when a relay did not answer. */
export interface CloseLook {
  readonly netns: Look<Pick<NetnsLook, 'exists' | 'isNamespace'>>
  readonly peerLink: Look<LinkState>
  readonly inner: Look<InnerAnswer>
  readonly units: Look<RelayUnits>
  readonly listeners: Look<readonly PortListener[]>
}

/** One look at a relay and, when it did not answer, at what is around it. */
export interface RelayLook {
  readonly node: Pick<Node, 'name' | 'netns' | 'gw' | 'peer' | 'cdpPort'>
  readonly veth: Look<LinkState>
  /** The host's question to the relay; `browser` is what the answer said, when it was a browser's. */
  readonly answer: HttpAnswer
  readonly browser?: string
  /** The id in a browser's answer that is not proved to be the node's own. */
  readonly id?: string
  readonly close?: CloseLook
}

export type RelayAction =
  | {
      readonly kind: 'remove-listener'
      readonly listener: PortListener
      readonly owner: SocketOwner
    }
  | {
      readonly kind: 'restart-relay'
      /** The service runs or was failed: it is stopped before its socket restarts. */
      readonly stopService: boolean
      /** The socket or service was failed: `reset-failed` first, or systemd refuses to start it. */
      readonly resetFailed: boolean
    }

/** A finding before pauses and back-off are applied to it. */
export interface Finding {
  readonly verdict: Verdict
  readonly level?: LogLevel
  readonly next?: string
  readonly actions?: readonly RelayAction[]
  readonly page?: boolean
}
