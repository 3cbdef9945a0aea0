import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { attempt } from '../base/attempt.ts'
import { fromOs } from '../base/errors.ts'
import { errnoOf } from '../base/files.ts'
import { isRecord } from '../base/shape.ts'
import { clean } from '../base/text.ts'

export interface StateRead<T> {
  readonly value: T
  readonly missing: boolean
  /** The file could not be used; its content is kept. `keptAs` is the file itself when it cannot be moved. */
  readonly corrupt?: { readonly keptAs: string; readonly why: string }
}

/** Format of every state file. A file of another version reads as corrupt, and is kept. */
const VERSION = 1

/**
 * Reads a state file.
 *
 * An empty, torn or otherwise unusable file is kept as `<path>.corrupt-<time>` and replaced on disk by the
 * cautious value: were it only moved away, the next run would find nothing and start with a clean slate.
 * @param parse makes the value of the parsed JSON (without trusting it), and throws when it cannot
 * @param cautious the value that forgets no hold and no open circuit
 * @param fresh the value when there is no file; default `cautious`
 * @throws NetvmError (exit 2) when the file is there and cannot be read, e.g. without permission
 */
export function readState<T>(
  path: string,
  parse: (v: unknown) => T,
  cautious: () => T,
  fresh: () => T = cautious,
): StateRead<T> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (err) {
    if (errnoOf(err) === 'ENOENT') return { value: fresh(), missing: true }
    throw fromOs(err)
  }
  try {
    return { value: parse(decodeState(text)), missing: false }
  } catch (err) {
    const value = cautious()
    const why = clean(err instanceof Error ? err.message : String(err), 120)
    return { value, missing: false, corrupt: { keptAs: keepCorrupt(path, value), why } }
  }
}

/** What a state file's text holds. @throws when it is not one of ours, or of another version */
export function decodeState(text: string): unknown {
  if (text.length === 0) throw new Error('the file is empty')
  if (/^\0+$/.test(text)) throw new Error('the file is full of NULs')
  const value: unknown = JSON.parse(text)
  if (!isRecord(value)) throw new Error('not a JSON object')
  const { version } = value
  if (version !== VERSION) throw new Error(`version ${JSON.stringify(version)}, expected ${VERSION}`)
  return value
}

/** Keeps the content under another name, then puts the cautious value in its place. Best effort. */
function keepCorrupt(path: string, value: unknown): string {
  const kept = `${path}.corrupt-${new Date().toISOString().replace(/[-:.]/g, '')}`
  const replaced = attempt(() => {
    // A second name first, the replacement by rename second: at no time is there no file.
    linkSync(path, kept)
    if (isRecord(value)) writeState(path, value)
    else rmSync(path)
    return kept
  })
  // Not root, or a full disk: the file stays as it is, and every run reads the cautious value.
  return replaced ?? path
}

/** Writes `{ "version": 1, ...value }`, fsynced and renamed, mode 0644; makes the directories. */
export function writeState(path: string, value: object): void {
  writeAtomic(path, `${JSON.stringify({ version: VERSION, ...value })}\n`, 0o644)
}

interface WriteOptions {
  /** fsync file and directory; default true. Pointless on a tmpfs. */
  readonly sync?: boolean
  /** Owner to give the new file; left alone when we may not. */
  readonly owner?: { readonly uid: number; readonly gid: number }
}

/**
 * Replaces a file as a whole: temporary file in the same directory, fsync, rename. Makes the directories.
 * @param mode exact, whatever the umask
 * @throws the file system's error with the path; the old file is untouched then and no temporary file is left
 */
export function writeAtomic(
  path: string,
  text: string | Uint8Array,
  mode: number,
  opts: WriteOptions = {},
): void {
  const { owner, sync = true } = opts
  const dir = dirname(path)
  const tmp = `${path}.tmp-${process.pid}`
  mkdirSync(dir, { recursive: true, mode: 0o755 })
  try {
    const fd = openNew(tmp)
    try {
      writeFileSync(fd, text)
      // A plain user that edits its own file may not, and need not.
      if (owner !== undefined) attempt(() => fchownSync(fd, owner.uid, owner.gid))
      fchmodSync(fd, mode)
      if (sync) fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(tmp, path)
  } catch (err) {
    rmSync(tmp, { force: true })
    // A write to an open file that finds the disk full does not say which file it was.
    if (err instanceof Error) (err as NodeJS.ErrnoException).path ??= path
    throw err
  }
  if (sync) syncDir(dir)
}

/** Makes a file that was not there; what a killed run whose pid we have now left under this name goes first. */
function openNew(path: string): number {
  try {
    return openSync(path, 'wx', 0o600)
  } catch (err) {
    if (errnoOf(err) !== 'EEXIST') throw err
    rmSync(path, { force: true })
    return openSync(path, 'wx', 0o600)
  }
}

/** Without this a rename can be lost with the power. */
function syncDir(dir: string): void {
  const fd = openSync(dir, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
