import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { ConfigError } from '../base/errors.ts'
import { errnoOf } from '../base/files.ts'
import { nearest } from '../base/os-error.ts'
import type { Paths } from '../base/paths.ts'
import { tunnelConfPath } from './configured.ts'
import { ConfError, parseTunnelConf, type TunnelConf } from './wg-conf.ts'

const CANNOT_OPEN: Readonly<Record<string, string>> = {
  ELOOP: 'is a symbolic link',
  ENOENT: 'does not exist',
}

/**
 * Reads a node's tunnel configuration. The file holds keys, so it must be a plain file of root's that nobody else
 * can read. Throws ConfigError that names the file and every bad line, and never a value.
 */
export function readTunnelConf(p: Paths, node: string, owner = 0): TunnelConf {
  const path = tunnelConfPath(p, node)
  let fd: number
  try {
    // O_NOFOLLOW: whoever can place a link here must not choose what root reads. O_NONBLOCK: a FIFO must not hang us.
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (err) {
    const code = errnoOf(err)
    const why = CANNOT_OPEN[code] ?? `cannot be opened: ${code}`
    throw new ConfigError(`${path} ${why}`, `ls -la ${nearest(dirname(path))}`)
  }
  try {
    const stat = fstatSync(fd)
    if (!stat.isFile()) throw new ConfigError(`${path} is not a plain file`, `ls -l ${path}`)
    if (stat.uid !== owner)
      throw new ConfigError(`${path} does not belong to root`, `chown root:root ${path}`)
    if ((stat.mode & 0o077) !== 0) {
      throw new ConfigError(`${path} can be read or written by others than root`, `chmod 600 ${path}`)
    }
    return parseTunnelConf(readFileSync(fd, 'utf8'))
  } catch (err) {
    if (err instanceof ConfError) throw new ConfigError(`${path}: ${err.message}`, `editor ${path}`)
    throw err
  } finally {
    closeSync(fd)
  }
}
