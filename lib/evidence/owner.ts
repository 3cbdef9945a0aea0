import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readSync } from 'node:fs'
import { errnoOf, textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'

/** How user ids look from here: in a user namespace the host's root is an unmapped id. */
export interface IdMap {
  /** The first user namespace: ids are what they are everywhere else. */
  readonly initial: boolean
  /** The id that stands for everybody who is not mapped. */
  readonly overflow: number
  /** Whether an id of this namespace is somebody mapped into it. */
  readonly mapped: (uid: number) => boolean
}

/** Every id there is: only the first user namespace (or one that root made to be the same) maps them all. */
const ALL_IDS = 4_294_967_295

/**
 * @param uidMap `/proc/self/uid_map`: `inside outside count` per line; undefined when it cannot be read
 * @param overflow `/proc/sys/kernel/overflowuid`
 */
export function parseIdMap(uidMap: string | undefined, overflow = 65_534): IdMap {
  const rows = (uidMap ?? '')
    .split('\n')
    .map((l) => l.trim().split(/\s+/).map(Number))
    .filter((r) => r.length === 3 && r.every(Number.isSafeInteger)) as [number, number, number][]
  const initial = rows.some(([inside, outside, count]) => inside === 0 && outside === 0 && count === ALL_IDS)
  const mapped = (uid: number) => rows.some(([inside, , n]) => uid >= inside && uid < inside + n)
  return { initial, overflow, mapped }
}

/** The map of this process. */
export function ownIdMap(proc: string): IdMap {
  const overflow = Number(textOf(`${proc}/sys/kernel/overflowuid`) ?? 65_534)
  return parseIdMap(textOf(`${proc}/self/uid_map`), Number.isSafeInteger(overflow) ? overflow : 65_534)
}

/**
 * May a file with this owner have been written by the host's root? In the first user namespace that is
 * uid 0. In any other, uid 0 is whoever made the namespace, an ordinary user perhaps, and the host's root
 * is one of those that are not mapped: such a file was at least not written from in here.
 */
export function maybeRoot(uid: number, map: IdMap): boolean {
  return map.initial ? uid === 0 : uid === map.overflow && !map.mapped(uid)
}

/** Group or others may write. */
const SHARED = constants.S_IWGRP | constants.S_IWOTH

/**
 * Files that only root can have written. Every directory on the way counts too: "unmapped" is also what
 * another user's file looks like from a user namespace, and only root can put one below a root-only path.
 */
export class Trust {
  private readonly dirs = new Map<string, string | undefined>()
  private readonly map: IdMap
  private readonly p: Paths

  constructor(p: Paths, map: IdMap = ownIdMap(p.proc)) {
    this.p = p
    this.map = map
  }

  /** Reads a whole file; undefined when it is not there. Not seen: unreadable, too big, or not surely root's. */
  read(path: string, maxBytes = 256 * 1024): Look<string | undefined> {
    return this.open(path, (fd, size) =>
      size > maxBytes
        ? { seen: false, why: `larger than ${maxBytes} bytes` }
        : { seen: true, value: readFileSync(fd, 'utf8') },
    )
  }

  /** The same, read further by `parse`. Not seen also when that throws: with `why`, or with what it threw. */
  parsed<T>(path: string, parse: (text: string) => T, why?: string): Look<T | undefined> {
    const raw = this.read(path)
    if (!raw.seen || raw.value === undefined) return raw as Look<undefined>
    try {
      return { seen: true, value: parse(raw.value) }
    } catch (err) {
      const said = clean(err instanceof Error ? err.message : String(err), 80)
      return { seen: false, why: why ?? `cannot be read: ${said}` }
    }
  }

  /** The last `bytes` of a file (whole when it is shorter). */
  tail(path: string, bytes: number): Look<{ text: string; whole: boolean } | undefined> {
    return this.open(path, (fd, size) => {
      const from = Math.max(0, size - bytes)
      const buffer = Buffer.allocUnsafe(size - from)
      const n = readSync(fd, buffer, 0, buffer.length, from)
      return { seen: true, value: { text: buffer.toString('utf8', 0, n), whole: from === 0 } }
    })
  }

  /**
   * When a file was last changed, in wall milliseconds; undefined when its directory is there and it is not. Not
   * seen: no permission, no such directory, or one that is not surely root's. The file itself is not opened.
   */
  changed(path: string): Look<number | undefined> {
    const dir = this.directory(path.slice(0, path.lastIndexOf('/')))
    if (dir !== undefined) return { seen: false, why: dir }
    try {
      return { seen: true, value: lstatSync(path).ctimeMs }
    } catch (err) {
      return errnoOf(err) === 'ENOENT' ? { seen: true, value: undefined } : { seen: false, why: errnoOf(err) }
    }
  }

  private open<T>(path: string, use: (fd: number, size: number) => Look<T>): Look<T | undefined> {
    const dir = this.directory(path.slice(0, path.lastIndexOf('/')))
    if (dir === 'ENOENT') return { seen: true, value: undefined }
    if (dir !== undefined) return { seen: false, why: dir }
    let fd: number | undefined
    try {
      // Not through a link, and not blocking on a FIFO somebody put there.
      fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
      const st = fstatSync(fd)
      const fault = st.isFile() ? this.fault(st, SHARED) : 'not a file'
      return fault === undefined ? use(fd, st.size) : { seen: false, why: fault }
    } catch (err) {
      const code = errnoOf(err)
      return fd === undefined && code === 'ENOENT'
        ? { seen: true, value: undefined }
        : { seen: false, why: code }
    } finally {
      if (fd !== undefined) closeSync(fd)
    }
  }

  /** Why a directory cannot be trusted; `ENOENT` when it is not there; undefined when it can. */
  private directory(dir: string): string | undefined {
    const at = dir === '' ? '/' : dir
    if (this.dirs.has(at)) return this.dirs.get(at)
    const above =
      at === '/' || at === this.p.root ? undefined : this.directory(at.slice(0, at.lastIndexOf('/')))
    let fault = above
    if (above === undefined)
      try {
        // Directories of ours are root's alone; above them a distribution may let a system group in.
        const ours = /\/netvm(\/|$)/.test(at.slice(this.p.root.length))
        const st = lstatSync(at)
        fault = st.isDirectory() ? this.fault(st, ours ? SHARED : constants.S_IWOTH) : `${at} is no directory`
        if (fault !== undefined) fault = `${at}: ${fault}`
      } catch (err) {
        fault = errnoOf(err) === 'ENOENT' ? 'ENOENT' : `${at}: ${errnoOf(err)}`
      }
    this.dirs.set(at, fault)
    return fault
  }

  private fault(st: { uid: number; mode: number }, forbidden: number): string | undefined {
    // Under a test's root the files are the test's own.
    const mine = this.p.root !== '' && st.uid === process.getuid?.()
    if (!mine && !maybeRoot(st.uid, this.map)) return `not written by root (uid ${st.uid})`
    if ((st.mode & forbidden) !== 0) return 'others may write to it'
    return undefined
  }
}
