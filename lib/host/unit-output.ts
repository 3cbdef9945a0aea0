import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { run } from './exec.ts'

/** Milliseconds; a journal of a gigabyte answers in a fifth of one second. */
const DEADLINE_MS = 3_000
/** There is no bus in a browser's unit, by design, and Chromium says so a dozen times at every start. */
const BUS_NOISE = /:ERROR:dbus\//

export interface OutputOptions {
  /** Lines asked for, newest first to count; known noise among them is dropped. */
  readonly lines: number
  /** Nothing older: a unit's last output may be of another boot. */
  readonly sinceWallMs?: number
  /** With the time in front of each line. */
  readonly dated?: boolean
  /** Only entries with this field and value, `_TRANSPORT=stdout` for instance. */
  readonly match: string
}

/** What the processes of a unit printed last, oldest first, without empty lines and noise. */
export async function unitOutput(unit: string, opts: OutputOptions): Promise<Look<string[]>> {
  const since = opts.sinceWallMs === undefined ? [] : [`--since=@${Math.floor(opts.sinceWallMs / 1000)}`]
  const format = opts.dated ? ['--output=short-iso', '--no-hostname'] : ['--output=cat']
  const argv = ['journalctl', '--no-pager', '--quiet', ...format, `--lines=${opts.lines}`, ...since]
  const ran = await run([...argv, `--unit=${unit}`, opts.match], {
    deadlineMs: DEADLINE_MS,
    maxOutput: 256 * 1024,
  })
  if (ran.code !== 0) return { seen: false, why: clean(ran.stderr, 200) || `exit code ${ran.code}` }
  return {
    seen: true,
    value: ran.stdout.split('\n').filter((line) => line.trim() !== '' && !BUS_NOISE.test(line)),
  }
}
