import { type PageContext, page } from '../report/page.ts'
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
