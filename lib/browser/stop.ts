import { until } from '../base/deadline.ts'
import { profileDir } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { readRunning, signal } from '../host/proc.ts'
import { stop } from '../host/systemd.ts'
import type { BrowserContext } from './look.ts'
import { findBrowsers, profileLeftovers } from './processes.ts'
import type { MainProcess } from './types.ts'

/**
 * `TimeoutStopSec` of chromebox@.service in milliseconds: TERM to KILL, long enough to flush cookies. The
 * longest that a stop takes, but for the seconds of systemd itself.
 */
const UNIT_STOP_MS = 15_000
const STOP_SLACK_MS = 3_000
/** How long the end of a killed process is awaited, and how often it is looked at, in milliseconds. */
const KILL_MS = 2_000
const END_POLL_MS = 50

/** How long a stop of a living browser can take, in milliseconds. */
export function stopBoundMs(stopGraceMs: number): number {
  return Math.max(UNIT_STOP_MS, stopGraceMs) + STOP_SLACK_MS
}

/**
 * Stops the node's browser: its unit (TERM, then KILL, by systemd), then any main process of the profile
 * that runs outside the unit. Returns notes for people; throws nothing.
 *
 * @returns `stillThere` names a main process that survived all of it
 */
export async function stopBrowser(
  ctx: BrowserContext,
  node: Node,
): Promise<{ notes: string[]; stillThere?: string }> {
  const notes: string[] = []
  const stopped = await stop(`chromebox@${node.name}.service`, stopBoundMs(ctx.config.stopGraceMs))
  if (!stopped.ok) notes.push(stopped.detail)
  const dir = profileDir(ctx.p, node.name)
  const strays = findBrowsers(ctx.p, dir)
  if (strays.seen && strays.value.length > 0) {
    const left = await endProcesses(ctx, strays.value)
    notes.push(`ended ${strays.value.map((b) => `pid ${b.pid}`).join(', ')} outside the unit`)
    if (left) return { notes, stillThere: `pid ${left.pid} does not end (state ${left.state})` }
  }
  const leftovers = profileLeftovers(ctx.p, dir)
  if (leftovers.seen && leftovers.value.length > 0) {
    const who = leftovers.value.slice(0, 5).map((l) => `${l.comm} ${l.pid}`)
    notes.push(`left over from the profile: ${who.join(', ')}`)
  }
  return { notes }
}

/** TERM (and CONT, or a stopped one never takes it), the grace time, KILL. Only these very processes. */
async function endProcesses(
  ctx: BrowserContext,
  processes: readonly MainProcess[],
): Promise<MainProcess | undefined> {
  // Pid and start ticks together: a pid alone may be another program by now.
  const alive = () => processes.filter((b) => readRunning(ctx.p.proc, b.pid)?.startTicks === b.startTicks)
  const ended = () => alive().length === 0
  for (const b of alive()) {
    signal(b.pid, 'SIGTERM')
    signal(b.pid, 'SIGCONT')
  }
  await until(ended, ctx.config.stopGraceMs, END_POLL_MS)
  for (const b of alive()) signal(b.pid, 'SIGKILL')
  await until(ended, KILL_MS, END_POLL_MS)
  return alive()[0]
}
