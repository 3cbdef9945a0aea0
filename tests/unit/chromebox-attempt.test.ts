import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Receipt } from '../../lib/base/types.ts'
import { judgeBrowser } from '../../lib/browser/judge.ts'
import type { Ended } from '../../lib/host/systemd.ts'
import { text } from '../../lib/report/codes.ts'
import {
  decide,
  declined,
  type Relaunched,
  relaunched,
} from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import { beginAttempt, unrecorded } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Memory, Observation } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { asked, at, gone, look, memory, policy, seen, silent, squatted } from '../kit/chromebox-fixtures.ts'

// What surrounds an attempt: who gets the second look that precedes it, and what its end leads to.

const OLD = 500
const T = 10_000_000
const noNetns = { netns: { seen: true, value: { exists: false, isNamespace: false } } } as const
const egress = { code: 'egress-no-answer', reason: 'egress down: x', evidence: [], repair: true } as const
const down = { egress: { ...egress, state: 'unhealthy' } } as const
const entry = { wallMs: 1, reason: 'r', ended: '', detail: '', seconds: 0 }
const cutShort = memory({
  failures: 1,
  attempts: [{ ...entry, result: 'pending' }],
  last: { startBootMs: T },
})

const confirms: [string, Observation, Memory, string | undefined][] = [
  ['healthy', seen(look(OLD)), memory(), undefined],
  ['no process', seen(look(undefined)), memory(), 'at-once'],
  ['silent', seen(look(OLD, silent)), memory(), 'after-delay'],
  ['page gone', seen(look(OLD, undefined, gone)), memory(), 'after-delay'],
  ['a tunnel to restart', seen(look(OLD), down), memory(), 'at-once'],
  ['a tunnel that was restarted', seen(look(OLD), { ...down, tunnelTried: true }), memory(), undefined],
  ['netns missing', seen(look(undefined), noNetns), memory(), 'after-delay'],
  [
    'netns missing, paused',
    seen(look(undefined), { ...noNetns, paused: { by: 'a', reason: 'b' } }),
    memory(),
    undefined,
  ],
  ['paused', seen(look(undefined), { paused: { by: 'a', reason: 'b' } }), memory(), undefined],
  ['a guard', seen(look(30, silent)), memory(), undefined],
  ['a guard beside an attempt under way', seen(look(30, silent)), cutShort, 'at-once'],
  ['squatted beside an attempt under way', seen(look(OLD, squatted)), cutShort, 'at-once'],
  ['healthy beside an attempt under way', seen(look(OLD)), cutShort, undefined],
  [
    'unseen beside an attempt under way',
    seen({ process: { seen: false, why: 'x' }, elsewhere: [] }),
    cutShort,
    undefined,
  ],
]
for (const [name, o, m, want] of confirms) {
  test(`second look: ${name}`, () => assert.equal(decide(o, m, at(T + 1000), policy).confirm, want))
}

test('the uplink is the fleet’s: it is said to pass by a paused node too, and by no node without a tunnel', () => {
  const passes = {
    egress: { state: 'healthy', code: 'ok', reason: '', evidence: [], repair: false },
  } as const
  const of = (o: Observation) =>
    decide(o, memory(), at(T), policy).pages.filter((e) => e.of === 'fleet' && e.kind === 'uplink-fault')
  assert.deepEqual(
    of(seen(look(OLD), passes)).map((e) => [e.kind, e.failing]),
    [['uplink-fault', false]],
  )
  const paused = seen(look(OLD), { ...passes, paused: { by: 'a', reason: 'b' } })
  assert.equal(of(paused).length, 1)
  assert.equal(decide(paused, memory(), at(T), policy).pages.length, 1)
  assert.deepEqual(of(seen(look(OLD))), [])
  assert.deepEqual(of(seen(look(OLD), down)), [])
})

const acted = (agoMs: number, kind = 'relaunch-browser'): Receipt =>
  ({
    at: at(T - agoMs),
    actions: [{ kind, startedWallMs: at(T - agoMs).wallMs, durationMs: 1, helped: true, detail: '' }],
  }) as unknown as Receipt
const known = memory({ attempts: [{ ...entry, wallMs: at(T).wallMs, result: 'ok' }] })

const records: [string, { last?: Receipt; m?: Memory; alive?: boolean }, RegExp | undefined][] = [
  ['a living browser, never', { alive: true }, /^not relaunched: disk full, so nothing would hold/],
  ['a dead one, no receipt', {}, undefined],
  [
    'a dead one, after an attempt that nothing else knows',
    { last: acted(60_000) },
    /^not relaunched again so soon: disk full$/,
  ],
  ['… that is over by the base of the back-off', { last: acted(policy.backoffBaseMs) }, undefined],
  ['… that the memory knows', { last: acted(60_000), m: known }, undefined],
  ['a dead one, after a tunnel was restarted', { last: acted(60_000, 'restart-tunnel') }, undefined],
]
for (const [name, { last, m = memory(), alive = false }, want] of records) {
  test(`an attempt that cannot be recorded: ${name}`, () => {
    const o = seen(look(undefined), last ? { last } : {})
    const why = unrecorded(o, m, { problem: 'disk full', alive }, at(T), policy)
    if (want === undefined) assert.equal(why, undefined)
    else assert.match(why ?? '', want)
  })
}

