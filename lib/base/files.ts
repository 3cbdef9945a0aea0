import { constants, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { attempt } from './attempt.ts'

/** __O_TMPFILE of asm-generic/fcntl.h, which node:fs does not export: a file without a name. */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY

/** The name of a system error (`ENOENT`), or the error in words when it has none. */
export function errnoOf(err: unknown): string {
  return (err as NodeJS.ErrnoException).code ?? String(err)
}

/** The whole text of a file; undefined whatever stands in the way, for readers to whom that makes no difference. */
export function textOf(path: string): string | undefined {
  return attempt(() => readFileSync(path, 'utf8'))
}

/** The whole text of a file; undefined when there is none. @throws the file system's other errors */
export function textIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (err) {
    if (['ENOENT', 'ENOTDIR'].includes(errnoOf(err))) return undefined
    throw err
  }
}

/** Where a symbolic link leads; undefined when it cannot be read. Links of /proc name what they stand for. */
export function linkOf(path: string): string | undefined {
  return attempt(() => readlinkSync(path))
}

/** The names in a directory; none when it cannot be listed. */
export function namesIn(dir: string): string[] {
  return attempt(() => readdirSync(dir)) ?? []
}

/** Opens a file without a name, ours alone and gone once closed. @throws the error of a file system without such files */
export function openNameless(dir: string): number {
  return openSync(dir, O_TMPFILE | constants.O_RDWR, 0o600)
}
