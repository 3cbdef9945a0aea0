import { existsSync, readFileSync } from 'node:fs'
import { evaluate } from '../../../lib/cdp/evaluate.ts'
import {
  browser,
  browserAgeMs,
  logText,
  nodeUp,
  ok,
  patience,
  scaledSeconds,
  setSite,
  sh,
  stopTimers,
  tick,
  until,
  untilTitled,
  writeConfig,
} from '../lab.ts'

/** Windows of a lab that has minutes, not hours. Seconds. */
export const SHORT = {
  NETVM_FRESH_BROWSER: 2,
  NETVM_PROBE_DEADLINE: 2,
  NETVM_INNER_DEADLINE: 1,
  NETVM_CONFIRM_DELAY: 0.5,
  NETVM_RELAUNCH_INTERVAL: 5,
  NETVM_BACKOFF_BASE: 3,
  NETVM_BACKOFF_MAX: 6,
}

/** The same where a relaunch is to fail: long enough for a browser to show what it has, and no longer. */
export const FAILING = { ...SHORT, NETVM_RELAUNCH_INTERVAL: 2 }

/** A node that is up and looked at only when a test says so, or by OnFailure=. */
export async function quietNode(node: string, title = 'Chat'): Promise<void> {
  writeConfig(SHORT)
  nodeUp(node, { title })
  await untilTitled(node, title)
  stopTimers(node)
}

export const port = (node: string): string => env(node, 'CDP_PORT')

function env(node: string, key: string): string {
  const text = readFileSync(`/etc/netvm/nodes/${node}.env`, 'utf8')
  return new RegExp(`^${key}='?([^'\n]*)'?$`, 'm').exec(text)?.[1] ?? ''
}

/** Runs an expression in the node's first page, from inside its namespace as a person's DevTools would. */
export async function inPage(node: string, expression: string): Promise<void> {
  const at = `${env(node, 'PEER_IP')}:${port(node)}`
  const list = JSON.parse(ok(['curl', '-sS', '-m', String(scaledSeconds(15)), `http://${at}/json/list`])) as {
    type: string
    id: string
  }[]
  const page = list.find((target) => target.type === 'page')
  await evaluate(`ws://${at}/devtools/page/${page?.id}`, expression, patience(5000))
}

/** The pid of the node's browser. Throws when there is none: pid 0 would signal the test itself. */
export function mainPid(node: string): number {
  const found = browser(node)
  if (!found) throw new Error(`${node} has no browser`)
  return found.pid
}

export interface State {
  readonly failures: number
  readonly held?: object
  readonly attempts: readonly { readonly result: string; readonly reason: string; readonly ended: string }[]
}

export const STATE = (node: string): string => `/var/lib/netvm/chromebox-watchdog/${node}.json`

export function state(node: string): State {
  const file = STATE(node)
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { failures: 0, attempts: [] }
}

/** The watchdog's log lines of a node since `mark` (a length of `logText`). */
export function linesSince(mark: number, node: string): string[] {
  const text = logText('chromebox-watchdog').slice(mark)
  return text.split('\n').filter((line) => line.includes(` [${node}] `))
}

export const logMark = (): number => logText('chromebox-watchdog').length

/** Waits for a log line of the node after `mark`. */
export function untilLine(node: string, mark: number, line: RegExp, deadlineMs = 30_000): Promise<string> {
  return until(`a line like ${line}`, () => linesSince(mark, node).find((l) => line.test(l)), deadlineMs)
}

/** Waits until the browser is older than the guard of the configuration as it stands, and a little more. */
export async function untilOlder(node: string): Promise<void> {
  const text = readFileSync('/etc/netvm/netvm.env', 'utf8')
  const guard = Number(/^NETVM_FRESH_BROWSER=(.*)$/m.exec(text)?.[1] ?? 120) * 1000
  await until('older than the guard', () => browserAgeMs(node) > guard + 500, guard + 30_000)
}

/**
 * A titled browser, the windows of `SHORT` and nothing held against the node, whatever the test before left: the
 * pid of the browser.
 */
export async function wellAgain(node: string, title = 'Chat'): Promise<number> {
  writeConfig(SHORT)
  setSite(node, { title })
  await untilIdle(node)
  sh(['chromebox-watchdog', 'release', node])
  const isWell = () => sh(['chromebox-watchdog', node, '--dry-run']).code === 0 || tick(node).status === '0'
  await until(`${node} is well`, isWell, 90_000, 200)
  await untilTitled(node, title)
  return mainPid(node)
}

/** Waits until no run of the node's watchdog is under way. */
export async function untilIdle(node: string): Promise<void> {
  const unit = `chromebox-watchdog@${node}.service`
  const idle = () => /^(inactive|failed)/.test(sh(['systemctl', 'is-active', unit]).stdout)
  await until(`${unit} at rest`, idle, 120_000)
}
