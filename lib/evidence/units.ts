import type { Clocks } from '../base/damping.ts'
import { clean } from '../base/text.ts'
import { type Look, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { run } from '../host/exec.ts'
import {
  ENDED_PROPS,
  momentMs,
  momentProps,
  parseTimer,
  show,
  TIMER_PROPS,
  type UnitShow,
} from '../host/systemd.ts'
import { readTunnel, TUNNEL_PROPS } from './tunnel.ts'
import type { ServiceFact, TimerFact, UnitFacts, UnitRun } from './types.ts'

/** The unit without its suffix that runs a supervisor for a node; the fleet-wide ones serve all nodes. */
export function unitOf(s: Supervisor, node: string): string {
  return s === 'chromebox-watchdog' ? `chromebox-watchdog@${node}` : s
}

const MOMENTS = momentProps(['ActiveEnterTimestamp', 'ExecMainExitTimestamp'])
const PROPS = [...new Set([...ENDED_PROPS, ...TIMER_PROPS, ...TUNNEL_PROPS, ...MOMENTS])]

const FLEET = ['cdp-relay-watchdog', 'agent-health'].flatMap((u) => [`${u}.service`, `${u}.timer`])

function unitsOf(node: string): string[] {
  const watchdog = unitOf('chromebox-watchdog', node)
  return [
    `netvm-netns@${node}.service`,
    `chromebox@${node}.service`,
    `cdp-relay@${node}.socket`,
    `${watchdog}.service`,
    `${watchdog}.timer`,
    `netvm-tunnel@${node}.service`,
  ]
}

export function readService(u: UnitShow, at: Clocks): ServiceFact {
  const sinceBootMs = momentMs(u, 'ActiveEnterTimestamp', at)
  const state = u.ActiveState ?? ''
  const result = u.Result ?? 'success'
  return {
    active: state === 'active',
    changing: ['activating', 'deactivating', 'reloading'].includes(state),
    ...(sinceBootMs === undefined ? {} : { sinceBootMs }),
    text: clean(result === 'success' ? state : `${state} (${result})`, 60),
  }
}

export function readTimer(u: UnitShow): TimerFact {
  const t = parseTimer(u)
  if (u.LoadState === 'masked') return { state: 'unarmed', why: 'masked by hand', enabled: false }
  if (!t.loaded) return { state: 'missing', why: 'never installed', enabled: false }
  const { enabled } = t
  if (!t.active) return { state: 'unarmed', why: clean(u.ActiveState ?? 'inactive', 40), enabled }
  // While its service runs a timer has no next elapse; only a waiting one without is stuck.
  if (t.sub === 'waiting' && t.nextElapseMs === Number.POSITIVE_INFINITY)
    return { state: 'unarmed', why: 'waiting for nothing', enabled }
  return { state: 'armed', why: '', enabled }
}

export function readRun(u: UnitShow, at: Clocks): UnitRun {
  const exit = momentMs(u, 'ExecMainExitTimestamp', at)
  return {
    ended: exit !== undefined,
    exitBootMs: exit ?? 0,
    status: Number(u.ExecMainStatus ?? 0),
    result: clean(u.Result ?? '', 40),
  }
}

/** What systemd's answer says about one node. Not seen when that systemd does not know our units. */
export function readUnits(all: Record<string, UnitShow>, node: string, at: Clocks): Look<UnitFacts> {
  const of = (unit: string): UnitShow => all[unit] ?? {}
  const [netns, browser, relay] = unitsOf(node) as [string, string, string]
  // A masked unit is known, and is not running.
  const strange = (unit: string) => (of(unit).LoadState ?? 'not-found') === 'not-found'
  if (strange(netns) || strange(browser))
    return { seen: false, why: 'this systemd does not know the units of the node' }
  const tunnel = readTunnel(of(`netvm-tunnel@${node}.service`), at)
  const per = <T>(f: (s: Supervisor) => T) =>
    Object.fromEntries(SUPERVISORS.map((s) => [s, f(s)])) as Record<Supervisor, T>
  return {
    seen: true,
    value: {
      netns: readService(of(netns), at),
      browser: readService(of(browser), at),
      relay: readService(of(relay), at),
      ...(tunnel === undefined ? {} : { tunnel }),
      timers: per((s) => readTimer(of(`${unitOf(s, node)}.timer`))),
      runs: per((s) => readRun(of(`${unitOf(s, node)}.service`), at)),
    },
  }
}

/**
 * Above this many nodes systemd is asked first which of their units it has in memory. It has to read the
 * files of every other unit that `show` names, some 5 ms each, only to say that it is inactive.
 */
const MANY_NODES = 24

const PATTERNS = [
  'netvm-netns@*',
  'chromebox@*',
  'cdp-relay@*.socket',
  'chromebox-watchdog@*',
  'netvm-tunnel@*',
]

/** The units systemd has in memory, from `systemctl list-units --output=json`; undefined when that is no answer. */
export function parseListed(json: string): ReadonlySet<string> | undefined {
  try {
    const list: unknown = JSON.parse(json)
    if (!Array.isArray(list)) return undefined
    return new Set(list.map((u: { unit?: unknown }) => String(u?.unit)))
  } catch {
    return undefined
  }
}

async function inMemory(deadlineMs: number): Promise<ReadonlySet<string> | undefined> {
  const argv = ['systemctl', 'list-units', '--all', '--no-pager', '--output=json', '--', ...PATTERNS]
  const r = await run(argv, { deadlineMs, maxOutput: 16 * 1024 * 1024 })
  return r.code === 0 ? parseListed(r.stdout) : undefined
}

/** A unit that systemd has not in memory is like the one of its kind that was asked about, inactive and never run. */
function idle(like: UnitShow | undefined): UnitShow {
  return {
    LoadState: like?.LoadState ?? 'not-found',
    ActiveState: 'inactive',
    SubState: 'dead',
    Result: 'success',
  }
}

/** One systemctl call for all nodes; for a large fleet two. */
export async function lookAtUnits(
  nodes: readonly string[],
  now: Clocks,
  deadlineMs: number,
): Promise<(node: string) => Look<UnitFacts>> {
  const [first] = nodes
  if (first === undefined) return () => ({ seen: false, why: 'not asked' })
  const all = nodes.flatMap(unitsOf)
  const listed = nodes.length > MANY_NODES ? await inMemory(deadlineMs) : undefined
  const sample = unitsOf(first)
  const asked = listed === undefined ? all : all.filter((u) => listed.has(u) || sample.includes(u))
  const answer = await show([...asked, ...FLEET], PROPS, deadlineMs)
  if (!answer.seen) return () => ({ seen: false, why: busProblem(answer.why) })
  return (node) => {
    const units = unitsOf(node).map((u, i) => [u, answer.value[u] ?? idle(answer.value[sample[i] ?? ''])])
    const fleet = FLEET.map((u) => [u, answer.value[u] ?? {}])
    return readUnits(Object.fromEntries([...units, ...fleet]), node, now)
  }
}

/** systemctl's own words for "no bus here", shortened. */
function busProblem(why: string): string {
  if (/connect to bus|Host is down|No such file or directory|Permission denied|not been booted/i.test(why))
    return `no bus: ${clean(why, 120)}`
  return clean(why, 160)
}
