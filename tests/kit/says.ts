import { type Code, text, type Values } from '../../lib/report/codes.ts'
import { parseLine } from '../../lib/report/line.ts'

// What a program said, by code: the words are the table's, and a test that knows them by heart would break with each
// wording. The table has a test of its own (tests/unit/codes.test.ts).

/** The text of a code that is found at run time, in a table of a test for instance. */
export function textOf(code: Code, values: Readonly<Record<string, string | number>> = {}): string {
  return (text as (code: Code, values: Readonly<Record<string, string | number>>) => string)(code, values)
}

type Given<C extends Code> =
  Values<C> extends [infer V] ? { readonly [K in keyof V]?: string | number | RegExp } : Record<never, never>

const escaped = (words: string): string => words.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')

/**
 * The source of a regular expression for a code's text. A value may be one too, and one that is not given is whatever
 * stands there.
 */
export function says<C extends Code>(code: C, values?: Given<C>): string {
  const given = (values ?? {}) as Record<string, string | number | RegExp>
  // A private character for each placeholder, so that the rest can be escaped in one go.
  const names: string[] = []
  const marked = textOf(
    code,
    new Proxy({} as Record<string, string>, {
      get: (_, name) => {
        names.push(String(name))
        return '\uE000'
      },
    }),
  )
  return escaped(marked).replaceAll('\uE000', () => {
    const value = given[names.shift() ?? '']
    if (value === undefined) return '[^\\n]*'
    return value instanceof RegExp ? value.source : escaped(String(value))
  })
}

/** The whole of a code's text, as `says` has it. */
export const saying = <C extends Code>(code: C, values?: Given<C>): RegExp =>
  new RegExp(`^${says(code, values)}$`)

export interface Logged {
  readonly level: string
  readonly node: string
  readonly text: string
  readonly code: string
  readonly cause?: string
  readonly next: string
}

/** The lines of a log, or of what a unit wrote to the journal, that tell of a node. */
export function logged(log: string): Logged[] {
  return [...log.matchAll(/^(?:\S+ )?(INFO|WARN|FAIL|FAIL_LOUD|PAGE) \[([^\]]*)\] (.*)$/gm)].map(
    ([, level = '', node = '', rest = '']) => {
      const { text: words, code = '', cause } = parseLine(rest)
      const next = /\}; next: (.*)$/.exec(rest)?.[1] ?? ''
      return { level, node, text: words, code, ...(cause === undefined ? {} : { cause }), next }
    },
  )
}

/** The same in short, a line each: `FAIL no-process`, or `WARN cdp-unreachable fresh` for a code with its cause. */
export const toldOf = (log: string): string[] =>
  logged(log).map(({ level, code, cause }) =>
    [level, ...(cause === undefined ? [] : [cause]), code].join(' '),
  )

/** A regular expression with sources of others in it: rx`FAIL \[muse\] ${says('no-process')}; `. Each line has its own ^ and $. */
export const rx = (parts: TemplateStringsArray, ...sources: string[]): RegExp =>
  new RegExp(String.raw(parts, ...sources), 'm')
