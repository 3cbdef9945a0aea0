/** The egress layer as this supervisor sees it; lib/egress is behind it. */
export interface EgressFinding {
  readonly state: 'ok' | 'down' | 'uplink-down' | 'unknown' | 'not-configured'
  /** Kebab-case word for programs. */
  readonly code: string
  /** `egress down: …`, `uplink down`, or why we could not look; empty when well. */
  readonly reason: string
  readonly evidence: readonly string[]
  readonly note?: string
}
