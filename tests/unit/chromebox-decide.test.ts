import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoff, decide, reanchor } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import type { Memory, Observation } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import type { Ended } from '../../lib/systemd.ts'
import { at, gone, look, memory, policy, seen, silent, squatted } from './chromebox-fixtures.ts'

const OLD = 500
const down = {
  state: 'down',
  code: 'egress-down',
  reason: 'egress down: no handshake',
  evidence: [],
} as const
const noNetns = { netns: { seen: true, value: { exists: false, isNamespace: false } } } as const

interface Row {
  name: string
  o: Observation
  state: string
  code: string
  reason: string | RegExp
  /** `relaunch`, `tunnel`, or the guard's name, or `-`. */
  does: string
}

const rows: Row[] = [
  { name: 'healthy', o: seen(look(OLD)), state: 'healthy', code: 'ok', reason: '', does: '-' },
  {
    name: 'paused wins over everything',
    o: seen(look(undefined), { ...noNetns, paused: { reason: 'update', by: 'ann' } }),
    state: 'unknown',
    code: 'paused',
    reason: 'paused by ann: update',
    does: '-',
  },
  {
    name: 'netns missing',
    o: seen(look(undefined), noNetns),
    state: 'unhealthy',
    code: 'netns-missing',
    reason: 'netns warp-muse missing',
    does: '-',
  },
  {
    name: 'a plain file in /run/netns',
    o: seen(look(undefined), { netns: { seen: true, value: { exists: true, isNamespace: false } } }),
    state: 'unhealthy',
    code: 'netns-missing',
    reason: 'netns warp-muse missing',
    does: '-',
  },
  {
    name: 'netns could not be looked at',
    o: seen(look(undefined), { netns: { seen: false, why: 'EACCES' } }),
    state: 'unknown',
    code: 'netns-unseen',
    reason: /EACCES/,
    does: '-',
  },
  {
    name: 'egress down below a dead browser: the tunnel, not the browser',
    o: seen(look(undefined), { egress: down }),
    state: 'unhealthy',
    code: 'egress-down',
    reason: 'egress down: no handshake',
    does: 'tunnel',
  },
  {
    name: 'egress still down after the one restart',
    o: seen(look(undefined), { egress: down, tunnelTried: true }),
    state: 'unhealthy',
    code: 'egress-down',
    reason: 'egress down: no handshake',
    does: '-',
  },
  {
    name: 'uplink down restarts nothing',
    o: seen(look(undefined), {
      egress: { state: 'uplink-down', code: 'uplink-down', reason: 'uplink down', evidence: [] },
    }),
    state: 'unhealthy',
    code: 'uplink-down',
    reason: 'uplink down',
    does: '-',
  },
  {
    name: 'egress unknown below a dead browser',
    o: seen(look(undefined), {
      egress: { state: 'unknown', code: 'egress-unseen', reason: 'curl missing', evidence: [] },
    }),
    state: 'unknown',
    code: 'egress-unseen',
    reason: 'curl missing',
    does: '-',
  },
  {
    name: 'no process',
    o: seen(look(undefined)),
    state: 'unhealthy',
    code: 'no-process',
    reason: 'no chromium process for profile',
    does: 'relaunch',
  },
  {
    name: 'processes invisible',
    o: seen({ process: { seen: false, why: 'hidepid' }, elsewhere: [] }),
    state: 'unknown',
    code: 'process-unseen',
    reason: /hidepid/,
    does: '-',
  },
  {
    name: 'CDP silent',
    o: seen(look(OLD, silent)),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: 'CDP unreachable on :9410',
    does: 'relaunch',
  },
  {
    name: 'CDP silent, browser 87 s old',
    o: seen(look(87, silent)),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: 'CDP unreachable on :9410',
    does: 'fresh',
  },
  {
    name: 'the guard ends at 120 s exactly',
    o: seen(look(120, silent)),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: 'CDP unreachable on :9410',
    does: 'relaunch',
  },
  {
    name: 'CDP could not be asked',
    o: seen({ ...look(OLD), cdp: { seen: false, why: 'curl missing' } }),
    state: 'unknown',
    code: 'cdp-unseen',
    reason: /curl missing/,
    does: '-',
  },
  {
    name: 'port squatted',
    o: seen(look(OLD, squatted)),
    state: 'unhealthy',
    code: 'port-squatted',
    reason: /^port squatted: :9410/,
    does: 'squatted',
  },
  {
    name: 'another port in the row than in the unit',
    o: seen(look(OLD, silent), { notApplied: 'the row says port 9410, its unit is still set to 9411' }),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: /^CDP unreachable on :9410/,
    does: 'not-applied',
  },
  {
    name: 'page gone',
    o: seen(look(OLD, undefined, gone)),
    state: 'unhealthy',
    code: 'page-missing',
    reason: 'chat page "Muse" missing from target list',
    does: 'relaunch',
  },
  {
    name: 'no page at all',
    o: seen(look(OLD, undefined, { state: 'no-pages', detail: 'no page target' })),
    state: 'unhealthy',
    code: 'no-pages',
    reason: 'chat page "Muse" missing from target list',
    does: 'relaunch',
  },
  {
    name: 'page gone from a young browser',
    o: seen(look(3, undefined, gone)),
    state: 'unhealthy',
    code: 'page-missing',
    reason: 'chat page "Muse" missing from target list',
    does: 'fresh',
  },
]

