import { rmSync } from 'node:fs'
import { userInfo } from 'node:os'
import { intentPath, type Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Now } from '../base/types.ts'
import { type Intent, isPaused, readIntent } from '../store/intent.ts'
import { writeState } from '../store/state.ts'

/** Who asks: the person behind sudo where there is one. */
export function whoAsks(env: NodeJS.ProcessEnv = process.env): string {
  const sudo = env.SUDO_USER
  if (sudo !== undefined && sudo !== '') return clean(sudo, 80)
  try {
    return clean(userInfo().username, 80)
  } catch {
    // No passwd entry for this uid.
    return `uid ${process.getuid?.() ?? '?'}`
  }
}

/** The record of a pause. Pure. */
export function makePause(node: string, by: string, reason: string, at: Now, forMs: number): Intent {
  return {
    node,
    kind: 'pause',
    reason: clean(reason, 200),
    by,
    since: at,
    untilBootMs: at.bootMs + forMs,
    untilWallMs: at.wallMs + forMs,
  }
}

/** Puts a pause in force; a later one replaces it. @throws the file system's error */
export function writePause(p: Paths, intent: Intent): void {
  writeState(intentPath(p, intent.node), intent)
}

/**
 * Ends a pause. The record stays, with its end: the runs within it have proved nothing, and the status must know.
 * @returns false when none was in force. @throws the file system's error
 */
export function removePause(p: Paths, node: string, at: Now): boolean {
  const { intent } = readIntent(p, node)
  if (intent === undefined || !isPaused(intent, at)) return false
  try {
    writePause(p, { ...intent, ended: at })
  } catch {
    // On a full disk a pause must end all the same.
    rmSync(intentPath(p, node))
  }
  return true
}
