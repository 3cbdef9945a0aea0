import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs } from '../../lib/base/damping.ts'
import type { Ended } from '../../lib/host/systemd.ts'
import { decide } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import { reanchor } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Memory, Observation } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { at, look, memory, policy, seen, squatted } from '../kit/chromebox-fixtures.ts'

const OLD = 500
const noNetns = { netns: { seen: true, value: { exists: false, isNamespace: false } } } as const
const failed = (failures: number, endBootMs: number, over: Partial<Memory> = {}) =>
  memory({ failures, last: { startBootMs: endBootMs - 60_000, endBootMs }, ...over })
const held = (endBootMs: number, over: Partial<Memory> = {}) =>
  failed(5, endBootMs, { held: { sinceWallMs: 1 }, ...over })
const T = 10_000_000
const MIN = 60_000

const waits: [string, Memory, number, string][] = [
  ['1 failure, 119 s', failed(1, T), T + 119_000, 'backoff'],
  ['1 failure, 120 s', failed(1, T), T + 120_000, 'relaunch'],
  ['3 failures, 479 s', failed(3, T), T + 479_000, 'backoff'],
  ['3 failures, 480 s', failed(3, T), T + 480_000, 'relaunch'],
  ['held, 29 min', held(T), T + 29 * MIN, 'held'],
  ['held, 30 min', held(T), T + 30 * MIN, 'relaunch'],
  ['five failures without the mark are held', failed(5, T), T + 29 * MIN, 'held'],
  ['held, lower layer recovered, 2 min', held(T, { lowerFault: 'egress' }), T + 2 * MIN, 'relaunch'],
  ['held, lower layer recovered, 1 min', held(T, { lowerFault: 'egress' }), T + MIN, 'held'],
  ['corrupt state, 29 min', memory({ notBeforeBootMs: T + 30 * MIN }), T + 29 * MIN, 'cautious'],
  ['corrupt state, 30 min', memory({ notBeforeBootMs: T + 30 * MIN }), T + 30 * MIN, 'relaunch'],
  ['held in another boot waits anew, from this one on', { ...held(T), bootId: 'boot-0' }, 29 * MIN, 'held'],
  ['and has waited', { ...held(T), bootId: 'boot-0' }, 30 * MIN, 'relaunch'],
  ['failed in another boot waits anew', { ...failed(1, T), bootId: 'boot-0' }, MIN, 'backoff'],
  ['and has waited as well', { ...failed(1, T), bootId: 'boot-0' }, 2 * MIN, 'relaunch'],
  ['a last attempt in the future waits anew', failed(1, T), T - 10 * MIN, 'backoff'],
]
for (const [name, m, bootMs, want] of waits) {
  test(`containment: ${name}`, () => {
    const d = decide(seen(look(undefined)), m, at(bootMs), policy)
    assert.equal(d.actions.length === 1 ? 'relaunch' : d.guard?.code, want)
    if (d.memory.held) assert.ok(d.pages.some((p) => p.kind === 'browser-fault' && p.failing))
  })
}

test('back-off doubles and is capped', () => {
  const seconds = [1, 2, 3, 4, 5, 6, 99].map((n) => backoffMs(n, policy) / 1000)
  assert.deepEqual(seconds, [120, 240, 480, 960, 1800, 1800, 1800])
})

test('a healthy look closes a hold and says so once', () => {
  const d = decide(seen(look(OLD)), held(T), at(T + MIN), policy)
  assert.equal(d.memory.held, undefined)
  assert.equal(d.memory.failures, 0)
  assert.deepEqual(
    d.lines.map((l) => l.level),
    ['INFO'],
  )
  const again = decide(seen(look(OLD)), d.memory, at(T + 2 * MIN), policy)
  assert.deepEqual(again.lines, [])
  assert.equal(again.memory, d.memory)
})

test('a healthy look with nothing to forget keeps the very same memory', () => {
  const m = memory({ quickDeaths: 2 })
  assert.equal(decide(seen(look(OLD)), m, at(T), policy).memory, m)
  assert.equal(reanchor(m, at(T), policy), m)
})

test('pages: netns fault, and its recovery as soon as the namespace is seen', () => {
  const kinds = (o: Observation) => decide(o, memory(), at(T), policy).pages.map((p) => [p.kind, p.failing])
  assert.deepEqual(kinds(seen(look(OLD), noNetns)), [['netns-fault', true]])
  assert.deepEqual(kinds(seen(look(undefined))), [
    ['netns-fault', false],
    ['tunnel-fault', false],
  ])
  assert.ok(kinds(seen(look(OLD, squatted))).some(([k, f]) => k === 'browser-fault' && f))
})

test('crash loop: many quick deaths by itself back off, a KILL from outside does not', () => {
  const ended = (how: Ended['how'], detail: string, status: number) => ({
    load: 'loaded',
    active: 'failed',
    mainPid: 0,
    ended: { how, detail, status },
  })
  const ok = { wallMs: 1, reason: 'r', ended: '', result: 'ok', detail: '', seconds: 2 } as const
  const m = memory({ quickDeaths: 6, last: { startBootMs: T - 9000, endBootMs: T - 5000 }, attempts: [ok] })
  const crash = seen(look(undefined), { unit: ended('core-dump', 'signal SEGV', 11) })
  assert.equal(decide(crash, m, at(T), policy).guard?.code, 'crash-loop')
  const young = { ...m, quickDeaths: 1 }
  assert.equal(decide(crash, young, at(T), policy).guard, undefined)
  const killed = seen(look(undefined), { unit: ended('signal', 'any words', 9) })
  assert.equal(decide(killed, { ...m, quickDeaths: 5 }, at(T), policy).guard, undefined)
})
