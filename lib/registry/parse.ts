import { ConfigError } from '../base/errors.ts'
import { clean, hasControl } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { isNodeName } from './names.ts'
import { cellText, findTables, looseRows, nearestHeader, type Row, type Table } from './table.ts'

/** A row that was refused. The other rows stay supervised. */
export interface RowError {
  /** 1-based line in the file. */
  readonly line: number
  /** The row's node name when that at least is well-formed. */
  readonly name?: string
  readonly reason: string
}

export interface ParsedRegistry {
  readonly nodes: Node[]
  readonly errors: RowError[]
  readonly table?: Table
  /** The file, when it was read from one. */
  readonly path?: string
}

/** The file cannot be read, or holds no table that is a registry. Nothing supervised is removed then. */
export class RegistryError extends ConfigError {}

/** Header names as they are written by us; they are found without case. */
export const COLUMN = {
  name: 'Node',
  agent: 'Agent',
  netns: 'Netns',
  cdpPort: 'CDP Port',
  gw: 'Veth IP (host)',
  peer: 'Peer IP (netns)',
  relayTarget: 'Relay Target',
  status: 'Status',
  chatUrl: 'Chat URL',
  chatTitle: 'Chat Title',
  apiCheck: 'API Check',
  host: 'Host',
} as const

export type Field = keyof typeof COLUMN

const OPTIONAL: readonly string[] = ['chatUrl', 'chatTitle', 'apiCheck', 'host'] satisfies Field[]
const REQUIRED_HEADERS = Object.entries(COLUMN).flatMap(([f, header]) =>
  OPTIONAL.includes(f) ? [] : [header],
)
export const REQUIRED: readonly string[] = REQUIRED_HEADERS.map((header) => header.toLowerCase())

/**
 * @throws RegistryError when the text has no registry table at all. A bad row never throws: it is in
 *   `errors` with its line, and the rows around it are in `nodes`.
 */
export function parseRegistry(text: string): ParsedRegistry {
  const [table, ...more] = findTables(text, REQUIRED)
  if (table === undefined) throw new RegistryError(noTable(text))
  if (table.duplicateColumns.length > 0) {
    const names = clean(table.duplicateColumns.join(', '), 100)
    throw new RegistryError(`line ${table.headerLine}: column named twice: ${names}`)
  }
  const errors: RowError[] = []
  if (table.separator === undefined) {
    errors.push({ line: table.headerLine + 1, reason: 'no separator row (| --- | …) below the header' })
  } else if (table.separator.cells.length !== table.header.cells.length) {
    errors.push({ line: table.separator.line, reason: `separator row has ${counts(table.separator, table)}` })
  }
  const nodes: Node[] = []
  for (const row of table.rows) {
    const result = parseRow(row, table, nodes)
    if ('node' in result) nodes.push(result.node)
    else errors.push({ line: row.line, ...result })
  }
  for (const other of more) {
    const reason = `a second registry table: only the one on line ${table.headerLine} is read`
    errors.push({ line: other.headerLine, reason })
  }
  for (const row of looseRows(text, [table, ...more])) {
    // Only what would be the row of a node: other tables may be as wide, and old rows may be kept in the text.
    const result = parseRow(row, table, [])
    if (!('node' in result) || result.node.status !== 'active') continue
    if (nodes.some((n) => n.name === result.node.name)) continue
    const where = `it is outside the table that starts on line ${table.headerLine}: a blank line, a heading or an indentation ends a table`
    errors.push({ line: row.line, name: result.node.name, reason: where })
  }
  return { nodes, errors, table }
}

function noTable(text: string): string {
  const near = nearestHeader(text, REQUIRED)
  if (near === undefined) return `no table with the columns ${REQUIRED_HEADERS.join(', ')}`
  const missing = REQUIRED_HEADERS.filter((c) => !near.has.includes(c.toLowerCase()))
  if (missing.length === 0) return `line ${near.line}: the table is inside a code block, a comment or a quote`
  return `line ${near.line}: the table lacks the column${missing.length > 1 ? 's' : ''} ${missing.join(', ')}`
}

function counts(row: Row, table: Table): string {
  return `${row.cells.length} cells, the header ${table.header.cells.length}`
}

/** The text of a field's cell; empty when the row or the table has none. */
export function fieldText(row: Row, table: Table, field: Field): string {
  const index = table.columns.get(COLUMN[field].toLowerCase())
  const cell = index === undefined ? undefined : row.cells[index]
  return cell === undefined ? '' : cellText(cell.raw)
}

