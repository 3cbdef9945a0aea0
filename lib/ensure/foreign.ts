import { basename, dirname } from 'node:path'
import { textIfThere } from '../base/files.ts'
import { shellWord } from '../base/os-error.ts'
import type { Paths } from '../base/paths.ts'
import type { UnitShow } from '../host/systemd.ts'
import { dropIn } from './settings.ts'
import type { ForeignFile } from './types.ts'

/** What `foreignFiles` reads of a unit. */
export const FILE_PROPS = ['FragmentPath', 'DropInPaths'] as const

/**
 * The files that change a unit of ours and are not ours, in the order in which systemd reads them, so that
 * the last one wins: a unit file of the instance's own in place of the template, and every drop-in but the
 * row's, wherever it lies (/etc, /run, `systemctl set-property`).
 */
export function foreignFiles(p: Paths, unit: string, shown: UnitShow): ForeignFile[] {
  const fragment = shown.FragmentPath ?? ''
  const template = unit.replace(/@[^.]*\./, '@.')
  const ours = fragment === '' || basename(fragment) === template || basename(fragment) === 'null'
  const whole = ours && (fragment === '' || dirname(fragment) === p.unitDir) ? [] : [fragment]
  const dropIns = words(shown.DropInPaths ?? '').filter((path) => path !== dropIn(p, unit))
  return [...whole, ...dropIns].map((path) => ({
    path: shellWord(path),
    keys: keys(textIfThere(path) ?? ''),
  }))
}

/** systemctl puts double quotes around a path with a blank in it. */
function words(list: string): string[] {
  return Array.from(list.matchAll(/"([^"]+)"|(\S+)/g), (m) => m[1] ?? m[2] ?? '').filter((w) =>
    w.startsWith('/'),
  )
}

function keys(text: string): string[] {
  return Array.from(text.matchAll(/^\s*([A-Za-z]+)\s*=/gm), (m) => m[1] ?? '')
}
