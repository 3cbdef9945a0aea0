import type { Layer, Supervisor } from '../base/types.ts'

/** The path of a node as the status shows it; `registry` is where the node's name comes from. */
export const PATH = ['netns', 'egress', 'process', 'cdp', 'page', 'relay', 'api'] as const

export type PathLayer = (typeof PATH)[number]

/** Whose word on a layer counts before everybody else's (CONTRACT.md). The namespace's is the one half of netns. */
export const OWNER: Readonly<Record<PathLayer, Supervisor>> = {
  netns: 'chromebox-watchdog',
  egress: 'chromebox-watchdog',
  process: 'chromebox-watchdog',
  cdp: 'chromebox-watchdog',
  page: 'chromebox-watchdog',
  relay: 'cdp-relay-watchdog',
  api: 'agent-health',
}

/**
 * Periods of the release's timers in milliseconds, as units/ has them. Evidence is judged by these and not by what a
 * receipt says of its own due time, which has slack in it and would stretch the limit.
 */
export const PERIOD_MS: Readonly<Record<Supervisor, number>> = {
  'chromebox-watchdog': 120_000,
  'cdp-relay-watchdog': 300_000,
  'agent-health': 300_000,
}

/**
 * What one run of a loop over all rows may take, in milliseconds (its unit's TimeoutStartSec): its first receipts are
 * that old at its end.
 */
export const LOOP_RUN_MS = 280_000

/** Evidence older than this many periods is history. */
export const MAX_PERIODS = 3

/** The layers a healthy run of each supervisor has vouched for. */
export const VOUCHED: Readonly<Record<Supervisor, readonly Layer[]>> = {
  'chromebox-watchdog': ['netns', 'egress', 'process', 'cdp', 'page'],
  'cdp-relay-watchdog': ['netns', 'relay'],
  'agent-health': ['cdp', 'relay', 'api'],
}

/** What lives in the browser: what was said about it before the browser (re)started is void. */
export const OF_THE_BROWSER: ReadonlySet<Layer> = new Set<Layer>(['process', 'cdp', 'page', 'api'])

/** The unit without its suffix that runs a supervisor for a node; the fleet-wide ones serve all nodes. */
export function unitOf(s: Supervisor, node: string): string {
  return s === 'chromebox-watchdog' ? `chromebox-watchdog@${node}` : s
}
