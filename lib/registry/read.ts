import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../base/config.ts'
import { ConfigError, UsageError } from '../base/errors.ts'
import { nearest, shellWord } from '../base/os-error.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { type ParsedRegistry, parseRegistry, RegistryError } from './parse.ts'

export { type ParsedRegistry, parseRegistry, RegistryError, type RowError } from './parse.ts'

/** A registry of this size would be a mistake (a log, a device), not a table of nodes. */
const MAX_BYTES = 4 * 1024 * 1024

/**
 * Reads the registry anew: it is the only inventory, and people edit it while we run.
 * @throws RegistryError when it cannot be read or has no table
 */
export function readRegistry(_p: Paths, config: Pick<Config, 'registry'>): ParsedRegistry {
  const path = config.registry
  let text: string
  try {
    text = readPlain(path)
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code
    if (code === 'ENOENT') {
      const what = `no registry at ${path}: put it back, or let scripts/install make an empty one`
      throw new RegistryError(what, `ls -la ${shellWord(nearest(dirname(path)))}`, err)
    }
    throw new RegistryError(`cannot read ${path}: ${code}`, `ls -ld ${shellWord(path)}`, err)
  }
  if (text.length > MAX_BYTES)
    throw new RegistryError(`${path} is larger than 4 MiB`, `ls -l ${shellWord(path)}`)
  try {
    return { ...parseRegistry(text), path }
  } catch (err) {
    if (!(err instanceof RegistryError)) throw err
    throw new RegistryError(`${path}: ${err.message}`, `editor ${path}`, err)
  }
}

/** Reads a file without ever waiting for somebody to write it, as opening a FIFO does. */
function readPlain(path: string): string {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = fstatSync(fd)
    if (!stat.isFile() && !stat.isDirectory()) throw Object.assign(new Error(), { code: 'it is no file' })
    return readFileSync(fd, 'utf8')
  } finally {
    closeSync(fd)
  }
}

/** True when this host runs the row: `Host` is empty, this host's name, or its first label. No case. */
export function isLocal(node: Pick<Node, 'host'>, hostname: string): boolean {
  const host = node.host.toLowerCase()
  const own = hostname.toLowerCase()
  return host === '' || host === own || host === own.split('.')[0]
}

/** The rows this host supervises, in the order of the file. */
export function activeLocalNodes(parsed: ParsedRegistry, hostname: string): Node[] {
  return parsed.nodes.filter((n) => n.status === 'active' && isLocal(n, hostname))
}

/** @throws UsageError for a name without an accepted row; it says why when the row was refused */
export function findNode(parsed: ParsedRegistry, name: string): Node {
  const node = parsed.nodes.find((n) => n.name === name)
  if (node !== undefined) return node
  const where = parsed.path ?? 'the registry'
  const refused = parsed.errors.find((e) => e.name === name)
  if (refused !== undefined) {
    const what = `the row of node ${name} was refused: ${where} line ${refused.line}: ${refused.reason}`
    throw new ConfigError(what, `editor ${shellWord(where)}`)
  }
  const known = clean(parsed.nodes.map((n) => n.name).join(', '), 200)
  const near = nearName(parsed, name)
  const hint = near === undefined ? '' : `; did you mean ${near}?`
  throw new UsageError(
    `no node "${clean(name, 60)}" in ${where}${known === '' ? '' : ` (it has ${known})`}${hint}`,
    'box fleet status',
  )
}

/** The row's name that a typo of one letter more, less or other would have meant. */
export function nearName(parsed: ParsedRegistry, name: string): string | undefined {
  return parsed.nodes.map((n) => n.name).find((k) => isNear(k, name))
}

/** Whether one letter more, less or other, or none, makes `b` of `a`. */
function isNear(a: string, b: string): boolean {
  let i = 0
  while (i < a.length && a[i] === b[i]) i++
  const [restA, restB] = [a.slice(i + 1), b.slice(i + 1)]
  return restA === restB || restA === b.slice(i) || a.slice(i) === restB
}

/**
 * The rows that a run of this host is about: those named, or every active one.
 * @param notHere ends the sentence about a row that this host does not supervise: `its relay is not watched here`
 * @throws UsageError for a name without an active row of this host
 */
export function localNodes(
  parsed: ParsedRegistry,
  names: readonly string[],
  hostname: string,
  notHere: string,
): Node[] {
  const active = activeLocalNodes(parsed, hostname)
  if (names.length === 0) return active
  return [...new Set(names)].map((name) => {
    const row = findNode(parsed, name)
    if (active.includes(row)) return row
    if (row.status === 'retired')
      throw new UsageError(`node ${name} is retired: ${notHere}`, `netvm-node-up ${name}`)
    throw new UsageError(`node ${name} belongs to host ${row.host}: ${notHere}`, 'box fleet status')
  })
}
