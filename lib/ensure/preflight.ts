import { accessSync, constants, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fromOs, NetvmError } from '../base/errors.ts'
import { nearest } from '../base/os-error.ts'
import { askSystemd } from '../host/systemctl.ts'
import type { EnsureContext } from './observe.ts'

/** Free blocks that the files of one node need at most: a dozen of one block each, and their directories. */
const BLOCKS = 32

/**
 * Before the row of a node is made active: whether the rest could follow. The row comes first, so that a run that
 * is cut short can be finished by another one; what can be known to fail must not leave a row behind.
 * Looks only, and writes nothing.
 * @throws NetvmError (2) when systemd cannot be asked; the file system's error where it is full or read-only, or a file
 *   is where a directory of ours should be (`fromOs` makes it one for people)
 */
export async function preflight({ p, config }: EnsureContext): Promise<void> {
  const dirs = [p.locks, p.receipts, p.queue, p.state, p.nodesDir, p.unitDir, dirname(config.registry)]
  for (const dir of dirs) writable(dir)
  await askSystemd(['-.mount'], ['ActiveState'])
}

/** @throws the error that writing below the directory would meet, with its path */
function writable(dir: string): void {
  const at = nearest(dir)
  if (!statSync(at).isDirectory()) throw refusal('ENOTDIR', dir)
  accessSync(at, constants.W_OK | constants.X_OK)
  const fs = statfsSync(at)
  // Blocks that are kept for root are ours. A file system that does not count inodes says that it has none.
  if (fs.bfree < BLOCKS || (fs.files > 0 && fs.ffree < BLOCKS)) throw refusal('ENOSPC', dir)
}

function refusal(code: 'ENOTDIR' | 'ENOSPC', path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code, syscall: 'write', path })
}

/** An error after the row became active says so, and how to take that back. */
export function rowLeft(err: unknown, name: string): unknown {
  const fault = fromOs(err)
  if (!(fault instanceof NetvmError)) return fault
  const { exitCode, next } = fault
  const message = `${fault.message}; the row of ${name} is active now: \`netvm-node-down ${name}\` retires it`
  return new NetvmError(message, { exitCode, next, cause: err })
}
