import { said } from '../report/line.ts'
import { type PageContext, page, pageRecovered } from '../report/page.ts'
import type { UplinkAnswer } from './types.ts'

/**
 * Pages `uplink down` for the whole fleet: every run that finds it may call this, and one of them speaks (the page's
 * own lock and record see to that).
 */
export function pageUplink(ctx: PageContext, answer: UplinkAnswer): void {
  page(ctx, 'uplink-fault', 'fleet', {
    code: 'uplink-down',
    text: `${answer.reason}: ${answer.evidence.join(', ')}`,
    next: 'box fleet status',
  })
}

/**
 * For a run whose node's egress passes. Half of the fleet may still be cut off: each of its runs says so again, which
 * starts the recovery's holding time anew, so the recovery is told only once all of them have been quiet.
 */
export function uplinkPasses(ctx: PageContext): void {
  pageRecovered(ctx, 'uplink-fault', 'fleet', said('uplink-recovered'))
}
