import { deadlineIn } from '../../lib/base/deadline.ts'
import { lookBrowser } from '../../lib/browser/look.ts'
import { type RelaunchOptions, relaunchLocked } from '../../lib/browser/relaunch.ts'
import type { World } from './browser-host.ts'

export const OLD = 3600
export const ENDED = (status: number): string =>
  `Result=exit-code\nExecMainCode=1\nExecMainStatus=${status}\nExecMainExitTimestampMonotonic=5\n`

/** A relaunch with the look that its caller has just made. */
export async function relaunch(w: World, opts: Partial<RelaunchOptions> = {}, leftMs = 90_000) {
  const judgement = await lookBrowser(w.ctx, w.node)
  w.host.calls()
  return relaunchLocked(w.ctx, w.node, judgement, { why: 'a test', deadline: deadlineIn(leftMs), ...opts })
}

export const jobs = (w: World): string[] =>
  w.host
    .calls()
    .filter((c) => /^systemctl (start|stop)/.test(c))
    .map((c) => c.split(' ')[1] ?? '')

/** A browser that is old enough to be ended. */
export async function oldBrowser(w: World, how: Parameters<World['host']['browser']>[0]): Promise<number> {
  const pid = await w.host.browser(how)
  w.host.uptime(OLD)
  return pid
}
