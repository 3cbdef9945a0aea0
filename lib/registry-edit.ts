import { closeSync, fstatSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { again, ConfigError, fromOs, LockedError, NetvmError, UsageError } from './errors.ts'
import { shellWord } from './os-error.ts'
import {
  COLUMN,
  type Field,
  fieldText,
  type ParsedRegistry,
  parseRegistry,
  REQUIRED,
} from './registry-parse.ts'
import { escapeCell, findTables, type Row, type Table } from './registry-table.ts'
import { writeAtomic } from './state.ts'
import { clean, hasControl } from './text.ts'
import type { Node } from './types.ts'

/** What a new row needs; the rest follows from it or is empty. */
export type NewRow = Pick<Node, 'name' | 'cdpPort' | 'gw' | 'peer'> & Partial<Omit<Node, 'line'>>

/** Longest wait for another editor of the file. An edit itself takes milliseconds. */
const LOCK_RETRIES = { retries: 100, minTimeout: 20, maxTimeout: 100, factor: 1.2 }
/** A lock directory without a fresh mtime for this long belonged to somebody who died. */
const STALE_MS = 10_000
/** The least proper-lockfile takes. */
const UPDATE_MS = 1000
/** How often the edit is made anew because a person saved the file in between. */
const MAX_ROUNDS = 5

export interface EditOptions {
  /** Tries to get the lock, 20 to 100 ms apart. */
  readonly lockTries?: number
  /** For tests: between the computation of the new text and the last look at the file. */
  readonly beforeWrite?: () => void
  /** For tests: just after the file was replaced. */
  readonly afterWrite?: () => void
}

/**
 * Appends a row to the registry's table.
 * @returns false when a row of that name is there already, well-formed or not; nothing is written then
 * @throws ConfigError when the row would be refused, or the table has no column for a value
 */
export function appendRow(path: string, row: NewRow, opts: EditOptions = {}): Promise<boolean> {
  return edit(path, opts, (text) => appended(text, row))
}

/**
 * Replaces the content of one cell in place.
 * @param column a field (`status`) or a header name (`Status`)
 * @returns false when the cell says that already
 * @throws UsageError when no accepted row has that name; ConfigError when the row would be refused
 */
export function setCell(
  path: string,
  node: string,
  column: Field | (string & {}),
  value: string,
  opts: EditOptions = {},
): Promise<boolean> {
  return edit(path, opts, (text) => withCell(text, node, column, value, path))
}

/** Text is handled byte by byte (latin1), so that bytes which are no valid UTF-8 survive an edit. */
type Change = (text: string) => string | undefined

async function edit(path: string, opts: EditOptions, change: Change): Promise<boolean> {
  // A registry that is a symbolic link stays one.
  const file = real(path)
  const { lock } = await import('proper-lockfile')
  let compromised = false
  const release = await lock(file, {
    stale: STALE_MS,
    update: UPDATE_MS,
    retries: { ...LOCK_RETRIES, retries: opts.lockTries ?? LOCK_RETRIES.retries },
    realpath: false,
    onCompromised: () => {
      compromised = true
    },
  }).catch((err: NodeJS.ErrnoException) => {
    if (err.code !== 'ELOCKED') throw cannot('lock', path, err)
    throw new LockedError(
      `another program is editing ${path} (${path}.lock)`,
      undefined,
      `ls -ld ${path}.lock`,
    )
  })
  const ours = lockStamp(file)
  // proper-lockfile notices a stolen lock at its next update only. From here to the release nothing yields, so
  // no update of ours changes the stamp: a different one means that we were stopped and another took over.
  const lost = () => compromised || ours === undefined || lockStamp(file) !== ours
  try {
    return rounds(path, file, opts, change, lost)
  } finally {
    // A lock that was lost is not ours to remove: let proper-lockfile see that, or it does so at exit.
    for (let i = 0; lost() && !compromised && i < 4 * (UPDATE_MS / 100); i++) await sleep(100)
    await release().catch(() => {})
  }
}

function lockStamp(file: string): string | undefined {
  try {
    const st = statSync(`${file}.lock`)
    return `${st.ino} ${st.mtimeMs}`
  } catch {
    return undefined
  }
}

function rounds(path: string, file: string, opts: EditOptions, change: Change, lost: () => boolean): boolean {
  let wrote = false
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const fd = openForRead(path, file)
    try {
      const before = readFileSync(fd, 'latin1')
      const after = inFile(path, () => change(before))
      if (after === undefined) return wrote
      opts.beforeWrite?.()
      if (lost())
        throw new LockedError(
          `lost the lock of ${path} to another program, wrote nothing`,
          undefined,
          again(),
        )
      if (readText(path, file) !== before) continue
      write(path, file, after, fstatSync(fd))
      wrote = true
      opts.afterWrite?.()
      // An editor that writes in place may have written to the file we replaced: its text goes back, and is
      // the base of another round.
      const late = readAll(fd)
      if (late === before) return true
      write(path, file, late, fstatSync(fd))
    } finally {
      closeSync(fd)
    }
  }
  throw new ConfigError(
    `${path} keeps changing under the edit, gave up after ${MAX_ROUNDS} tries`,
    `fuser -v ${shellWord(path)}`,
  )
}

