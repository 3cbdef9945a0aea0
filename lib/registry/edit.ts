import { closeSync, fstatSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { attempt } from '../base/attempt.ts'
import { again, ConfigError, fromOs, LockedError, NetvmError } from '../base/errors.ts'
import { shellWord } from '../base/os-error.ts'
import { writeAtomic } from '../store/state.ts'
import { appended, type NewRow, withCell } from './change.ts'
import type { Field } from './parse.ts'

/** Longest wait for another editor of the file. An edit itself takes milliseconds. */
const LOCK_RETRIES = { retries: 100, minTimeout: 20, maxTimeout: 100, factor: 1.2 }
/** A lock directory without a fresh mtime for this long belonged to somebody who died. */
const STALE_MS = 10_000
/** The least proper-lockfile takes. */
const UPDATE_MS = 1000
/** How often the edit is made anew because a person saved the file in between. */
const MAX_ROUNDS = 5

interface EditOptions {
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
  const file = io('read', path, () => realpathSync(path))
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
    const who = `another program is editing ${path} (${path}.lock)`
    throw new LockedError(who, undefined, `ls -ld ${path}.lock`)
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
  const st = attempt(() => statSync(`${file}.lock`))
  return st && `${st.ino} ${st.mtimeMs}`
}

function rounds(path: string, file: string, opts: EditOptions, change: Change, lost: () => boolean): boolean {
  let wrote = false
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const fd = io('read', path, () => openSync(file, 'r'))
    try {
      const before = readFileSync(fd, 'latin1')
      const after = inFile(path, () => change(before))
      if (after === undefined) return wrote
      opts.beforeWrite?.()
      if (lost()) {
        const what = `lost the lock of ${path} to another program, wrote nothing`
        throw new LockedError(what, undefined, again())
      }
      if (io('read', path, () => readFileSync(file, 'latin1')) !== before) continue
      write(path, file, after, fd)
      wrote = true
      opts.afterWrite?.()
      // An editor that writes in place may have written to the file we replaced: its text goes back, and is
      // the base of another round.
      const late = readFileSync(`/proc/self/fd/${fd}`, 'latin1')
      if (late === before) return true
      write(path, file, late, fd)
    } finally {
      closeSync(fd)
    }
  }
  const what = `${path} keeps changing under the edit, gave up after ${MAX_ROUNDS} tries`
  throw new ConfigError(what, `fuser -v ${shellWord(path)}`)
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

/** Replaces the file, which stays whose it was: owner and mode are those of the open one. */
function write(path: string, file: string, text: string, fd: number): void {
  const like = fstatSync(fd)
  io('write', path, () => writeAtomic(file, Buffer.from(text, 'latin1'), like.mode & 0o7777, { owner: like }))
}

function io<T>(what: 'read' | 'write', path: string, fn: () => T): T {
  try {
    return fn()
  } catch (err) {
    throw cannot(what, path, err)
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
