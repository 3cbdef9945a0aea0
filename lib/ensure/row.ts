import { hostname } from 'node:os'
import { UsageError } from '../errors.ts'
import { assertNodeName, freeNames } from '../names.ts'
import { appendRow, findNode, isLocal, type ParsedRegistry, readRegistry, setCell } from '../registry.ts'
import type { Node } from '../types.ts'
import type { EnsureContext } from './observe.ts'

export interface RowOptions {
  /** Append the row when there is none. Without it an unknown name is a typo. */
  readonly add: boolean
  readonly title?: string | undefined
  readonly url?: string | undefined
  readonly api?: string | undefined
  readonly port?: number | undefined
}

/**
 * Makes sure that the node has an active row of this host, with the given cells. Appends it or changes cells
 * in place; every other byte of the file is kept.
 * @returns the row as it is now, and one line per change
 * @throws UsageError for an unknown name, a refused row, or a row of another host
 */
export async function ensureRow(
  ctx: EnsureContext,
  name: string,
  opts: RowOptions,
): Promise<{ node: Node; did: string[] }> {
  const path = ctx.config.registry
  assertNodeName(name)
  const parsed = readRegistry(ctx.p, ctx.config)
  const there = parsed.nodes.find((n) => n.name === name)
  if (there === undefined && !parsed.errors.some((e) => e.name === name)) {
    if (!opts.add) throw unknownName(parsed, name, path)
    const did = await append(ctx, parsed, name, opts)
    return { node: findNode(readRegistry(ctx.p, ctx.config), name), did: [did] }
  }
  const row = findNode(parsed, name)
  if (!isLocal(row, hostname())) {
    throw new UsageError(`node ${name} belongs to host ${row.host} (${path} line ${row.line})`)
  }
  const did = await change(path, row, opts)
  return { node: findNode(readRegistry(ctx.p, ctx.config), name), did }
}

/** One letter more, less or other is what a typo is; the nearest name is the best hint. */
function unknownName(parsed: ParsedRegistry, name: string, path: string): UsageError {
  const known = parsed.nodes.map((n) => n.name)
  const near = known.find((k) => distance(k, name) <= 1)
  const hint = near === undefined ? '' : `; did you mean ${near}?`
  const next = near === undefined ? `netvm-node-up ${name}` : `ensure-node-supervision ${near}`
  return new UsageError(`no row for node "${name}" in ${path}${hint}`, next)
}

/** Edit distance, cut off at 2: names are at most 32 characters. */
function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 1) return 2
  let i = 0
  while (i < a.length && a[i] === b[i]) i++
  if (i === a.length && i === b.length) return 0
  const rests = [
    a.slice(i + 1) === b.slice(i + 1),
    a.slice(i + 1) === b.slice(i),
    a.slice(i) === b.slice(i + 1),
  ]
  return rests.includes(true) ? 1 : 2
}

async function append(
  ctx: EnsureContext,
  parsed: ParsedRegistry,
  name: string,
  opts: RowOptions,
): Promise<string> {
  const names = freeNames(name, parsed.nodes)
  const port = opts.port ?? portOverride() ?? names.port
  const holder = parsed.nodes.find((n) => n.cdpPort === port)
  if (holder)
    throw new UsageError(`port ${port} is node ${holder.name}'s`, `netvm-node-up ${name} --port PORT`)
  // In a file that serves several hosts, a row without a host would be run by all of them.
  const shared = parsed.nodes.some((n) => n.host !== '')
  await appendRow(ctx.config.registry, {
    name,
    cdpPort: port,
    gw: names.gw,
    peer: names.peer,
    ...(opts.url !== undefined && { chatUrl: opts.url }),
    ...(opts.title !== undefined && { chatTitle: opts.title }),
    ...(opts.api !== undefined && { apiCheck: opts.api }),
    ...(shared && { host: hostname() }),
  })
  return `row added to ${ctx.config.registry}: port ${port}, ${names.sub}`
}

function portOverride(): number | undefined {
  const text = process.env.CDP_PORT_OVERRIDE
  if (text === undefined || text === '') return undefined
  return parsePort(text, 'CDP_PORT_OVERRIDE')
}

/** @throws UsageError naming where the port was given */
export function parsePort(text: string, where: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (port >= 1024 && port <= 65535) return port
  throw new UsageError(`${where} must be 1024 to 65535, not "${text}"`)
}

async function change(path: string, row: Node, opts: RowOptions): Promise<string[]> {
  if (opts.port !== undefined && opts.port !== row.cdpPort) {
    // Relay Target holds the port too, and clients know it: a person should do that deliberately.
    throw new UsageError(
      `node ${row.name} has port ${row.cdpPort} in ${path} line ${row.line}; --port is for new rows`,
      `editor ${path}`,
    )
  }
  const cells = [
    ['chatTitle', 'Chat Title', row.chatTitle, opts.title],
    ['chatUrl', 'Chat URL', row.chatUrl, opts.url],
    ['apiCheck', 'API Check', row.apiCheck, opts.api],
  ] as const
  const did: string[] = []
  for (const [field, header, have, want] of cells) {
    if (want === undefined || want === have) continue
    await setCell(path, row.name, field, want)
    did.push(`row changed: ${header} is "${want}"`)
  }
  if (opts.add && row.status === 'retired') {
    await setCell(path, row.name, 'status', 'active')
    did.push(`row of ${path} line ${row.line} set active`)
  }
  return did
}
