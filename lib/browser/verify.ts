import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Deadline, sleep } from '../base/deadline.ts'
import { profileDir } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { holdsListener } from '../host/listeners.ts'
import { readRunning, readStat } from '../host/proc.ts'
import { type Ended, lookUnit, type UnitState } from '../host/systemd.ts'
import { unitOutput } from '../host/unit-output.ts'
import { askBrowser, type BrowserContext, lookBrowser } from './look.ts'
import type { BrowserJudgement, MainProcess } from './types.ts'

/** Between two looks for the listener: four small files of /proc, so often costs little. */
const LISTEN_POLL_MS = 40
/**
 * Between two questions over HTTP, each a curl process inside the namespace (25 ms). The page has its title about
 * 0.1 s after the port answers, so the first few come quickly; what is not healthy by then takes its time. Quicker still
 * only takes the processor from the browser: at 10 ms it was healthy later than at 60.
 */
const HTTP_POLL_MS = { first: 60, later: 200, quickMs: 1_500 }
/** Without a listener of its own, a whole look this often: somebody else may hold the port. */
const WHOLE_LOOK_MS = 5_000

/** The browser's unit; undefined when systemctl did not say. */
export async function browserUnit(node: string): Promise<UnitState | undefined> {
  const look = await lookUnit(`chromebox@${node}.service`)
  return look.seen ? look.value : undefined
}

export interface Verified {
  readonly ok: boolean
  readonly judgement: BrowserJudgement
  /** Of a browser that is gone again. */
  readonly ended?: Ended
}

/**
 * Looks until the browser that was just started is healthy, its process has ended, or the time is over.
 * Asks HTTP only once its main process listens: before that an answer could only be somebody else's.
 */
export async function verifyBrowser(ctx: BrowserContext, node: Node, deadline: Deadline): Promise<Verified> {
  const unit = await browserUnit(node.name)
  const pid = unit?.mainPid ?? 0
  const stat = pid > 0 ? readStat(ctx.p.proc, pid) : undefined
  // A browser that refuses its profile is gone before systemctl start returns.
  if (unit && !stat) return gone(ctx, node)
  let judgement: BrowserJudgement | undefined
  let answeredAt: number | undefined
  let wholeAt = performance.now() + WHOLE_LOOK_MS
  while (stat && deadline.leftMs() > 0) {
    const now = readRunning(ctx.p.proc, pid)
    if (now?.startTicks !== stat.startTicks) return gone(ctx, node)
    const listens = holdsListener(ctx.p, pid, node.cdpPort)
    if (listens.seen && listens.value) {
      const main: MainProcess = { pid, startTicks: now.startTicks, ageMs: 0, state: now.state }
      judgement = await askBrowser(ctx, node, main, ctx.config.innerDeadlineMs)
      if (judgement.verdict.state === 'healthy') return { ok: true, judgement }
      answeredAt ??= performance.now()
      const quick = performance.now() - answeredAt < HTTP_POLL_MS.quickMs
      await sleep(quick ? HTTP_POLL_MS.first : HTTP_POLL_MS.later)
      continue
    }
    if (performance.now() >= wholeAt) {
      judgement = await lookBrowser(ctx, node, ctx.config.innerDeadlineMs)
      if (judgement.verdict.state === 'healthy') return { ok: true, judgement }
      wholeAt = performance.now() + WHOLE_LOOK_MS
    }
    await sleep(LISTEN_POLL_MS)
  }
  // Without a main pid (systemctl did not say) the whole look is all there is.
  judgement = await lookBrowser(ctx, node)
  return { ok: judgement.verdict.state === 'healthy', judgement }
}

/** systemd learns of the end a moment after /proc shows it. */
async function gone(ctx: BrowserContext, node: Node): Promise<Verified> {
  let unit = await browserUnit(node.name)
  for (let i = 0; i < 20 && unit && !['inactive', 'failed'].includes(unit.active); i++) {
    await sleep(100)
    unit = await browserUnit(node.name)
  }
  const judgement = await lookBrowser(ctx, node)
  // Chromium may hand over to a process of its own; the look decides, not the pid.
  if (judgement.verdict.state === 'healthy') return { ok: true, judgement }
  return { ok: false, judgement, ...(unit ? { ended: unit.ended } : {}) }
}

/** The end of a line of Chromium's that names the system's error: `…/SingletonLock: File exists (17)`. */
const NAMES_ERROR = /: [A-Z][\w ,'-]+ \(\d+\)$/

/**
 * What the browser printed last, for the sentence of a failed relaunch; empty when there is nothing. The last line that
 * names the system's error is the cause, where there is one (`ofError`): those after it are advice.
 */
export async function lastWords(node: string, sinceWallMs: number, ofError = false): Promise<string> {
  // systemd's own lines of the unit say what we know already; the browser's come through its stdout.
  const said = await unitOutput(`chromebox@${node}.service`, {
    lines: 100,
    sinceWallMs,
    match: '_TRANSPORT=stdout',
  })
  const lines = said.seen ? said.value : []
  const cause = ofError ? lines.findLast((line) => NAMES_ERROR.test(line.trimEnd())) : undefined
  return clean(cause ?? lines.at(-1) ?? '', 160)
}

/** Chromium resets a profile whose Preferences file it cannot read, silently, and keeps the bad one aside. */
export function profileReset(ctx: BrowserContext, node: string, sinceWallMs: number): string | undefined {
  const bad = join(profileDir(ctx.p, node), 'Default', 'Preferences.bad')
  const isNew = existsSync(bad) && statSync(bad).mtimeMs >= sinceWallMs - 1000
  return isNew
    ? 'Chromium reset the profile: Preferences was unreadable (kept as Preferences.bad)'
    : undefined
}
