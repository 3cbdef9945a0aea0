import { now } from '../base/clock.ts'
import { DEFAULTS } from '../base/config.ts'
import { ConfigError } from '../base/errors.ts'
import type { Paths } from '../base/paths.ts'
import { said } from './line.ts'
import type { Log } from './log.ts'
import { type PageContext, page, pageRecovered, type Say } from './page.ts'

/**
 * A broken netvm.env or registry stops every supervisor on this host, so it must report itself: once per
 * fault text, whichever supervisor meets it first, and again every four hours (the configured interval
 * cannot be read). For runs by a timer; a person sees the error on the terminal. Never throws.
 * @returns undefined too when the error is no ConfigError
 */
export function pageConfigFault(p: Paths, log: Log, err: unknown): Say | undefined {
  if (!(err instanceof ConfigError)) return undefined
  return page({ p, config: DEFAULTS, now: now(p), log }, 'config-fault', 'fleet', {
    ...said('config-refused', { why: err.message }),
    ...(err.next === undefined ? {} : { next: err.next }),
  })
}

/** Call it whenever configuration and registry were read: closes the fault above once that has held. */
export function pageConfigWell(ctx: PageContext): Say | undefined {
  return pageRecovered(ctx, 'config-fault', 'fleet', said('config-recovered'))
}
