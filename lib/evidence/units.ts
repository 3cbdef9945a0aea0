import type { Clocks } from '../base/damping.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { type Look, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { momentMs, momentProps, parseTimer, type UnitShow } from '../host/systemd.ts'
import { lookAtListed, type Shown } from '../host/systemd-bus.ts'
import { unitsOf } from '../registry/names.ts'
import { unitOf } from './owners.ts'
import { readTunnel, TUNNEL_PROPS } from './tunnel.ts'
import type { ServiceFact, TimerFact, UnitFacts, UnitRun } from './types.ts'

const FLEET = ['cdp-relay-watchdog', 'agent-health'].flatMap((u) => [`${u}.service`, `${u}.timer`])

/** Of a node's units those that say how it is; the first node's stand for the kinds of unit there are. */
function askedOf(node: string): string[] {
  const { netns, browser, socket, watchdog, timer, tunnel } = unitsOf(node)
  return [netns, browser, socket, watchdog, timer, tunnel]
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
  const { netns, browser, socket, tunnel } = unitsOf(node)
  // A masked unit is known, and is not running.
  const strange = (unit: string) => (of(unit).LoadState ?? 'not-found') === 'not-found'
  if (strange(netns) || strange(browser))
    return { seen: false, why: 'this systemd does not know the units of the node' }
  const per = <T>(f: (s: Supervisor) => T) =>
    Object.fromEntries(SUPERVISORS.map((s) => [s, f(s)])) as Record<Supervisor, T>
  return {
    seen: true,
    value: {
      netns: readService(of(netns), at),
      browser: readService(of(browser), at),
      relay: readService(of(socket), at),
      tunnel: readTunnel(of(tunnel), at),
      timers: per((s) => readTimer(of(`${unitOf(s, node)}.timer`))),
      runs: per((s) => readRun(of(`${unitOf(s, node)}.service`), at)),
    },
  }
}

const PATTERNS = [...askedOf('*'), ...FLEET]

/**
 * What `readUnits` reads of a unit beyond what the list says. Between the list and the answers a timer may fire and a run
 * may end: only a timer that waited before and after can be waiting for nothing, and a run under way has not ended.
 */
function detailsOf(unit: string, { ActiveState, SubState }: UnitShow): readonly string[] {
  if (unit.endsWith('.timer'))
    return SubState === 'waiting'
      ? ['UnitFileState', 'NextElapseUSecMonotonic', 'SubState']
      : ['UnitFileState']
  if (unit.startsWith('netvm-tunnel@')) return TUNNEL_PROPS
  // How it ended is printed of a unit that does not run.
  const result = ActiveState === 'active' ? [] : ['Result']
  if (unit.endsWith('.socket')) return result
  if (/^(chromebox|netvm-netns)@/.test(unit)) return [...momentProps(['ActiveEnterTimestamp']), ...result]
  if (ActiveState === 'activating') return []
  return ['Result', 'ExecMainStatus', ...momentProps(['ExecMainExitTimestamp'])]
}

/**
 * The properties to ask for, by unit. Pure.
 *
 * A unit that systemd has not in memory is inactive and never ran. Whether there is such a unit at all costs it the
 * reading of the unit's files: that is asked of timers, which say so, and for the other kinds of the first node.
 */
export function wanted(
  nodes: readonly string[],
  listed: Shown,
  at: Clocks,
): (readonly [unit: string, properties: readonly string[]])[] {
  const all = [...nodes.flatMap(askedOf), ...FLEET]
  const first = nodes.slice(0, 1).flatMap(askedOf)
  // Only sleep makes the wall clock's stamps tell anything beside those of CLOCK_MONOTONIC (`bootTimeMs`).
  const slept = at.aheadMs > 0
  return all.map((unit) => {
    const u = listed.get(unit)
    if (u === undefined) return [unit, unit.endsWith('.timer') || first.includes(unit) ? ['LoadState'] : []]
    return [unit, detailsOf(unit, u).filter((p) => slept || !p.endsWith('Timestamp'))]
  })
}

/** A unit that systemd has not in memory; there is one when there is that of the first node. */
const idle = (like: UnitShow | undefined): UnitShow => ({
  LoadState: like?.LoadState ?? 'not-found',
  ActiveState: 'inactive',
  SubState: 'dead',
  Result: 'success',
})

/** One talk with systemd for all nodes. */
export async function lookAtUnits(
  p: Pick<Paths, 'root'>,
  nodes: readonly string[],
  now: Clocks,
  deadlineMs: number,
): Promise<(node: string) => Look<UnitFacts>> {
  const [first] = nodes
  if (first === undefined) return () => ({ seen: false, why: 'not asked' })
  const answer = await lookAtListed(p.root, PATTERNS, (listed) => wanted(nodes, listed, now), deadlineMs)
  if (!answer.seen) return () => ({ seen: false, why: `no bus: ${answer.why}` })
  const sample = askedOf(first)
  const of = (unit: string, i: number) =>
    [unit, { ...idle(answer.value.get(sample[i] ?? '')), ...answer.value.get(unit) }] as const
  const fleet = FLEET.map(of)
  return (node) => readUnits(Object.fromEntries([...askedOf(node).map(of), ...fleet]), node, now)
}
