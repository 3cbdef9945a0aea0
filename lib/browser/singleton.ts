import { lstatSync, readlinkSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from '../base/files.ts'
import { type Paths, profileDir } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { findBrowsers } from './processes.ts'

/** Chromium's RESULT_CODE_PROFILE_IN_USE: its singleton lock names another host. */
export const PROFILE_IN_USE = 21

const LINKS = ['SingletonLock', 'SingletonCookie', 'SingletonSocket']

/**
 * Removes the three Singleton links of a profile that nothing live owns. A lock of another host name makes
 * Chromium exit 21 at every start (a lock of this host it replaces), so call it only after that exit.
 *
 * @returns what was removed, for people; not seen when a browser runs or that is not known
 */
export function removeSingleton(p: Paths, node: string): Look<string> {
  const dir = profileDir(p, node)
  const owners = findBrowsers(p, dir)
  if (!owners.seen) return owners
  const owner = owners.value[0]
  if (owner) return { seen: false, why: `pid ${owner.pid} owns the profile` }
  let lockedBy = ''
  let removed = 0
  for (const name of LINKS) {
    const path = join(dir, name)
    try {
      // Only the links that Chromium makes: a file or folder of that name is somebody else's.
      if (!lstatSync(path).isSymbolicLink()) continue
      if (name === 'SingletonLock') lockedBy = clean(readlinkSync(path), 80)
      unlinkSync(path)
      removed++
    } catch (err) {
      const code = errnoOf(err)
      if (code !== 'ENOENT') return { seen: false, why: `cannot remove ${path}: ${code}` }
    }
  }
  if (removed === 0) return { seen: false, why: 'there was no Singleton link to remove' }
  return { seen: true, value: `removed ${removed} Singleton links (lock of ${lockedBy || 'nobody'})` }
}
