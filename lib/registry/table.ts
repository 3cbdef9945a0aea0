// Where the registry's table is in a Markdown text, cell by cell, with offsets, so that an edit can
// change one cell and keep every other character. It follows GFM (checked against a GFM parser in the
// tests) and is on purpose more lenient in one place: a table that lost its separator row is still read.

/** A cell's place: `start`/`end` are offsets of what is between two pipes, spaces included. */
export interface Cell {
  readonly start: number
  readonly end: number
  /** As written, without the spaces around it. */
  readonly raw: string
}

export interface Row {
  /** 1-based. */
  readonly line: number
  readonly start: number
  /** Offset after the last character of the line, before its line end. */
  readonly end: number
  /** The line end as written; empty at the end of a file without one. */
  readonly eol: string
  readonly cells: readonly Cell[]
}

export interface Table {
  readonly headerLine: number
  readonly header: Row
  /** Absent when the table lost it. */
  readonly separator: Row | undefined
  /** Index of each column by its normalised name; see `columnKey`. */
  readonly columns: ReadonlyMap<string, number>
  /** Names that more than one column has. */
  readonly duplicateColumns: readonly string[]
  readonly rows: readonly Row[]
}

interface Line {
  readonly line: number
  readonly start: number
  readonly text: string
  readonly eol: string
  /** In a fenced code block or an HTML comment, its first and last line included: people write examples there. */
  readonly quoted: boolean
}

/** Header names are compared without case and with runs of spaces as one. */
function columnKey(name: string): string {
  return name
    .trim()
    .replace(/[ \t]+/g, ' ')
    .toLowerCase()
}

/** Every table of the text whose header has all of `required` (as `columnKey`s), in order. */
export function findTables(text: string, required: readonly string[]): Table[] {
  const lines = splitLines(text)
  const tables: Table[] = []
  for (let i = 0; i < lines.length; i++) {
    if (!isTableLine(lines[i] as Line)) continue
    const table = tableAt(lines, i, required)
    if (table === undefined) continue
    tables.push(table)
    i += table.rows.length + (table.separator === undefined ? 0 : 1)
  }
  return tables
}

/**
 * Lines outside the tables that have as many cells as the table's header: a blank line, a heading or an indentation
 * ended the table above them.
 */
export function looseRows(text: string, tables: readonly Table[]): Row[] {
  const [first] = tables
  if (first === undefined) return []
  const inside = new Set(
    tables.flatMap((t) => [t.headerLine, t.separator?.line ?? 0, ...t.rows.map((row) => row.line)]),
  )
  return splitLines(text)
    .filter((line) => !line.quoted && !inside.has(line.line) && line.text.includes('|'))
    .map((line) => {
      // Without what makes it a list item or indented.
      const bare = line.text.replace(/^[ \t]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)?/, '')
      return toRow({ ...line, text: bare })
    })
    .filter((row) => row.cells.length === first.header.cells.length)
}

/** Column names of the header that comes nearest, for the error when no table is complete. */
export function nearestHeader(
  text: string,
  required: readonly string[],
): { line: number; has: string[] } | undefined {
  let best: { line: number; has: string[] } | undefined
  for (const line of splitLines(text)) {
    if (!line.text.includes('|')) continue
    const names = toRow(line).cells.map((c) => columnKey(cellText(c.raw)))
    const has = required.filter((r) => names.includes(r))
    if (has.length > (best?.has.length ?? 0)) best = { line: line.line, has }
  }
  return best
}

function tableAt(lines: readonly Line[], at: number, required: readonly string[]): Table | undefined {
  const header = toRow(lines[at] as Line)
  const columns = new Map<string, number>()
  const duplicates: string[] = []
  for (const [i, cell] of header.cells.entries()) {
    const key = columnKey(cellText(cell.raw))
    if (!columns.has(key)) columns.set(key, i)
    else if (key !== '') duplicates.push(key)
  }
  if (!required.every((r) => columns.has(r))) return undefined
  const next = lines[at + 1]
  const separator = next !== undefined && isSeparator(next.text) ? toRow(next) : undefined
  const rows: Row[] = []
  for (let i = at + (separator === undefined ? 1 : 2); i < lines.length; i++) {
    const line = lines[i] as Line
    if (!isTableLine(line)) break
    rows.push(toRow(line))
  }
  return { headerLine: header.line, header, separator, columns, duplicateColumns: duplicates, rows }
}

