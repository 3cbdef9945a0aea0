import { now, wallIso } from '../base/clock.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean, seconds } from '../base/text.ts'
import { requireRoot } from '../cli/cli.ts'
import { select } from '../evidence/select.ts'
import { line, said } from '../report/line.ts'
import { makeLog } from '../report/log.ts'
import { holder } from '../store/lock.ts'
import { DEFAULT_PAUSE_MS, parseDuration } from './duration.ts'
import { makePause, removePause, whoAsks, writePause } from './intent-write.ts'

/** `box node pause`: watched, reported, not acted on, until it ends by itself. @throws UsageError, RootError */
export function pauseNode(p: Paths, name: string, options: { for?: string; reason?: string }): ExitCode {
  const forMs = options.for === undefined ? DEFAULT_PAUSE_MS : parseDuration(options.for)
  const [node] = select(p, [name]).nodes
  requireRoot(`box node pause ${name}`)
  if (node === undefined) return EXIT.USAGE
  const at = now(p)
  const pause = makePause(node.name, whoAsks(), options.reason ?? '', at, forMs)
  writePause(p, pause)
  const until = wallIso(pause.untilWallMs)
  const why = pause.reason === '' ? '' : `: ${pause.reason}`
  makeLog('box', p).write(node.name, {
    level: 'INFO',
    ...said('paused', { by: pause.by, reason: `for ${seconds(forMs)} until ${until}${why}` }),
  })
  process.stdout.write(
    `${node.name} paused for ${seconds(forMs)}, until ${until}; ends sooner: box node resume ${node.name}\n`,
  )
  // A repair that has begun is not torn in two; it is told, so that nobody is surprised by it.
  const busy = holder(p, `node-${node.name}`)
  if (busy.seen && busy.value !== undefined)
    process.stdout.write(
      `note: a run that began before is still at work: ${clean(busy.value.doing)} (pid ${busy.value.pid})\n`,
    )
  return EXIT.OK
}

/** `box node resume`. @throws UsageError, RootError */
export function resumeNode(p: Paths, name: string): ExitCode {
  const [node] = select(p, [name]).nodes
  requireRoot(`box node resume ${name}`)
  if (node === undefined) return EXIT.USAGE
  const was = removePause(p, node.name, now(p))
  if (was) makeLog('box', p).write(node.name, line('INFO', 'resumed', { by: whoAsks() }))
  process.stdout.write(was ? `${node.name} resumed\n` : `${node.name} was not paused\n`)
  return EXIT.OK
}
