import { clean } from '../base/text.ts'
import { LAYERS } from '../base/types.ts'
import { entryOf } from '../report/codes.ts'
import { layerOf, parseLine } from '../report/line.ts'
import { oldRecovery } from '../report/old-lines.ts'
import type { Message } from './types.ts'

/** Longer than any line that `formatLine` writes. */
const MAX_LINE = 2500

/**
 * Reads a line of ours, of a log or of the journal.
 * @param layer the layer in the journal's field, for a code that does not imply one
 */
export function readMessage(raw: string, layer?: string): Message {
  const line = clean(raw, MAX_LINE)
  const { text, code, cause, next } = parseLine(line)
  const field = LAYERS.find((l) => l === layer)
  const of = layerOf(code, cause) ?? field
  return {
    text: clean(text),
    ...(code === undefined ? {} : { code }),
    ...(cause === undefined ? {} : { cause }),
    ...(of === undefined ? {} : { layer: of }),
    ...(next === undefined ? {} : { next: clean(next) }),
  }
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