function parseRow(
  row: Row,
  table: Table,
  before: readonly Node[],
): { node: Node } | { name?: string; reason: string } {
  const get = (f: Field) => fieldText(row, table, f)
  const name = get('name')
  const refuse = (reason: string) => (isNodeName(name) ? { name, reason } : { reason })
  if (row.cells.length > table.header.cells.length) {
    // The cells behind an unescaped pipe are shifted: reading on would take one value for another.
    return refuse(`${counts(row, table)}: write a pipe inside a cell as \\|`)
  }
  if (!isNodeName(name)) return { reason: `bad node name "${show(name)}"` }
  if (REQUIRED.some((r) => (table.columns.get(r) ?? 0) >= row.cells.length)) {
    return refuse(`short row: ${counts(row, table)}`)
  }
  const node: Node = {
    name,
    agent: get('agent'),
    netns: get('netns'),
    cdpPort: /^\d{1,5}$/.test(get('cdpPort')) ? Number(get('cdpPort')) : Number.NaN,
    gw: withoutPrefix(get('gw')),
    peer: withoutPrefix(get('peer')),
    relayTarget: get('relayTarget'),
    status: get('status').toLowerCase() === 'retired' ? 'retired' : 'active',
    chatUrl: withoutAngles(get('chatUrl')),
    chatTitle: get('chatTitle'),
    apiCheck: withoutAngles(get('apiCheck')),
    host: get('host'),
    line: row.line,
  }
  const reason = fault(node, get) ?? duplicate(node, before)
  return reason === undefined ? { node } : refuse(reason)
}

/** What is wrong with the row alone. */
function fault(n: Node, get: (f: Field) => string): string | undefined {
  if (n.netns !== `warp-${n.name}`) return `Netns must be warp-${n.name}, not "${show(n.netns)}"`
  if (!(n.cdpPort >= 1024 && n.cdpPort <= 65535))
    return `CDP Port must be 1024 to 65535, not "${show(get('cdpPort'))}"`
  const gw = ipv4(n.gw)
  if (gw === undefined) return `Veth IP (host) is no IPv4 address: "${show(get('gw'))}"`
  const peer = ipv4(n.peer)
  if (peer === undefined) return `Peer IP (netns) is no IPv4 address: "${show(get('peer'))}"`
  if (!isPrivate(gw) || !isPrivate(peer)) return 'addresses must be private (10/8, 172.16/12 or 192.168/16)'
  if (gw % 4 !== 1 || peer !== gw + 1) {
    return `${n.gw} and ${n.peer} must be the first (host) and the second (netns) host address of one /30`
  }
  if (n.relayTarget !== `127.0.0.1:${n.cdpPort}`) {
    return `Relay Target must be 127.0.0.1:${n.cdpPort}, not "${show(n.relayTarget)}"`
  }
  if (!/^(?:active|retired)$/i.test(get('status')))
    return `Status must be active or retired, not "${show(get('status'))}"`
  const url = cellFault('chatUrl', n.chatUrl) ?? cellFault('apiCheck', n.apiCheck)
  if (url !== undefined) return url
  if (n.host !== '' && !/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/i.test(n.host))
    return `bad Host "${show(n.host)}"`
  return cellFault('chatTitle', n.chatTitle) ?? cellFault('agent', n.agent)
}

/** What is wrong with the text of a cell that people write freely. */
export function cellFault(
  field: 'chatUrl' | 'apiCheck' | 'chatTitle' | 'agent',
  text: string,
): string | undefined {
  if (text === '') return undefined
  if (field === 'chatUrl' && !isUrl(text)) return `Chat URL is no http or https URL: "${show(text)}"`
  if (field === 'apiCheck' && !isUrl(text) && !isPath(text)) {
    return `API Check must be empty, a path or a URL, not "${show(text)}"`
  }
  return hasControl(text) ? `${COLUMN[field]} has a control character` : undefined
}

/** The later of two rows is refused: what runs already keeps running. */
function duplicate(n: Node, before: readonly Node[]): string | undefined {
  for (const o of before) {
    if (o.name === n.name) return `duplicate node ${n.name} (also on line ${o.line})`
    if (o.cdpPort === n.cdpPort) return `duplicate CDP Port ${n.cdpPort} (also ${o.name}, line ${o.line})`
    if (o.gw === n.gw) return `duplicate address ${n.gw} (also ${o.name}, line ${o.line})`
  }
  return undefined
}

function show(s: string): string {
  return clean(s, 60)
}

function withoutPrefix(s: string): string {
  return s.endsWith('/30') ? s.slice(0, -3) : s
}

/** `<https://…>` is how Markdown writes a link that is only a URL. */
function withoutAngles(s: string): string {
  return /^<[^<>]*>$/.test(s) ? s.slice(1, -1) : s
}

/** The address as a number; undefined for anything but four decimal octets without leading zeros. */
function ipv4(s: string): number | undefined {
  const m = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(s)
  if (m === null) return undefined
  let value = 0
  for (const part of m.slice(1)) {
    if (Number(part) > 255 || (part.length > 1 && part.startsWith('0'))) return undefined
    value = value * 256 + Number(part)
  }
  return value
}

function isPrivate(ip: number): boolean {
  const a = Math.floor(ip / 2 ** 24)
  const b = Math.floor(ip / 2 ** 16) % 256
  return a === 10 || (a === 172 && b >= 16 && b <= 31) || (a === 192 && b === 168)
}

/** Safe inside single quotes in the node's environment file, and one argv word. */
function isUrl(s: string): boolean {
  return /^https?:\/\/[^\s'/][^\s']*$/i.test(s) && !hasControl(s) && URL.canParse(s)
}

/** A path of the chat page's own origin; `//host` would be another origin. */
function isPath(s: string): boolean {
  return /^\/(?!\/)[^\s']*$/.test(s) && !hasControl(s)
}
