import { now } from './clock.ts'
import { intentPath, type Paths } from './paths.ts'
import { readState } from './state.ts'
import { clean } from './text.ts'
import type { Now } from './types.ts'

/** What a person wants of a node for a while. A pause always has an end. */
export interface Intent {
  readonly node: string
  readonly kind: 'pause'
  readonly reason: string
  readonly by: string
  readonly since: Now
  /** Its end in boot time, good within the boot of `since`. */
  readonly untilBootMs?: number
  /** Its end by the wall clock, for after a reboot. */
  readonly untilWallMs: number
}

export interface IntentRead {
  readonly intent?: Intent
  readonly corrupt?: { readonly keptAs: string; readonly why: string }
}

/**
 * Length of the pause that stands in for a record that cannot be read: somebody may have the browser in
 * their hands, but nobody may leave a node unwatched for ever by a torn file.
 */
const CORRUPT_PAUSE_MS = 3_600_000

/** The intent on record, expired or not (`isPaused` tells). Report `corrupt` when it is there. */
export function readIntent(p: Paths, node: string): IntentRead {
  const cautious = (): Intent | undefined => {
    const at = now(p)
    return {
      node,
      kind: 'pause',
      reason: 'the pause record was corrupt',
      by: 'netvm',
      since: at,
      untilBootMs: at.bootMs + CORRUPT_PAUSE_MS,
      untilWallMs: at.wallMs + CORRUPT_PAUSE_MS,
    }
  }
  const { value, corrupt } = readState(
    intentPath(p, node),
    (v) => parseIntent(v, node),
    cautious,
    () => undefined,
  )
  return { ...(value && { intent: value }), ...(corrupt && { corrupt }) }
}

function parseIntent(v: unknown, node: string): Intent {
  const i = v as Record<string, unknown>
  const since = i.since as Now | undefined
  if (i.node !== node || i.kind !== 'pause') throw new Error(`no pause of ${node}`)
  if (typeof i.reason !== 'string' || typeof i.by !== 'string') throw new Error('reason or by is missing')
  if (!isTime(i.untilWallMs)) throw new Error('untilWallMs is no time')
  if (i.untilBootMs !== undefined && !isTime(i.untilBootMs)) throw new Error('untilBootMs is no time')
  if (!isTime(since?.wallMs) || !isTime(since.bootMs) || typeof since.bootId !== 'string') {
    throw new Error('since is no time')
  }
  return {
    node,
    kind: 'pause',
    reason: clean(i.reason),
    by: clean(i.by, 80),
    since: { wallMs: since.wallMs, bootMs: since.bootMs, bootId: since.bootId },
    ...(i.untilBootMs !== undefined && { untilBootMs: i.untilBootMs }),
    untilWallMs: i.untilWallMs,
  }
}

function isTime(v: unknown): v is number {
  return typeof v === 'number' && Number.isFinite(v)
}

/** Within one boot the end is boot time, so a step of the wall clock changes nothing. */
export function isPaused(intent: Intent | undefined, at: Now): boolean {
  if (intent === undefined) return false
  if (intent.untilBootMs !== undefined && intent.since.bootId === at.bootId)
    return at.bootMs < intent.untilBootMs
  return at.wallMs < intent.untilWallMs
}
