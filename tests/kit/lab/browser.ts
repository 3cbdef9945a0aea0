import { existsSync, readFileSync } from 'node:fs'
import { evaluate } from '../../../lib/cdp-socket.ts'
import { browser, logText, nodeUp, ok, sh, stopTimers, until, untilTitled, writeConfig } from '../lab.ts'

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
  const list = JSON.parse(ok(['curl', '-sS', '-m', '5', `http://${at}/json/list`])) as {
    type: string
    id: string
  }[]
  const page = list.find((target) => target.type === 'page')
  await evaluate(`ws://${at}/devtools/page/${page?.id}`, expression, 5000)
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

/** Waits until no run of the node's watchdog is under way. */
export async function untilIdle(node: string): Promise<void> {
  const unit = `chromebox-watchdog@${node}.service`
  const idle = () => /^(inactive|failed)/.test(sh(['systemctl', 'is-active', unit]).stdout)
  await until(`${unit} at rest`, idle, 120_000)
}
