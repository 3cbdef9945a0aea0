import type { Config } from '../base/config.ts'
import { sleep, until } from '../base/deadline.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { run } from '../host/exec.ts'
import { socketsOf } from '../host/listeners.ts'
import { readStat, signal } from '../host/proc.ts'
import { restart, stop } from '../host/systemd.ts'
import { askRelay } from './look.ts'
import type { RelayAction } from './types.ts'

/** From TERM to KILL for a foreign listener, and how long its end is awaited after that. */
const LISTENER_GRACE_MS = 2000
const POLL_MS = 50
/** A socket unit and `systemd-socket-proxyd` start and stop in milliseconds; a systemd that needs longer is stuck. */
const JOB_DEADLINE_MS = 10_000

export interface ActResult {
  readonly ok: boolean
  /** What was done and how it ended, for the log and the receipt. */
  readonly detail: string
}

type Removal = Extract<RelayAction, { kind: 'remove-listener' }>
type Restart = Omit<Extract<RelayAction, { kind: 'restart-relay' }>, 'kind'>

/**
 * Ends a foreign listener: TERM, then KILL. Before each signal the process must still be the one that was
 * seen (pid and start ticks) and must still hold the very socket that was seen.
 */
export async function removeListener(
  p: Pick<Paths, 'proc'>,
  { owner, listener }: Removal,
): Promise<ActResult> {
  const what = `${owner.program} (pid ${owner.pid}) from ${listener.address}:${listener.port} in ${listener.netns}`
  const holds = () =>
    readStat(p.proc, owner.pid)?.startTicks === owner.startTicks &&
    socketsOf(p, owner.pid).has(listener.inode)
  for (const name of ['SIGTERM', 'SIGKILL'] as const) {
    if (owner.pid <= 1 || !holds()) return { ok: true, detail: `${what}: gone already` }
    const refused = signal(owner.pid, name)
    if (refused !== undefined) return { ok: false, detail: `cannot remove ${what}: ${refused}` }
    if (await until(() => !holds(), LISTENER_GRACE_MS, POLL_MS))
      return { ok: true, detail: `removed ${what} (${name})` }
  }
  return { ok: false, detail: `${what} survived KILL` }
}

/**
 * Binds the relay anew: the service must be down before its socket restarts, and a failed unit refuses to
 * start until it is reset. The service alone would keep a socket of a namespace that is gone.
 */
export async function restartRelay(node: Pick<Node, 'name'>, how: Restart): Promise<ActResult> {
  const socket = `cdp-relay@${node.name}.socket`
  const service = `cdp-relay@${node.name}.service`
  if (how.stopService) {
    const stopped = await stop(service, JOB_DEADLINE_MS)
    if (!stopped.ok) return { ok: false, detail: stopped.detail }
  }
  if (how.resetFailed) {
    // Fails for the one of the two that is not failed or not loaded, which is no obstacle.
    await run(['systemctl', '--no-ask-password', 'reset-failed', '--', socket, service], {
      deadlineMs: JOB_DEADLINE_MS,
    })
  }
  const restarted = await restart(socket, JOB_DEADLINE_MS)
  return restarted.ok ? { ok: true, detail: `restarted ${socket}` } : { ok: false, detail: restarted.detail }
}

/** Asks through the relay until a browser answers, at most one probe deadline long. */
export async function verifyRelay(
  p: Paths,
  node: Node,
  config: Pick<Config, 'probeDeadlineMs'>,
): Promise<ActResult> {
  const end = performance.now() + config.probeDeadlineMs
  let pause = POLL_MS
  for (;;) {
    const left = Math.max(1, end - performance.now())
    const { answer, browser } = await askRelay(p, node, left)
    if (browser !== undefined) return { ok: true, detail: browser }
    if (performance.now() + pause >= end) {
      const said = answer.kind === 'answer' ? `http ${answer.status}, not a browser's answer` : answer.detail
      return { ok: false, detail: clean(said, 120) }
    }
    await sleep(pause)
    pause = Math.min(pause * 2, 500)
  }
}
