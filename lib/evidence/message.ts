import { present } from '../base/present.ts'
import { clean } from '../base/text.ts'
import { LAYERS } from '../base/types.ts'
import { entryOf } from '../report/codes.ts'
import { layerOf, parseLine } from '../report/line.ts'
import { oldRecovery } from '../report/old-lines.ts'

/** Longer than any line that `formatLine` writes. */
const MAX_LINE = 2500

/** What a line of ours says, of a log or of the journal. */
export type Message = ReturnType<typeof readMessage>

/**
 * Reads such a line; without code one of a release that wrote none.
 * @param field the layer in the journal's field, for a code that does not imply one
 */
export function readMessage(raw: string, field?: string) {
  const { text, code, cause, next } = parseLine(clean(raw, MAX_LINE))
  const layer = layerOf(code, cause) ?? LAYERS.find((l) => l === field)
  return present({ text: clean(text), code, cause, layer, next: next && clean(next) })
}

const LOUD: ReadonlySet<string> = new Set(['FAIL', 'FAIL_LOUD', 'PAGE'])

/**
 * What a line says of its node: a fault, that one is over, or nothing of its health. A page closes some time later;
 * what happened in between has lines of its own, so the end of one says nothing.
 */
export function meaning(message: Message, level: string): 'fault' | 'over' | undefined {
  const entry = entryOf(message.code)
  const over =
    entry === undefined ? oldRecovery(message.text) : entry.kind === 'recovery' || entry.helped === true
  if (over) return level === 'PAGE' ? undefined : 'over'
  if (!LOUD.has(level) || entry?.kind === 'notice' || entry?.kind === 'unknown') return undefined
  return 'fault'
}
