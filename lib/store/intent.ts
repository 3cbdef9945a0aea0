import { now } from '../base/clock.ts'
import { elapsedMs } from '../base/damping.ts'
import { intentPath, type Paths } from '../base/paths.ts'
import { present } from '../base/present.ts'
import { number, oneOf, optional, record, stamp, text } from '../base/shape.ts'
import { clean } from '../base/text.ts'
import type { Now } from '../base/types.ts'
import { readState, type StateRead } from './state.ts'

const shape = record({
  node: text,
  kind: oneOf(['pause']),
  reason: text,
  by: text,
  since: stamp,
  /** Its end in the boot time of `since`, and by the wall clock: together they give its length. */
  untilBootMs: optional(number),
  untilWallMs: number,
  /** When somebody ended it. The record stays: the runs within it have proved nothing. */
  ended: optional(stamp),
})

/** What a person wants of a node for a while. A pause always has an end. */
export type Intent = ReturnType<typeof shape>

interface IntentRead {
  readonly intent?: Intent
  readonly corrupt?: NonNullable<StateRead<Intent>['corrupt']>
}

/**
 * Length of the pause that stands in for a record that cannot be read: somebody may have the browser in
 * their hands, but nobody may leave a node unwatched for ever by a torn file.
 */
const CORRUPT_PAUSE_MS = 3_600_000

/** The intent on record, expired or not (ask `isPaused`). Report `corrupt` when it is there. */
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
  return present({ intent: value, corrupt })
}

/** @throws when it is no pause of the node */
export function parseIntent(v: unknown, node: string): Intent {
  const intent = shape(v)
  if (intent.node !== node) throw new Error(`no pause of ${node}`)
  return { ...intent, reason: clean(intent.reason), by: clean(intent.by, 80) }
}

/**
 * Milliseconds until a pause ends; 0 or less when it is over, since then. One that was made under a wrong clock ends at
 * the latest its own length after the next boot.
 */
export function pauseLeftMs(intent: Intent, at: Now): number {
  const { since, untilBootMs, untilWallMs, ended } = intent
  if (ended !== undefined) return -elapsedMs(ended, at)
  // The shorter one: what an older release ended in another boot has only its wall clock's end moved.
  const lengthMs = Math.min(
    untilWallMs - since.wallMs,
    (untilBootMs ?? Number.POSITIVE_INFINITY) - since.bootMs,
  )
  return lengthMs - elapsedMs(since, at)
}

export function isPaused(intent: Intent | undefined, at: Now): boolean {
  return intent !== undefined && pauseLeftMs(intent, at) > 0
}
