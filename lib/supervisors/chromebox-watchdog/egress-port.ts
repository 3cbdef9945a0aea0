import type { EgressVerdict } from '../../egress/types.ts'

/** The egress layer as this supervisor weighs it; lib/egress says it. */
export interface EgressFinding {
  readonly state: 'ok' | 'down' | 'uplink-down' | 'unknown' | 'not-configured'
  /** Kebab-case word for programs. */
  readonly code: string
  /** `egress down: …`, `uplink down`, or why we could not look; empty when well. */
  readonly reason: string
  readonly evidence: readonly string[]
  readonly note?: string
  /** Down, and a restart of the tunnel would only repeat itself (D3 is skipped, the page is not). */
  readonly futile?: true
}

export const NOT_CONFIGURED: EgressFinding = {
  state: 'not-configured',
  code: 'not-configured',
  reason: '',
  evidence: [],
  note: 'not configured',
}

const STATES = {
  healthy: 'ok',
  unhealthy: 'down',
  unknown: 'unknown',
  'not-configured': 'not-configured',
} as const

export function egressFinding(v: EgressVerdict): EgressFinding {
  return {
    state: STATES[v.state],
    code: v.code,
    reason: v.reason,
    evidence: v.evidence,
    ...(v.note === undefined ? {} : { note: v.note }),
    ...(v.state === 'unhealthy' && !v.repair ? { futile: true as const } : {}),
  }
}