/** An edit that the text of the file does not allow says which file that is, and opens it. */
function inFile<T>(path: string, fn: () => T): T {
  try {
    return fn()
  } catch (err) {
    if (!(err instanceof ConfigError) || err.next !== undefined) throw err
    const what = err.message.includes(path) ? err.message : `${path}: ${err.message}`
    throw new ConfigError(what, `editor ${shellWord(path)}`, err)
  }
}

function real(path: string): string {
  try {
    return realpathSync(path)
  } catch (err) {
    throw cannot('read', path, err)
  }
}

function openForRead(path: string, file: string): number {
  try {
    return openSync(file, 'r')
  } catch (err) {
    throw cannot('read', path, err)
  }
}

function readText(path: string, file: string): string {
  const fd = openForRead(path, file)
  try {
    return readFileSync(fd, 'latin1')
  } finally {
    closeSync(fd)
  }
}

/** Reads an open file again from its start. */
function readAll(fd: number): string {
  return readFileSync(`/proc/self/fd/${fd}`, 'latin1')
}

function write(
  path: string,
  file: string,
  text: string,
  like: { mode: number; uid: number; gid: number },
): void {
  try {
    writeAtomic(file, Buffer.from(text, 'latin1'), like.mode & 0o7777, { owner: like })
  } catch (err) {
    throw cannot('write', path, err)
  }
}

function cannot(what: string, path: string, err: unknown): ConfigError {
  const fault = fromOs(err)
  const next = fault instanceof NetvmError ? fault.next : undefined
  return new ConfigError(
    `cannot ${what} ${path}: ${(err as NodeJS.ErrnoException).code ?? err}`,
    next ?? `ls -ld ${shellWord(path)}`,
    err,
  )
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

function appended(text: string, row: NewRow): string | undefined {
  const table = tableOf(text)
  if (table.rows.some((r) => fieldText(r, table, 'name') === row.name)) return undefined
  const cells = Array.from(table.header.cells, () => '')
  for (const [field, value] of Object.entries(values(row)) as [Field, string][]) {
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

function values(row: NewRow): Record<Field, string> {
  return {
    name: row.name,
    agent: row.agent ?? row.name,
    netns: row.netns ?? `warp-${row.name}`,
    cdpPort: String(row.cdpPort),
    gw: row.gw,
    peer: row.peer,
    relayTarget: row.relayTarget ?? `127.0.0.1:${row.cdpPort}`,
    status: row.status ?? 'active',
    chatUrl: row.chatUrl ?? '',
    chatTitle: row.chatTitle ?? '',
    apiCheck: row.apiCheck ?? '',
    host: row.host ?? '',
  }
}

function withCell(
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
  return bytes(escapeCell(value))
}

function bytes(s: string): string {
  return Buffer.from(s, 'utf8').toString('latin1')
}