for (const row of rows) {
  test(`decide: ${row.name}`, () => {
    const d = decide(row.o, memory(), at(1_000_000), policy)
    assert.equal(d.verdict.state, row.state)
    assert.equal(d.verdict.code, row.code)
    if (typeof row.reason === 'string') assert.equal(d.verdict.reason, row.reason)
    else assert.match(d.verdict.reason, row.reason)
    const action = d.actions[0]?.kind
    const words: Record<string, string> = { 'relaunch-browser': 'relaunch', 'restart-tunnel': 'tunnel' }
    const does = words[action ?? ''] ?? d.guard?.name
    assert.equal(does ?? '-', row.does)
    assert.deepEqual(
      d.layers.map((l) => l.layer),
      ['netns', 'egress', 'process', 'cdp', 'page'],
    )
    for (const line of d.lines) {
      if (line.level !== 'INFO') assert.ok(line.next, `${line.text} names no next command`)
    }
  })
}

test('the guard text is the contract and names the wait', () => {
  const d = decide(seen(look(87, silent)), memory(), at(0), policy)
  assert.equal(d.guard?.text, 'skip kill: launched 87s ago')
  assert.equal(d.guard?.eligibleInMs, 33_000)
  assert.match(d.lines[0]?.text ?? '', /^CDP unreachable on :9410 .*; skip kill: launched 87s ago$/)
})

test('a dead process is confirmed at once, a silent one after the delay', () => {
  const confirm = (o: Observation) => {
    const a = decide(o, memory(), at(0), policy).actions[0]
    return a?.confirm
  }
  assert.equal(confirm(seen(look(undefined))), 'at-once')
  assert.equal(confirm(seen(look(OLD, silent))), 'after-delay')
})

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
  ['held in another boot waits anew', { ...held(T), bootId: 'boot-0' }, T + 31 * MIN, 'held'],
  ['failed in another boot waits anew', { ...failed(1, T), bootId: 'boot-0' }, T + 31 * MIN, 'backoff'],
  ['a last attempt in the future waits anew', failed(1, T), T - 10 * MIN, 'backoff'],
]
for (const [name, m, bootMs, want] of waits) {
  test(`containment: ${name}`, () => {
    const d = decide(seen(look(undefined)), m, at(bootMs), policy)
    assert.equal(d.actions.length === 1 ? 'relaunch' : d.guard?.name, want)
    if (d.memory.held) assert.ok(d.pages.some((p) => p.kind === 'browser-fault' && p.failing))
  })
}

test('back-off doubles and is capped', () => {
  const seconds = [1, 2, 3, 4, 5, 6, 99].map((n) => backoff(n, policy) / 1000)
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
  const ended = (how: Ended['how'], detail: string) => ({
    load: 'loaded',
    active: 'failed',
    mainPid: 0,
    ended: { how, detail },
  })
  const ok = { wallMs: 1, reason: 'r', ended: '', result: 'ok', detail: '', seconds: 2 } as const
  const m = memory({ quickDeaths: 6, last: { startBootMs: T - 9000, endBootMs: T - 5000 }, attempts: [ok] })
  const crash = seen(look(undefined), { unit: ended('core-dump', 'signal SEGV') })
  assert.equal(decide(crash, m, at(T), policy).guard?.name, 'crash-loop')
  const young = { ...m, quickDeaths: 1 }
  assert.equal(decide(crash, young, at(T), policy).guard, undefined)
  const killed = seen(look(undefined), { unit: ended('signal', 'signal KILL') })
  assert.equal(decide(killed, { ...m, quickDeaths: 5 }, at(T), policy).guard, undefined)
})
