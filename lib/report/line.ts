import { present } from '../base/present.ts'
import { clean } from '../base/text.ts'
import type { Layer, LogLevel } from '../base/types.ts'
import { type Code, entryOf, text as textOf, type Values } from './codes.ts'

/** What a program reports of a node in one line: `<text> {<code>}; next: <command>`. */
export interface Line {
  readonly level: LogLevel
  readonly code: Code
  readonly text: string
  /** The finding behind a code that does not imply the layer, such as a relaunch that failed. */
  readonly cause?: string
  /** One command that a person runs next. */
  readonly next?: string
}

/** A code with its text. */
export function said<C extends Code>(code: C, ...values: Values<C>): Pick<Line, 'code' | 'text'> {
  return { code, text: textOf(code, ...values) }
}

/** A line whose text is its code's and no more. */
export function line<C extends Code>(level: LogLevel, code: C, ...values: Values<C>): Line {
  return { level, ...said(code, ...values) }
}

/** A line for people is short; a longer one hides its own point. Code points of the text. */
const MAX_TEXT = 1500
const MAX_NEXT = 400

/**
 * The line without time, level and node. Text may quote what is not ours (a page's title), so its braces become
 * parentheses and it names no command: what stands in braces and behind `; next: ` is said by us.
 */
export function formatLine({ text, code, cause, next }: Omit<Line, 'level'>): string {
  const words = clean(text, MAX_TEXT)
    .replaceAll('{', '(')
    .replaceAll('}', ')')
    .replaceAll('; next:', ', next:')
  const because = entryOf(cause) === undefined || cause === code ? '' : ` {${cause}}`
  return `${words}${because} {${code}}${next === undefined ? '' : `; next: ${clean(next, MAX_NEXT)}`}`
}

interface ParsedLine {
  /** Without code and command. */
  readonly text: string
  /** Absent in a line of a release that wrote none, and of one whose codes are not ours. */
  readonly code?: Code
  readonly cause?: Code
  /** The command; only of a line with a code, before which nobody else's words can stand for one. */
  readonly next?: string
}

const CODED = /^([^{}]*?)(?: \{([a-z][a-z0-9-]*)\})?(?: \{([a-z][a-z0-9-]*)\})(?:; next: (.*))?$/

/** Reads what `formatLine` wrote. */
export function parseLine(raw: string): ParsedLine {
  const m = CODED.exec(raw)
  if (m === null) return { text: raw.replace(/; next: .*$/, '') }
  const known = (code: string | undefined) => (entryOf(code) === undefined ? undefined : (code as Code))
  return present({ text: m[1] ?? '', code: known(m[3]), cause: known(m[2]), next: m[4] })
}

/** The layer that a line with these codes is about: the finding's behind it, where there is one. */
export function layerOf(code: string | undefined, cause: string | undefined): Layer | undefined {
  return entryOf(cause)?.layer ?? entryOf(code)?.layer
}
