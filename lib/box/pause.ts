import { rmSync } from 'node:fs'
import { userInfo } from 'node:os'
import { attempt } from '../base/attempt.ts'
import { now, wallIso } from '../base/clock.ts'
import { loadConfig } from '../base/config.ts'
import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { intentPath, type Paths } from '../base/paths.ts'
import { clean, seconds } from '../base/text.ts'
import type { Now } from '../base/types.ts'
import { requireRoot } from '../cli/cli.ts'
import { findNode, readRegistry } from '../registry/read.ts'
import { line, said } from '../report/line.ts'
import { makeLog } from '../report/log.ts'
import { type Intent, isPaused, readIntent } from '../store/intent.ts'
import { holder } from '../store/lock.ts'
import { writeState } from '../store/state.ts'

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A pause without an end of its own is one that was forgotten; half an hour is a repair by hand. */
export const DEFAULT_PAUSE_MS = 30 * 60_000
/** Longer than a week is not a pause but a retirement. */
const MAX_PAUSE_MS = 7 * 86_400_000

/** `box node pause`: watched, reported, not acted on, until it expires. @throws UsageError, RootError */
export function pauseNode(p: Paths, name: string, options: { for?: string; reason?: string }): ExitCode {
  const forMs = options.for === undefined ? DEFAULT_PAUSE_MS : parseDuration(options.for)
  const node = findNode(readRegistry(p, loadConfig(p)), name)
  requireRoot(`box node pause ${name}`)
  const pause = makePause(node.name, whoAsks(), options.reason ?? '', now(p), forMs)
  writePause(p, pause)
  const until = wallIso(pause.untilWallMs)
  const why = pause.reason === '' ? '' : `: ${pause.reason}`
  makeLog('box', p).write(node.name, {
    level: 'INFO',
    ...said('paused', { by: pause.by, reason: `for ${seconds(forMs)} until ${until}${why}` }),
  })
  console.log(
    `${node.name} paused for ${seconds(forMs)}, until ${until}; ends sooner: box node resume ${node.name}`,
  )
  // A repair that has begun is not torn in two; it is reported, so that nobody is surprised by it.
  const busy = holder(p, `node-${node.name}`)
  if (busy.seen && busy.value !== undefined)
    console.log(
      `note: a run that began earlier is still at work: ${clean(busy.value.doing)} (pid ${busy.value.pid})`,
    )
  return EXIT.OK
}

/** `box node resume`. @throws UsageError, RootError */
export function resumeNode(p: Paths, name: string): ExitCode {
  const node = findNode(readRegistry(p, loadConfig(p)), name)
  requireRoot(`box node resume ${name}`)
  const was = removePause(p, node.name, now(p))
  if (was) makeLog('box', p).write(node.name, line('INFO', 'resumed', { by: whoAsks() }))
  console.log(was ? `${node.name} resumed` : `${node.name} was not paused`)
  return EXIT.OK
}

/**
 * Parses `90s`, `30m`, `2h`, `1d`, `1h30m`, in ms.
 * @throws UsageError for anything else, zero, or more than a week
 */
export function parseDuration(text: string): number {
  const parts = [...text.matchAll(/(\d{1,6})([smhd])/g)]
  const ms = parts.reduce((sum, [, n, unit]) => sum + Number(n) * (UNIT_MS[unit ?? ''] ?? 0), 0)
  const typed = `"${clean(text, 40)}"`
  if (ms === 0 || parts.map(([all]) => all).join('') !== text)
    throw new UsageError(`${typed} is no duration; write 90s, 30m, 2h or 1d`, 'box node pause --help')
  if (ms > MAX_PAUSE_MS)
    throw new UsageError(
      `${typed} is longer than 7d; a node that rests longer is retired`,
      'netvm-node-down --help',
    )
  return ms
}

/** Who asks: the person behind sudo where there is one. */
export function whoAsks(env: NodeJS.ProcessEnv = process.env): string {
  const sudo = env.SUDO_USER
  if (sudo !== undefined && sudo !== '') return clean(sudo, 80)
  // It throws without a passwd entry for this uid.
  return clean(attempt(() => userInfo().username) ?? `uid ${process.getuid?.() ?? '?'}`, 80)
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
