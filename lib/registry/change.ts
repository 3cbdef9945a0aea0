import { ConfigError, UsageError } from '../base/errors.ts'
import { present } from '../base/present.ts'
import { clean, hasControl } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { COLUMN, type Field, fieldText, type ParsedRegistry, parseRegistry, REQUIRED } from './parse.ts'
import { escapeCell, findTables, type Row, type Table } from './table.ts'

// Anchored edits of the registry's text: one row or one cell, every other byte kept. No file is touched here.

/** What a new row needs; the rest follows from it or is empty. */
export type NewRow = Pick<Node, 'name' | 'cdpPort' | 'gw' | 'peer'> & {
  readonly [K in Field]?: Node[K] | undefined
}

function tableOf(text: string): Table {
  const table = findTables(text, REQUIRED)[0]
  // parseRegistry says what is wrong, and with which line.
  if (table === undefined) parseRegistry(text)
  if (table?.separator === undefined) {
    throw new ConfigError(
      `line ${(table?.headerLine ?? 0) + 1}: the table has no separator row, so no edit is safe`,
    )
  }
  return table
}

/**
 * The text with one more row; undefined when a row of that name is there, well-formed or not.
 * @param text the file byte by byte (latin1)
 * @throws ConfigError
 */
export function appended(text: string, row: NewRow): string | undefined {
  const table = tableOf(text)
  if (table.rows.some((r) => fieldText(r, table, 'name') === row.name)) return undefined
  const cells = Array.from(table.header.cells, () => '')
  const { name, cdpPort } = row
  const usual = { agent: name, netns: `warp-${name}`, relayTarget: `127.0.0.1:${cdpPort}`, status: 'active' }
  const whole: { readonly [K in Field]?: string | number } = { ...usual, ...present(row) }
  for (const field of Object.keys(COLUMN) as Field[]) {
    const value = String(whole[field] ?? '')
    const index = table.columns.get(COLUMN[field].toLowerCase())
    if (index !== undefined) cells[index] = cellBytes(COLUMN[field], value)
    else if (value !== '')
      throw new ConfigError(`the registry has no column "${COLUMN[field]}": add it to the header`)
  }
  const last = (table.rows.at(-1) ?? table.separator) as Row
  const line = `| ${cells.join(' | ')} |`
  const at = last.end + last.eol.length
  const eol = last.eol === '' ? table.header.eol : last.eol
  const insert = last.eol === '' ? eol + line : line + eol
  return checked(text, text.slice(0, at) + insert + text.slice(at), row.name)
}

/**
 * The text with another content of one cell; undefined when the cell says that already.
 * @throws ConfigError, UsageError
 */
export function withCell(
  text: string,
  node: string,
  column: string,
  value: string,
  path: string,
): string | undefined {
  const table = tableOf(text)
  const header = Object.hasOwn(COLUMN, column) ? COLUMN[column as Field] : column
  const index = table.columns.get(header.toLowerCase())
  if (index === undefined) throw new ConfigError(`${path} has no column "${clean(header, 60)}"`)
  const line = parse(text).nodes.find((n) => n.name === node)?.line
  const row = table.rows.find((r) => r.line === line)
  if (row === undefined)
    throw new UsageError(`no row for node "${clean(node, 60)}" in ${path}`, 'box fleet status')
  const cell = row.cells[index]
  if (cell === undefined)
    throw new ConfigError(`${path} line ${row.line}: the row is too short for "${header}"`)
  const raw = cellBytes(header, value)
  if (cell.raw === raw) return undefined
  const place = text.slice(cell.start, cell.end)
  const lead = /^[ \t]*/.exec(place)?.[0] ?? ''
  const filled = cell.raw === '' ? ` ${raw} ` : lead + raw + place.slice(lead.length + cell.raw.length)
  return checked(text, text.slice(0, cell.start) + filled + text.slice(cell.end), node)
}

/** The new text, when the edited row is accepted in it and every other row reads as before. */
function checked(before: string, after: string, node: string): string {
  const was = parse(before)
  const is = parse(after)
  const refused = is.errors.find((e) => e.name === node && !was.errors.some((w) => w.line === e.line))
  if (!is.nodes.some((n) => n.name === node) || refused !== undefined) {
    throw new ConfigError(
      `the row for ${node} would be refused: ${refused?.reason ?? 'it is not in the table'}`,
    )
  }
  const others = (nodes: readonly Node[]) =>
    JSON.stringify(nodes.filter((n) => n.name !== node).map((n) => ({ ...n, line: 0 })))
  if (others(was.nodes) !== others(is.nodes))
    throw new ConfigError(`the edit of ${node} would change another row`)
  return after
}

function parse(latin1: string): ParsedRegistry {
  return parseRegistry(Buffer.from(latin1, 'latin1').toString('utf8'))
}

/** A cell's text as the latin1 view of its UTF-8 bytes. */
function cellBytes(column: string, value: string): string {
  // A line break would end the row, and what follows it would be read as another.
  if (hasControl(value)) throw new ConfigError(`${column} has a control character, wrote nothing`)
  return Buffer.from(escapeCell(value), 'utf8').toString('latin1')
}
