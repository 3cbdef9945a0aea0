import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'

export function tunnelConfPath(p: Paths, node: string): string {
  return join(p.wireguardDir, `${node}.conf`)
}

/**
 * Whether this node is meant to have a tunnel. One lstat. A file that is there but bad (a symlink, wrong owner,
 * unreadable) counts: it is refused loudly where it is read, never mistaken for "no tunnel wanted".
 */
export function tunnelConfigured(p: Paths, node: string): boolean {
  try {
    return lstatSync(tunnelConfPath(p, node), { throwIfNoEntry: false }) !== undefined
  } catch (err) {
    // The directory is root's: somebody else cannot look, which is not "none".
    return ['EACCES', 'EPERM'].includes(errnoOf(err))
  }
}
