import { hostname } from 'node:os'
import { UsageError } from '../base/errors.ts'
import { shellWord } from '../base/os-error.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { appendRow, setCell } from '../registry/edit.ts'
import { assertNodeName, freeNames } from '../registry/names.ts'
import { COLUMN, cellFault } from '../registry/parse.ts'
import { findNode, isLocal, nearName, type ParsedRegistry, readRegistry } from '../registry/read.ts'
import type { EnsureContext } from './observe.ts'
import { preflight } from './preflight.ts'

export interface RowOptions {
  /** Append the row when there is none. Without it an unknown name is a typo. */
  readonly add: boolean
  readonly title?: string | undefined
  readonly url?: string | undefined
  readonly api?: string | undefined
  readonly port?: number | undefined
}

/** The cells that a command line may write. */
const CELLS = [
  ['title', 'chatTitle'],
  ['url', 'chatUrl'],
  ['api', 'apiCheck'],
] as const

/**
 * Makes sure that the node has an active row of this host, with the given cells. Appends it or changes cells
 * in place; every other byte of the file is kept.
 * @returns the row as it is now, one line per change, and whether it was no active row before
 * @throws UsageError for an unknown name, a refused row, or a row of another host
 */
export async function ensureRow(
  ctx: EnsureContext,
  name: string,
  opts: RowOptions,
): Promise<{ node: Node; did: string[]; activated: boolean }> {
  const { parsed, row } = lookForRow(ctx, assertNodeName(name), opts.add)
  if (row !== undefined) assertLocal(row, ctx.config.registry, 'netvm-node-up')
  const did = row === undefined ? await append(ctx, parsed, name, opts) : await change(ctx, row, opts)
  const node = findNode(readRegistry(ctx.p, ctx.config), name)
  return { node, did, activated: row?.status !== 'active' && node.status === 'active' }
}

/** @throws UsageError for a row of another host, where `program` is to be run for it */
export function assertLocal({ name, host, line }: Node, registry: string, program: string): void {
  if (isLocal({ host }, hostname())) return
  throw new UsageError(
    `node ${name} belongs to host ${host} (${registry} line ${line})`,
    `ssh ${host} ${program} ${name}`,
  )
}

/**
 * Refuses what cannot have a row, before a lock is taken for it.
 * @throws UsageError for an unknown name or a bad CDP_PORT_OVERRIDE; ConfigError for a refused row
 */
export function assertRow(ctx: EnsureContext, name: string, add: boolean): void {
  if (lookForRow(ctx, name, add).row === undefined) portOverride()
}

/** The registry with the node's row in it, if any. @throws UsageError without one, unless it may be added; ConfigError */
function lookForRow(ctx: EnsureContext, name: string, add: boolean): { parsed: ParsedRegistry; row?: Node } {
  const parsed = readRegistry(ctx.p, ctx.config)
  if ([...parsed.nodes, ...parsed.errors].some((row) => row.name === name)) {
    return { parsed, row: findNode(parsed, name) }
  }
  if (add) return { parsed }
  // One letter more, less or other is what a typo is; the nearest name is the best hint.
  const near = nearName(parsed, name)
  const hint = near === undefined ? '' : `; did you mean ${near}?`
  const next = near === undefined ? `netvm-node-up ${name}` : `ensure-node-supervision ${near}`
  throw new UsageError(`no row for node "${name}" in ${parsed.path}${hint}`, next)
}

async function append(
  ctx: EnsureContext,
  parsed: ParsedRegistry,
  name: string,
  opts: RowOptions,
): Promise<string[]> {
  const names = freeNames(name, parsed.nodes)
  const port = opts.port ?? portOverride() ?? names.port
  const holder = parsed.nodes.find((n) => n.cdpPort === port)
  if (holder)
    throw new UsageError(`port ${port} is node ${holder.name}'s`, `netvm-node-up ${name} --port PORT`)
  // In a file that serves several hosts, a row without a host would be run by all of them.
  const shared = parsed.nodes.some((n) => n.host !== '')
  await preflight(ctx)
  await appendRow(ctx.config.registry, {
    name,
    cdpPort: port,
    gw: names.gw,
    peer: names.peer,
    chatUrl: opts.url,
    chatTitle: opts.title,
    apiCheck: opts.api,
    host: shared ? hostname() : '',
  })
  return [`row added to ${ctx.config.registry}: port ${port}, ${names.sub}`]
}

function portOverride(): number | undefined {
  const text = process.env.CDP_PORT_OVERRIDE
  return text ? parsePort(text, 'CDP_PORT_OVERRIDE') : undefined
}

/** @throws UsageError naming where the port was given */
export function parsePort(text: string, where: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (port >= 1024 && port <= 65535) return port
  const next = where.startsWith('--') ? 'netvm-node-up --help' : `unset ${where}`
  throw new UsageError(`${where} must be 1024 to 65535, not "${clean(text, 40)}"`, next)
}

/** Longest cell that a command line may write, in characters: a URL of every server, far above any title. */
const MAX_CELL = 2000

/**
 * What is typed for a row is checked as a row would be, before anything is written.
 * @throws UsageError naming the option
 */
export function checkRowOptions(opts: Omit<RowOptions, 'add'>): void {
  const next = 'netvm-node-up --help'
  for (const [option, field] of CELLS) {
    const value = opts[option] ?? ''
    if (value.length > MAX_CELL)
      throw new UsageError(`--${option} is longer than ${MAX_CELL} characters`, next)
    const reason = cellFault(field, value)
    if (reason !== undefined) throw new UsageError(`--${option}: ${reason}`, next)
  }
}

async function change(ctx: EnsureContext, row: Node, opts: RowOptions): Promise<string[]> {
  const path = ctx.config.registry
  if (opts.port !== undefined && opts.port !== row.cdpPort) {
    // Relay Target holds the port too, and clients know it: a person should do that deliberately.
    throw new UsageError(
      `node ${row.name} has port ${row.cdpPort} in ${path} line ${row.line}; --port is for new rows`,
      `editor ${shellWord(path)}`,
    )
  }
  if (opts.add && row.status === 'retired') await preflight(ctx)
  const did: string[] = []
  for (const [option, field] of CELLS) {
    const want = opts[option]
    if (want === undefined || want === row[field]) continue
    await setCell(path, row.name, field, want)
    did.push(`row changed: ${COLUMN[field]} is "${want}"`)
  }
  if (opts.add && row.status === 'retired') {
    await setCell(path, row.name, 'status', 'active')
    did.push(`row of ${path} line ${row.line} set active`)
  }
  return did
}
