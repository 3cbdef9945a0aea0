import assert from 'node:assert/strict'
import type { SocketOwner } from '../../lib/host/listeners.ts'
import type { CloseLook, LinkState, PortListener, RelayUnits } from '../../lib/relay/types.ts'
import type { Decision, Observation } from '../../lib/supervisors/cdp-relay-watchdog/types.ts'

/** Builders for one observation, each well unless told otherwise. */

export const node = {
  name: 'muse',
  netns: 'warp-muse',
  gw: '10.201.35.1',
  peer: '10.201.35.2',
  cdpPort: 9410,
}
export const now = { wallMs: 1_800_000_000_000, bootMs: 10_000_000, bootId: 'boot-a' }
export const policy = { backoffBaseMs: 120_000, backoffMaxMs: 1_800_000 }
export const seen = <T>(value: T) => ({ seen: true, value }) as const
export const blind = (why: string) => ({ seen: false, why }) as const
export const link = (over: Partial<LinkState> = {}): LinkState => ({
  name: 've-1',
  exists: true,
  up: true,
  hasAddress: true,
  ...over,
})
export const timeout = {
  kind: 'timeout',
  stage: 'headers',
  detail: 'no answer within 5000 ms',
  ms: 5000,
} as const
export const refused = { kind: 'refused', stage: 'connect', detail: 'connection refused', ms: 1 } as const
export const well = { kind: 'answer', status: 200, body: '{"Browser":"Chrome/156"}', ms: 3 } as const
export const units = (over: Partial<RelayUnits> = {}): RelayUnits => ({
  socketLoad: 'loaded',
  socketActive: 'active',
  socketResult: 'success',
  listen: ['10.201.35.2:9410'],
  serviceLoad: 'loaded',
  serviceActive: 'inactive',
  serviceResult: 'success',
  ...over,
})
export const owner = (over: Partial<SocketOwner> = {}): SocketOwner => ({
  pid: 4711,
  startTicks: 99,
  program: 'socat',
  unit: 'session-1.scope',
  browser: false,
  ...over,
})
export const systemd = owner({ pid: 1, program: 'systemd', unit: 'init.scope' })
export const listener = (over: Partial<PortListener> = {}): PortListener => ({
  netns: 'warp-muse',
  address: '10.201.35.2',
  port: 9410,
  inode: 7,
  owners: [systemd],
  ...over,
})
export const chromium = listener({
  address: '127.0.0.1',
  inode: 8,
  owners: [owner({ pid: 900, program: 'chromium', unit: 'chromebox@muse.service', browser: true })],
})
export const close = (over: Partial<CloseLook> = {}): CloseLook => ({
  netns: seen({ exists: true, isNamespace: true }),
  peerLink: seen(link({ name: 'vp-1' })),
  inner: seen({ browser: 'answers', detail: 'Chrome/156' }),
  units: seen(units()),
  listeners: seen([listener(), chromium]),
  ...over,
})
export const look = (over: Partial<Observation> = {}): Observation => ({
  node,
  veth: seen(link()),
  answer: timeout,
  close: close(),
  ...over,
})
export const healthy = { answer: well, browser: 'Chrome/156' }

export interface Row {
  readonly name: string
  readonly o: Observation
  readonly state: string
  readonly code: string
  /** The whole of it, or a part that the code's own words do not hold. */
  readonly reason: RegExp | string
  /** Kinds of the planned actions, `remove:<pid>` for a listener. */
  readonly actions: readonly string[]
  readonly level?: string
  readonly next?: string
  readonly page?: boolean
}

function isReason(reason: string, row: Row): void {
  if (typeof row.reason === 'string') assert.equal(reason, row.reason)
  else assert.match(reason, row.reason)
}

/** What every row says of a decision. */
export function decided(d: Decision, row: Row): void {
  assert.deepEqual([d.verdict.state, d.verdict.code], [row.state, row.code])
  isReason(d.verdict.reason, row)
  assert.deepEqual(kinds(d), row.actions)
  assert.equal(pages(d), row.page ?? false)
  if (row.level !== undefined) assert.equal(level(d), row.level)
}

/** Is a person called? */
export const pages = (d: Decision) => d.pages.some((p) => p.failing)
export const level = (d: Decision) => d.lines[0]?.level
export const restart = ['restart-relay']
export const kinds = (d: Decision) =>
  d.actions.map((a) =>
    a.kind === 'remove-listener'
      ? `remove:${a.owner.pid}`
      : a.resetFailed
        ? 'reset-and-restart-relay'
        : a.kind,
  )