test('the actuator declines: the finding and why, in one line; pages stay, memory too', () => {
  const found = decide(seen(look(undefined)), memory(), at(T), policy)
  const d = declined(found, 'muse', 'too little time left')
  assert.deepEqual(d.lines, [
    {
      level: 'FAIL',
      code: 'no-process',
      text: `${text('no-process')}; too little time left`,
      next: 'chromebox-watchdog muse --why',
    },
  ])
  assert.deepEqual([d.pages, d.memory, d.verdict], [found.pages, found.memory, found.verdict])
})

const KILLED: Ended = { how: 'signal', detail: 'signal KILL', status: 9 }
const ended = (did: 'ok' | 'failed', over: Partial<Relaunched> = {}): Relaunched => ({
  did,
  durationMs: 4200,
  reason: did === 'ok' ? '' : 'no chromium process for profile',
  judgement: judgeBrowser(look(did === 'ok' ? 2 : undefined), asked),
  ended: KILLED,
  notes: [],
  ...over,
})

/** A relaunch of a dead browser after so many failures in a row, and how it ended. */
function attempt(failures: number, result: Relaunched, over: Partial<Memory> = {}) {
  const last = { startBootMs: 0, endBootMs: 0 }
  const m = memory({ failures, ...(failures > 0 ? { last } : {}), ...over })
  const found = decide(seen(look(undefined)), m, at(T), policy)
  assert.equal(found.actions.length, 1)
  const begun = beginAttempt(found.memory, at(T), { reason: 'r', ended: 'e', quickDeath: false })
  return relaunched(found, begun, result, 'muse', at(T + 5000), policy)
}
const held = { held: { sinceWallMs: 1 } }
const OK = text('relaunch-ok', { seconds: 4 })
const was = '; the previous one: signal, signal KILL'
const FAILED = text('relaunch-failed', { reason: `no chromium process for profile${was}` })
const HELD = text('held-down', { failures: 5, reason: 'no chromium process for profile' })

interface End {
  name: string
  d: ReturnType<typeof attempt>
  lines: string[]
  /** Of the browser's fault: what is said, and whether it is the end of it or news. */
  page: string
  memory: [failures: number, held: boolean, result: string]
}
const ends: End[] = [
  {
    name: 'helped',
    d: attempt(0, ended('ok')),
    lines: [`INFO ${OK}, the previous one ended: signal KILL`],
    page: `over ${OK}`,
    memory: [0, false, 'ok'],
  },
  {
    name: 'helped; nobody knows how the last one ended, and there was more to do',
    d: attempt(0, ended('ok', { ended: { how: 'unknown', detail: 'it was running' }, notes: ['a', 'b'] })),
    lines: [`INFO ${OK} (a; b)`],
    page: `over ${OK}`,
    memory: [0, false, 'ok'],
  },
  {
    name: 'helped a held node',
    d: attempt(5, ended('ok'), held),
    lines: [`INFO ${OK}, the previous one ended: signal KILL, hold-down closed`],
    page: `over ${OK}`,
    memory: [0, false, 'ok'],
  },
  {
    name: 'failed',
    d: attempt(0, ended('failed')),
    lines: [`FAIL ${FAILED}`],
    page: `page ${FAILED}; next: chromebox-watchdog muse --why`,
    memory: [1, false, 'failed'],
  },
  {
    name: 'failed for the fifth time: a hold, which is news',
    d: attempt(4, ended('failed')),
    lines: [`FAIL ${FAILED}`, `FAIL ${HELD}`],
    page: `held ${HELD}; next: chromebox-watchdog release muse`,
    memory: [5, true, 'failed'],
  },
  {
    name: 'failed in a hold, which is none any more',
    d: attempt(5, ended('failed'), held),
    lines: [`FAIL ${FAILED}`, `FAIL ${HELD.replace('5', '6')}`],
    page: `page ${HELD.replace('5', '6')}; next: chromebox-watchdog release muse`,
    memory: [6, true, 'failed'],
  },
]
for (const { name, d, lines, page, memory: want } of ends) {
  test(`a relaunch: ${name}`, () => {
    assert.deepEqual(
      d.lines.map((l) => `${l.level} ${l.text}`),
      lines,
    )
    const events = d.pages.filter((e) => e.kind === 'browser-fault')
    const told = events.map((e) => {
      const then = e.next === undefined ? '' : `; next: ${e.next}`
      return `${e.failing ? (e.news ?? 'page') : 'over'} ${e.text}${then}`
    })
    assert.deepEqual(told, [page])
    assert.ok(
      d.pages.some((e) => e.kind === 'tunnel-fault' && !e.failing),
      'the layers below are told as well',
    )
    const { failures, held: hold, attempts } = d.memory
    assert.deepEqual([failures, hold !== undefined, attempts.at(-1)?.result], want)
    assert.deepEqual(d.marks.map((l) => l.layer).slice(0, 3), ['netns', 'egress', 'process'])
    assert.equal(d.verdict.state, want[2] === 'ok' ? 'healthy' : 'unhealthy')
  })
}
