import { closeSync, constants, fchownSync, fstatSync, mkdirSync, openSync, readdirSync } from 'node:fs'
import { fromOs, NetvmError, RootError } from '../base/errors.ts'
import { errnoOf, textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'

// The directory belongs to a group: its members may put anything there. Everything is opened relative to
// the directory's own descriptor and without following links, so that a link planted in it cannot make
// root open, change or empty another file.

/** An open queue directory of one node. */
export interface QueueDir {
  readonly node: string
  /** For messages and for inotify. */
  readonly path: string
  names(): string[]
  /** Path of an entry by way of the open directory. */
  at(name: string): string
  close(): void
}

/** Operations at a time per browser. */
export const SLOTS: readonly string[] = ['slot-0.lock', 'slot-1.lock']

/** Modes of a node's directory and of the files in it, whatever the caller's umask. */
export const QUEUE_MODE = 0o2770
export const SLOT_MODE = 0o660

const GROUP = 'netvm'
const PLAIN_FILE = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK

function shared<T>(fn: () => T): T {
  const before = process.umask(0o007)
  try {
    return fn()
  } finally {
    process.umask(before)
  }
}

/** The node's queue directory; undefined when there is none. @throws as `openQueueDir` */
export function queueDirIfAny(p: Paths, node: string): QueueDir | undefined {
  const path = `${p.queue}/${node}`
  try {
    return wrap(node, path, openDir(path))
  } catch (err) {
    if (errnoOf(err) === 'ENOENT') return undefined
    throw queueRefusal(err)
  }
}

/**
 * Opens the node's queue directory, making it when it is not there.
 *
 * @throws RootError without permission; NetvmError when it is no directory or the disk refuses
 */
export function openQueueDir(p: Paths, node: string): QueueDir {
  const path = `${p.queue}/${node}`
  const there = queueDirIfAny(p, node)
  if (there !== undefined) return there
  try {
    shared(() => {
      makeDir(p.queue)
      makeDir(path)
    })
    return wrap(node, path, openDir(path))
  } catch (err) {
    throw queueRefusal(err)
  }
}

function openDir(path: string): number {
  return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
}

function makeDir(path: string): void {
  const made = mkdirSync(path, { recursive: true, mode: QUEUE_MODE })
  if (made !== undefined) giveToGroup(path)
}

/** Where tmpfiles has not been at work (no setgid parent), root hands the directory to the group. */
function giveToGroup(path: string): void {
  if (process.geteuid?.() !== 0) return
  const gid = groupId()
  const fd = openDir(path)
  try {
    if (gid !== undefined && fstatSync(fd).gid !== gid) fchownSync(fd, 0, gid)
  } catch {
    // A unit without CAP_CHOWN: members then get a refusal that names the directory.
  } finally {
    closeSync(fd)
  }
}

function groupId(): number | undefined {
  const groups = textOf('/etc/group') ?? ''
  const gid = new RegExp(`^${GROUP}:[^:]*:(\\d+)`, 'm').exec(groups)?.[1]
  return gid === undefined ? undefined : Number(gid)
}

function wrap(node: string, path: string, fd: number): QueueDir {
  const base = `/proc/self/fd/${fd}`
  let open = true
  return {
    node,
    path,
    names: () => readdirSync(base),
    at: (name) => `${base}/${name}`,
    close() {
      if (open) closeSync(fd)
      open = false
    },
  }
}

type Create = 'no' | 'yes' | 'only'

/**
 * Opens a plain file of the directory for locking.
 *
 * @param create `no`: undefined when it is not there; `yes`: made when needed; `only`: fails when it is there
 * @throws NetvmError when the entry is a link, a directory or has a second name
 */
export function openEntry(dir: QueueDir, name: string, create: 'yes' | 'only'): number
export function openEntry(dir: QueueDir, name: string, create: Create): number | undefined
export function openEntry(dir: QueueDir, name: string, create: Create): number | undefined {
  const flags = { no: 0, yes: constants.O_CREAT, only: constants.O_CREAT | constants.O_EXCL }[create]
  let fd: number
  try {
    fd = shared(() => openSync(dir.at(name), PLAIN_FILE | flags, SLOT_MODE))
  } catch (err) {
    if (create === 'no' && errnoOf(err) === 'ENOENT') return undefined
    // The path that people know: the one we open leads through a descriptor.
    throw queueRefusal(Object.assign(err as Error, { path: `${dir.path}/${name}` }))
  }
  const st = fstatSync(fd)
  if (st.isFile() && st.nlink <= 1) return fd
  closeSync(fd)
  throw new NetvmError(`${dir.path}/${name} is not a plain file of its own`, { next: `ls -l ${dir.path}` })
}

/** An error about the queue's files, for people. */
export function queueRefusal(err: unknown): unknown {
  const fault = fromOs(err)
  if (!(fault instanceof RootError)) return fault
  return new RootError(`${fault.message}; the queue is for root and the group ${GROUP}`, fault.next)
}

type WithFd<T> = (fd: number) => T

/** What `fn` makes of an open file of the directory; undefined when that is not there. */
export function withEntry<T>(dir: QueueDir, name: string, create: 'yes', fn: WithFd<T>): T
export function withEntry<T>(dir: QueueDir, name: string, create: 'no', fn: WithFd<T>): T | undefined
export function withEntry<T>(dir: QueueDir, name: string, create: 'no' | 'yes', fn: WithFd<T>) {
  const fd = openEntry(dir, name, create)
  if (fd === undefined) return undefined
  try {
    return fn(fd)
  } finally {
    closeSync(fd)
  }
}
