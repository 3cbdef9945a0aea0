import {
  accessSync,
  closeSync,
  constants,
  lstatSync,
  openSync,
  readSync,
  type Stats,
  statfsSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { attempt } from '../base/attempt.ts'
import { errnoOf } from '../base/files.ts'
import { type Paths, profileDir } from '../base/paths.ts'
import type { UnitState } from '../host/systemd.ts'

/** A file system with less than this left, in bytes, takes no profile: a browser there exits at its start. */
const FULL_BYTES = 1024 * 1024
/** What Chromium writes in place. Of another user's it makes no word: it starts, and forgets every login. */
const WRITTEN = ['Default', 'Default/Cookies', 'Default/Preferences', 'Local State']

/**
 * Why a start of a node's browser cannot succeed, as far as files tell; undefined when nothing stands in its way. A
 * living browser is not stopped for such a start, and a dead one is not started: the cause is reported instead.
 *
 * @param unit what the start would run and read; absent: only the profile is looked at
 */
export function whyNoStart(p: Paths, node: string, unit: UnitState | undefined): string | undefined {
  const program = unit?.program
  const missing = unit?.files?.find((file) => attempt(() => statSync(file)) === undefined)
  const lock = join(profileDir(p, node), 'SingletonLock')
  return (
    (program === undefined ? undefined : whyNoProgram(program)) ??
    (missing === undefined ? undefined : `${missing} is missing, which its unit needs`) ??
    (attempt(() => lstatSync(lock))?.isDirectory() ? `${lock} is a directory` : undefined) ??
    whyNotTaken(profileDir(p, node))
  )
}

/**
 * Why the running browser of this pid cannot keep what it must (logins), or undefined. A healthy run asks this: a few
 * stat(2) of files that the kernel has at hand, and nothing is written.
 */
export function whyUnwritable(p: Paths, node: string, pid: number): string | undefined {
  const dir = profileDir(p, node)
  const browser = attempt(() => statSync(`${p.proc}/${pid}`))
  // Root may write everything; and a process that may not be looked at shows root as its owner.
  if (browser === undefined || browser.uid === 0) return whyNotTaken(dir)
  for (const path of [dir, ...WRITTEN.map((name) => join(dir, name))]) {
    const st = attempt(() => statSync(path))
    if (st !== undefined && !mayWrite(st, browser))
      return `${path} is of user ${st.uid} with mode ${(st.mode & 0o777).toString(8)}, the browser is user ${browser.uid}`
  }
  return whyNotTaken(dir)
}

/** Why nobody can write there: whoever asks is root, for whom only the file system itself says no. */
function whyNotTaken(dir: string): string | undefined {
  try {
    accessSync(dir, constants.W_OK)
    const { bavail, bsize, files, ffree } = statfsSync(dir)
    if (bavail * bsize < FULL_BYTES) return `the file system of ${dir} is full`
    // A file system that does not count its inodes says 0 of 0.
    return files > 0 && ffree === 0 ? `the file system of ${dir} has no inode left` : undefined
  } catch (err) {
    return errnoOf(err) === 'EROFS' ? `the file system of ${dir} is read-only` : undefined
  }
}

function mayWrite(st: Stats, { uid, gid }: Stats): boolean {
  const bits = st.isDirectory() ? 0o3 : 0o2
  const shift = st.uid === uid ? 6 : st.gid === gid ? 3 : 0
  return ((st.mode >> shift) & bits) === bits
}

function whyNoProgram(path: string): string | undefined {
  const st = attempt(() => statSync(path))
  if (st === undefined) return `${path} is missing`
  if (!st.isFile() || (st.mode & 0o111) === 0) return `${path} is not executable`
  // What the kernel takes as a program; an upgrade that was cut short leaves a file of that name without it.
  return /^(\x7fELF|#!)/.test(attempt(() => firstBytes(path)) ?? '#!')
    ? undefined
    : `${path} is not a program`
}

function firstBytes(path: string): string {
  const fd = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(4)
    return bytes.subarray(0, readSync(fd, bytes)).toString('latin1')
  } finally {
    closeSync(fd)
  }
}
