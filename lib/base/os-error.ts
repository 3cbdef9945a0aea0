import { accessSync, constants, lstatSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { attempt } from './attempt.ts'

/** What the operating system refused, for people: what happened, where, and one command to run next. */
interface OsFault {
  readonly text: string
  readonly next: string
  /** For want of permission, which root may have. */
  readonly denied: boolean
}

const MEANS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EBUSY: 'it is in use',
  EDQUOT: 'the disk quota is used up',
  EEXIST: 'something else is there already',
  EINVAL: 'the file system does not take that',
  EIO: 'the disk gave an error',
  EISDIR: 'it is a directory, a file is needed',
  ELOOP: 'it is a symbolic link, or leads round in a circle',
  EMFILE: 'this process has too many files open',
  ENAMETOOLONG: 'the name is too long',
  ENFILE: 'the host has too many files open',
  ENOENT: 'it does not exist',
  ENOMEM: 'the host is out of memory',
  ENOSPC: 'no space is left on the file system',
  ENOTDIR: 'a part of the path is no directory',
  ENOTEMPTY: 'the directory is not empty',
  EPERM: 'the operation is not permitted',
  EROFS: 'the file system is read-only',
  ESTALE: 'the network file system lost it',
  ETXTBSY: 'it is being run',
}

const DOING: Readonly<Record<string, string>> = {
  access: 'use',
  chmod: 'change the mode of',
  chown: 'change the owner of',
  copyfile: 'copy',
  fchmod: 'change the mode of',
  fchown: 'change the owner of',
  fsync: 'write',
  ftruncate: 'write',
  link: 'link',
  lstat: 'look at',
  mkdir: 'make the directory',
  open: 'open',
  readlink: 'read',
  rename: 'replace',
  rm: 'remove',
  rmdir: 'remove',
  scandir: 'list',
  stat: 'look at',
  symlink: 'link',
  unlink: 'remove',
  write: 'write',
}

/** The Debian package of a program that we call. */
const PACKAGE: Readonly<Record<string, string>> = {
  curl: 'curl',
  flock: 'util-linux',
  ip: 'iproute2',
  journalctl: 'systemd',
  nft: 'nftables',
  nsenter: 'util-linux',
  setpriv: 'util-linux',
  ss: 'iproute2',
  systemctl: 'systemd',
  wg: 'wireguard-tools',
  'wireguard-go': 'wireguard-go',
}

/** The command that brings a program that is not installed. */
export function installCommand(program: string): string {
  const pkg = PACKAGE[program]
  return pkg === undefined ? `apt-cache search ${shellWord(program)}` : `apt-get install ${pkg}`
}

/** One word of a shell command line. */
export function shellWord(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/**
 * Translates an error of the operating system (a full disk, a file where a directory should be). Undefined for
 * anything else: a defect of ours, which needs its place in the code and no polite sentence.
 */
export function osFault(err: unknown): OsFault | undefined {
  if (!(err instanceof Error)) return undefined
  return fault(mkdirsReason(err) ?? err)
}

/**
 * Node's recursive mkdir says ENOENT for whatever stopped it, a read-only file system too. Asking for the directory
 * above says why.
 */
function mkdirsReason({ code, syscall, path }: NodeJS.ErrnoException): Error | undefined {
  if (syscall !== 'mkdir' || code !== 'ENOENT' || path === undefined) return undefined
  try {
    accessSync(nearest(path), constants.W_OK)
    return undefined
  } catch (err) {
    return Object.assign(err as NodeJS.ErrnoException, { syscall, path })
  }
}

function fault(err: Error): OsFault | undefined {
  const { code, syscall, path, dest } = err as NodeJS.ErrnoException & { dest?: string }
  const means = MEANS[code ?? '']
  if (code === undefined || means === undefined || syscall === undefined) return undefined
  if (syscall.startsWith('spawn') && code === 'ENOENT') {
    const program = (path ?? syscall.slice('spawn '.length)).trim()
    return { text: `the program ${program} is not installed`, next: installCommand(program), denied: false }
  }
  const where = (dest ?? path)?.replace(/\.tmp-\d+$/, '')
  const denied = code === 'EACCES' || code === 'EPERM'
  const inTheWay = where && ['ENOTDIR', 'EEXIST'].includes(code) ? notDirectory(where) : undefined
  if (inTheWay !== undefined) {
    const text = `${inTheWay} is no directory, and one is needed there (${code})`
    return { text, next: away(inTheWay), denied }
  }
  const what = `${DOING[syscall] ?? syscall}${where === undefined ? '' : ` ${where}`}`
  const next = where === undefined ? nextWithout(code) : nextFor(code, where)
  return { text: `cannot ${what}: ${means} (${code})`, next, denied }
}

function nextWithout(code: string): string {
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'df -h'
  return code === 'ENOMEM' ? 'free -h' : 'dmesg --level=err,crit,alert,emerg'
}

function nextFor(code: string, where: string): string {
  const there = shellWord(nearest(where))
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      // Space or inodes: df shows both sides, and the reader one command.
      return `df -h --output=target,avail,iavail ${there}`
    case 'EROFS':
      return `findmnt -T ${there}`
    case 'EACCES':
    case 'EPERM':
    case 'ELOOP':
      return `namei -l ${shellWord(where)}`
    case 'EMFILE':
    case 'ENFILE':
      return 'lsof -n'
    case 'ENOMEM':
      return 'free -h'
    case 'EIO':
    case 'ESTALE':
      return 'dmesg --level=err,crit,alert,emerg'
    default:
      return `ls -ld ${there}`
  }
}

/** A plain file is moved and not removed: it may be somebody's. A link or a device is looked at first. */
function away(path: string): string {
  return lstatSync(path).isFile()
    ? `mv ${shellWord(path)} ${shellWord(`${path}.moved`)}`
    : `ls -ld ${shellWord(path)}`
}

/** The path itself, or the nearest directory above it that is there. */
export function nearest(path: string): string {
  for (let at = path; ; at = dirname(at)) {
    if (at === '/' || at === '.' || attempt(() => lstatSync(at))) return at
  }
}

/** The nearest thing at or above a path, when that is no directory. */
function notDirectory(path: string): string | undefined {
  const at = nearest(path)
  // A link that leads nowhere is in the way too.
  return attempt(() => statSync(at).isDirectory()) ? undefined : at
}