/** A line that can be in a table: not blank, not indented code, not the start of another block. */
function isTableLine({ text, quoted }: Line): boolean {
  if (quoted || /^[ \t]*$/.test(text) || /^(?: {4}| {0,3}\t)/.test(text)) return false
  const t = text.replace(/^ +/, '')
  if (/^(?:>|#{1,6}(?:[ \t]|$)|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$))/.test(t)) return false
  return !/^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/.test(t)
}

/** When the line opens a fenced code block or an HTML comment: a test for the line that closes it. */
function opensBlock(text: string): ((line: string) => boolean) | undefined {
  const fence = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/.exec(text)?.[1]
  if (fence !== undefined) {
    const close = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`)
    return (line) => close.test(line)
  }
  if (/^ {0,3}<!--/.test(text) && !text.includes('-->')) return (line) => line.includes('-->')
  return undefined
}

function isSeparator(text: string): boolean {
  return /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/.test(text) && /[|:]/.test(text)
}

function splitLines(text: string): Line[] {
  const lines: Line[] = []
  // A byte order mark, read as UTF-8 or byte by byte, belongs to no cell.
  const bom = /^(?:\uFEFF|\u00EF\u00BB\u00BF)/.exec(text)?.[0].length ?? 0
  const pattern = /([^\r\n]*)(\r\n|\n|\r|$)/y
  pattern.lastIndex = bom
  let closes: ((line: string) => boolean) | undefined
  while (pattern.lastIndex < text.length) {
    const start = pattern.lastIndex
    const [, line = '', eol = ''] = pattern.exec(text) ?? []
    const opens = closes === undefined ? opensBlock(line) : undefined
    lines.push({ line: lines.length + 1, start, text: line, eol, quoted: (closes ?? opens) !== undefined })
    closes = opens ?? (closes?.(line) ? undefined : closes)
  }
  return lines
}

/** Splits at every pipe that no backslash escapes, in code spans too, as GFM does. */
function toRow(line: Line): Row {
  const { text, start } = line
  const cuts: number[] = []
  for (let i = 0; i < text.length; i++) {
    // A backslash takes the pipe, or the other backslash, after it.
    if (text[i] === '\\' && (text[i + 1] === '|' || text[i + 1] === '\\')) i++
    else if (text[i] === '|') cuts.push(i)
  }
  const starts = [0, ...cuts.map((cut) => cut + 1)]
  const bounds = starts.map((from, i): [number, number] => [from, cuts[i] ?? text.length])
  // What is before a leading and after a trailing pipe is no cell.
  if (cuts.length > 0) {
    if (blank(text, bounds[0])) bounds.shift()
    if (bounds.length > 1 && blank(text, bounds.at(-1))) bounds.pop()
  }
  const cells = bounds.map(([a, b]) => ({
    start: start + a,
    end: start + b,
    raw: trimCell(text.slice(a, b)),
  }))
  return { line: line.line, start, end: start + text.length, eol: line.eol, cells }
}

function blank(text: string, bound: [number, number] | undefined): boolean {
  return bound !== undefined && /^[ \t]*$/.test(text.slice(bound[0], bound[1]))
}

/** Spaces and tabs only: in a text read byte by byte, trim() would take 0xA0 out of a UTF-8 sequence. */
function trimCell(s: string): string {
  return s.replace(/^[ \t]+|[ \t]+$/g, '')
}

/**
 * What a cell says: a cell that is one code span gives its content; elsewhere backslash escapes are
 * resolved. Other Markdown is left as it stands.
 */
export function cellText(raw: string): string {
  const span = /^(`+)([^`]|[^`].*?[^`])\1$/.exec(raw)
  if (span !== null && !hasRun(span[2] ?? '', (span[1] ?? '').length)) {
    const inner = (span[2] ?? '').replace(/\\\|/g, '|')
    const padded = inner.startsWith(' ') && inner.endsWith(' ') && inner.trim() !== ''
    return trimCell(padded ? inner.slice(1, -1) : inner)
  }
  return raw.replace(/\\([!-/:-@[-`{-~])/g, '$1')
}

function hasRun(s: string, length: number): boolean {
  return (s.match(/`+/g) ?? []).some((run) => run.length === length)
}

/** The opposite of `cellText` for a text without control characters. */
export function escapeCell(text: string): string {
  return trimCell(text).replace(/[\\|`]/g, (c) => `\\${c}`)
}
