import { attempt } from '../base/attempt.ts'
import { now, wallIso } from '../base/clock.ts'
import { type Config, DEFAULTS } from '../base/config.ts'
import { elapsedMs, notAhead } from '../base/damping.ts'
import { ConfigError } from '../base/errors.ts'
import { type Paths, pagePath } from '../base/paths.ts'
import { present } from '../base/present.ts'
import { optional, record, stamp, text } from '../base/shape.ts'
import { seconds } from '../base/text.ts'
import type { Now } from '../base/types.ts'
import { besideLock } from '../store/lock.ts'
import { readState, writeState } from '../store/state.ts'
import { type Line, said } from './line.ts'
import type { Log } from './log.ts'

export type PageKind =
  | 'netns-fault'
  | 'tunnel-fault'
  | 'uplink-fault'
  | 'browser-fault'
  | 'relay-fault'
  | 'api-fault'
  | 'config-fault'

const parseMemory = record({
  /** Absent: no fault is open. */
  open: optional(
    record({
      since: stamp,
      /** Absent after a corrupt file: nobody knows whether it was reported. */
      lastPaged: optional(stamp),
      reason: text,
      /** Since when the layer has been healthy, while the fault period is not over yet. */
      wellSince: optional(stamp),
    }),
  ),
})

/** One fault period: from its page to its recovery. */
export type PageMemory = ReturnType<typeof parseMemory>

export interface PageEvent {
  readonly failing: boolean
  readonly reason: string
  /** A different reason is a different fault (a configuration error), not another face of the same one. */
  readonly byReason?: boolean
}

export type Say = 'page' | 'repeat' | 'recovery'

/**
 * Part of the repeat interval for which a fault must have been gone before its recovery is reported: 10 min at
 * the default of 4 h, which is five runs of the watchdogs and two of the fleet-wide supervisors. A node that
 * comes and goes faster is one fault with one page and one recovery. The page itself is never delayed.
 */
export const RECOVERY_PART = 24

/**
 * What to report to people, and what to remember of it. Reported are: a new fault, at once; a fault that lasts, every
 * `repeatMs`; its end, once it has held (see RECOVERY_PART). Give it every run's finding, the good ones too.
 */
export function decidePage(
  memory: PageMemory,
  event: PageEvent,
  at: Now,
  repeatMs: number,
): { say: Say | undefined; memory: PageMemory } {
  const open = memory.open && standing(memory.open, at)
  const holdMs = repeatMs / RECOVERY_PART
  const settled = open?.wellSince !== undefined && elapsedMs(open.wellSince, at) >= holdMs
  if (!event.failing) {
    if (open === undefined) return { say: undefined, memory }
    if (settled) return { say: 'recovery', memory: {} }
    return { say: undefined, memory: { open: { ...open, wellSince: open.wellSince ?? at } } }
  }
  const { reason } = event
  const other = event.byReason === true && open?.reason !== reason
  const report = (say: Say, since: Now) => ({ say, memory: { open: { since, lastPaged: at, reason } } })
  // Healthy for long enough, but nobody ran to say so: that period is over, this is a new one.
  if (open === undefined || settled || other) return report('page', at)
  const { since, lastPaged } = open
  if (lastPaged === undefined) return report('page', since)
  if (elapsedMs(lastPaged, at) >= repeatMs) return report('repeat', since)
  return { say: undefined, memory: { open: { since, lastPaged, reason } } }
}

/** What is ahead of the clock counts from now on: a page that nobody repeats until the clock is there is a lost one. */
function standing(open: NonNullable<PageMemory['open']>, at: Now): NonNullable<PageMemory['open']> {
  const fix = (then: Now | undefined) => then && notAhead(then, at)
  return present({ ...open, lastPaged: fix(open.lastPaged), wellSince: fix(open.wellSince) })
}

export interface PageContext {
  readonly p: Paths
  readonly config: Pick<Config, 'pageRepeatMs'>
  readonly now: Now
  readonly log: Log
}

/** What a page says: a line without its level. */
export type Paged = Omit<Line, 'level'>

/**
 * Reports a fault that needs a person: `PAGE [<node>] <kind>: <text> {<code>}; next: …`, journal priority 2. Call it
 * on every run that finds the fault; it speaks once per fault, then every `pageRepeatMs`. Never throws.
 * @param node a node's name, or `fleet`
 * @returns what was said, if anything
 */
export function page(ctx: PageContext, kind: PageKind, node: string, words: Paged): Say | undefined {
  return handle(ctx, kind, node, true, words)
}

/**
 * Reports that a fault is over. Call it on every run that finds the layer healthy, not only on the first: the
 * recovery is reported once it has held. Without an open fault it costs one failed open(2). Never throws.
 */
export function pageRecovered(ctx: PageContext, kind: PageKind, node: string, words: Paged): Say | undefined {
  return handle(ctx, kind, node, false, words)
}

/** The uplink is one for the fleet, whoever noticed it. */
export function pageKey(kind: PageKind, node: string): string {
  return kind === 'uplink-fault' ? 'uplink' : `${node}.${kind}`
}

function handle(ctx: PageContext, kind: PageKind, node: string, failing: boolean, words: Paged) {
  const event = { failing, reason: words.text, byReason: kind === 'config-fault' }
  const path = pagePath(ctx.p, pageKey(kind, node))
  const decide = () => {
    const memory = load(path)
    return { before: memory, ...decidePage(memory, event, ctx.now, ctx.config.pageRepeatMs) }
  }
  const first = decide()
  if (first.say === undefined && JSON.stringify(first.before) === JSON.stringify(first.memory))
    return undefined
  // Several watchdogs see a fleet-wide fault in the same second: one of them reports it.
  return besideLock(ctx.p, `page-${pageKey(kind, node)}`, LOCK_WAIT_MS, () => {
    const { before, say, memory } = decide()
    // Where it cannot be written, the page is repeated at every run. Better than not at all.
    attempt(() => writeState(path, memory))
    if (say === undefined) return undefined
    const text = sentence(say, kind, event.reason, before, ctx.now)
    ctx.log.write(node, { ...words, level: 'PAGE', text }, { kind, page: say })
    return say
  })
}

/** The work under the lock is one small file. */
const LOCK_WAIT_MS = 2000

function sentence(say: Say, kind: PageKind, reason: string, before: PageMemory, at: Now): string {
  const since = before.open?.since
  // After a corrupt record the start is not known.
  const lasted = since === undefined || since.wallMs === 0 ? 'unknown' : seconds(elapsedMs(since, at))
  if (say === 'repeat' && since !== undefined)
    return `${kind}: ${reason} (since ${wallIso(since.wallMs)}, ${lasted})`
  if (say === 'recovery') return `${kind} recovered: ${reason} (lasted ${lasted})`
  return `${kind}: ${reason}`
}

function load(path: string): PageMemory {
  // Cautious after a corrupt file: a fault may be open, and nobody knows whether it was reported.
  const unknown = (): PageMemory => ({
    open: { since: NEVER, reason: 'unknown: the page record was corrupt' },
  })
  return attempt(() => readState(path, parseMemory, unknown, () => ({})).value) ?? {}
}

const NEVER: Now = { wallMs: 0, bootMs: 0, bootId: '' }

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
export function pageConfigHealthy(ctx: PageContext): Say | undefined {
  return pageRecovered(ctx, 'config-fault', 'fleet', said('config-recovered'))
}
