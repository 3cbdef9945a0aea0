import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import type { Receipt } from '../../../lib/base/types.ts'
import {
  bringUp,
  cursor,
  entries,
  ok,
  receipt,
  said,
  scaledSeconds,
  sh,
  stopTimers,
  tick,
  until,
  writeConfig,
} from '../lab.ts'

/**
 * Deadlines and windows of a lab: everything answers in milliseconds there, or not at all. An open page is not repeated
 * however long a test takes; see `recoveryTold`.
 */
export const FAST = {
  NETVM_PROBE_DEADLINE: 2,
  NETVM_INNER_DEADLINE: 1,
  NETVM_CONFIRM_DELAY: 0.2,
  NETVM_FRESH_BROWSER: 2,
  NETVM_TUNNEL_VERIFY: 5,
  NETVM_PAGE_REPEAT: 36_000,
}

/**
 * Has the end of a page told that is over, which else takes until it has held for a 24th of its repeat: the first page
 * that `look` gives with that repeat short. Then `config` holds again.
 */
export async function recoveryTold(
  config: Record<string, string | number>,
  look: () => Promise<string | undefined> | string | undefined,
): Promise<string> {
  writeConfig({ ...config, NETVM_PAGE_REPEAT: 12 })
  try {
    return await until('the recovery is told', look, 30_000, 300)
  } finally {
    writeConfig(config)
  }
}

/** Makes a node whose page comes through its tunnel; its timers are off, so that the test decides when it is looked at. */
export function tunnelNode(node: string, url: string, title = 'Chat'): string {
  const printed = bringUp(node, ['--title', title, '--url', url])
  stopTimers(node)
  return printed
}

export interface Tick {
  readonly status: string
  readonly receipt: Receipt
  /** What the watchdog said in the journal, one message a line. */
  readonly said: string
  readonly pages: readonly string[]
  /** The run restarted the tunnel (its unit has a new invocation). */
  readonly restarted: boolean
  readonly seconds: number
}

export const invocation = (node: string): string =>
  ok(['systemctl', 'show', '-p', 'InvocationID', '--value', `netvm-tunnel@${node}.service`])

/** One run of the node's watchdog, and everything it left behind. */
export function watched(node: string): Tick {
  const unit = `chromebox-watchdog@${node}.service`
  const at = cursor()
  const before = invocation(node)
  const started = performance.now()
  const { status } = tick(node)
  const seconds = (performance.now() - started) / 1000
  const left = receipt('chromebox-watchdog', node)
  assert.ok(left, 'a receipt is left')
  const pages = entries(at, unit)
    .filter((e) => e.PRIORITY === '2' && e._UID === '0')
    .map((e) => e.MESSAGE ?? '')
  return {
    status,
    receipt: left,
    said: said(at, unit),
    pages,
    restarted: invocation(node) !== before,
    seconds,
  }
}

/** Asserts that a node is well and that its run said nothing. */
export function assertQuiet(node: string): Tick {
  const run = watched(node)
  assert.equal(run.receipt.verdict.state, 'healthy', run.receipt.verdict.reason)
  assert.equal(run.said, '')
  assert.equal(run.status, '0')
  assert.equal(run.restarted, false)
  return run
}

/** Remembers a browser by its pid and start time; the returned check fails when it is another one now. */
export function guardBrowser(node: string): () => void {
  const before = mainProcess(node)
  assert.ok(before, `${node} has a browser`)
  return () => assert.equal(mainProcess(node), before, `the browser of ${node} is the same process`)
}

/** `<pid> <start ticks>` of the browser's unit, a stand-in too; undefined when it has no process. */
export function mainProcess(node: string): string | undefined {
  const pid = ok(['systemctl', 'show', '-p', 'MainPID', '--value', `chromebox@${node}.service`])
  if (pid === '0') return undefined
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return `${pid} ${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]}`
}

/** Sets the status of a row as a person would, with an editor. */
export function setStatus(node: string, status: 'active' | 'retired'): void {
  const file = '/etc/netvm/NODES.md'
  const lines = readFileSync(file, 'utf8').split('\n')
  const at = lines.findIndex((line) => new RegExp(`^\\|\\s*${node}\\s*\\|`).test(line))
  assert.ok(at >= 0, `${node} has a row`)
  lines[at] = (lines[at] ?? '').replace(/\b(active|retired)\b/, status)
  writeFileSync(file, lines.join('\n'))
}

export function nodeSetting(node: string, key: string): string {
  const text = readFileSync(`/etc/netvm/nodes/${node}.env`, 'utf8')
  return new RegExp(`^${key}='?([^'\n]*)'?$`, 'm').exec(text)?.[1] ?? ''
}

/** curl inside the node's namespace: its exit code. `seconds` of a quick machine are what it may take. */
export function curlInside(node: string, url: string, seconds = 15): number | null {
  return sh([
    'ip',
    'netns',
    'exec',
    `warp-${node}`,
    'curl',
    '-q',
    '-s',
    '-o',
    '/dev/null',
    '-m',
    String(scaledSeconds(seconds)),
    url,
  ]).code
}
