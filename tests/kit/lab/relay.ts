import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import {
  browser,
  cursor,
  logText,
  nodeUp,
  ok,
  receipt,
  said,
  scaledSeconds,
  sh,
  stopTimers,
  until,
  untilTitled,
  writeConfig,
} from '../lab.ts'

/** What the relay tests share: two nodes, their addresses, one sweep, and programs that take a relay's place. */

export interface Addresses {
  readonly node: string
  readonly port: number
  readonly gw: string
  readonly peer: string
  readonly veth: string
  readonly vpeer: string
}

/** The addresses of a node, from the file its units read. */
export function addresses(node: string): Addresses {
  const text = readFileSync(`/etc/netvm/nodes/${node}.env`, 'utf8')
  const value = (key: string) => new RegExp(`^${key}='?([^'\\n]*)'?$`, 'm').exec(text)?.[1] ?? ''
  return {
    node,
    port: Number(value('CDP_PORT')),
    gw: value('GW'),
    peer: value('PEER_IP'),
    veth: value('VETH'),
    vpeer: value('VPEER'),
  }
}

/** Brings nodes up with real browsers and keeps every timer still: the test decides when a sweep runs. */
export async function relayFleet(...nodes: string[]): Promise<void> {
  writeConfig({ NETVM_PROBE_DEADLINE: 2, NETVM_INNER_DEADLINE: 1.5, NETVM_BACKOFF_BASE: 600 })
  for (const node of nodes) {
    nodeUp(node)
    stopTimers(node)
    await untilTitled(node)
  }
}

export interface Sweep {
  readonly exit: number
  /** What the run wrote to the journal and to the log. */
  readonly journal: string
  readonly log: string
}

/** One run in the unit, with its sandbox, as the timer would start it. */
export function sweep(): Sweep {
  const before = logText('cdp-relay-watchdog')
  const at = cursor()
  sh(['systemctl', 'start', 'cdp-relay-watchdog.service'], { deadlineMs: 120_000 })
  const shown = ok(['systemctl', 'show', '-p', 'ExecMainStatus', 'cdp-relay-watchdog.service'])
  return {
    exit: Number(/ExecMainStatus=(\d+)/.exec(shown)?.[1] ?? -1),
    journal: said(at, 'cdp-relay-watchdog.service'),
    log: logText('cdp-relay-watchdog').slice(before.length),
  }
}

export const verdict = (node: string) => receipt('cdp-relay-watchdog', node)?.verdict
export const actions = (node: string) =>
  (receipt('cdp-relay-watchdog', node)?.actions ?? []).map((a) => a.kind)

/**
 * True when the browser answers through the relay, asked by curl and not by the product. `seconds` of a quick machine
 * are what it may take; few where no answer is what is expected.
 */
export function answers(node: string, seconds = 15): boolean {
  const { peer, port } = addresses(node)
  const most = String(scaledSeconds(seconds))
  return sh(['curl', '-sS', '-m', most, `http://${peer}:${port}/json/version`]).stdout.includes('"Browser"')
}

/** Which run of a unit this is; another one after a restart. */
export const invocation = (unit: string) => ok(['systemctl', 'show', '-p', 'InvocationID', unit])

/** Browser identities, to prove that a relay's repair never touched one. */
export const identities = (...nodes: string[]) => nodes.map((node) => browser(node))

/** Takes the relay of a node down, socket first, so that nothing starts it again. */
export const relayDown = (node: string) =>
  ok(['systemctl', 'stop', `cdp-relay@${node}.socket`, `cdp-relay@${node}.service`])

/** A program inside a namespace that listens on an address and port, and says nothing. */
export async function squat(
  netns: string,
  address: string,
  port: number,
  stubborn = false,
  arg = 'squatter',
): Promise<ChildProcess> {
  const ready = `/run/squat-${address}-${port}`
  const code = `${stubborn ? "process.on('SIGTERM',()=>{});" : ''}require('net').createServer(()=>{}).listen(${port},'${address}',()=>require('fs').writeFileSync('${ready}',''))`
  sh(['rm', '-f', ready])
  const child = spawn('ip', ['netns', 'exec', netns, 'node', '-e', code, '--', arg], { stdio: 'inherit' })
  await until(`squatter on ${address}:${port}`, () => existsSync(ready), 10_000)
  return child
}

/** The last command that a line of this log told people to run. */
export function nextCommand(log: string): string {
  return [...log.matchAll(/; next: (.*)$/gm)].at(-1)?.[1] ?? ''
}
