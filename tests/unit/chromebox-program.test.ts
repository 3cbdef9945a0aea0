import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forFleet } from '../../lib/supervisors/cannot-start.ts'
import { judgeProgram } from '../../lib/supervisors/changed-program.ts'
import type { Relaunched } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import { decide, relaunched } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import { beginAttempt } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Attempt } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { at, gone, look, memory, policy, seen } from '../kit/chromebox-fixtures.ts'

const T = 10_000_000
const OLD = 3600
const CHANGED = 1e12
const attempt = (after: number, died?: string, result: Attempt['result'] = 'failed'): Attempt => ({
  wallMs: CHANGED + after,
  reason: '',
  ended: '',
  result,
  detail: '',
  seconds: 1,
  ...(died === undefined ? {} : { died }),
})
const TRAP = attempt(60_000, 'TRAP')
const BEFORE = CHANGED - 1000
const SENTENCE = 'Chromium on disk changed at 2001-09-09T01:46:40.000Z, every start since ended with TRAP'

const rows: [string, Attempt[][], number[], string | undefined][] = [
  ['another node died of it, a browser from before runs', [[TRAP], []], [BEFORE], SENTENCE],
  ['nobody has tried it yet', [[], []], [BEFORE], undefined],
  ['one death before the change', [[attempt(-60_000, 'TRAP')]], [BEFORE], undefined],
  ['a start since was healthy', [[TRAP], [attempt(90_000, undefined, 'ok')]], [BEFORE], undefined],
  ['a start since lives, though its page is wrong', [[TRAP], [attempt(90_000)]], [BEFORE], undefined],
  ['a browser was started since, and is old enough to count', [[TRAP]], [BEFORE, CHANGED + 1000], undefined],
  ['a browser was started since, and may end yet', [[TRAP]], [BEFORE, CHANGED + 580_000], SENTENCE],
  ['an attempt is under way', [[TRAP], [attempt(90_000, undefined, 'pending')]], [BEFORE], SENTENCE],
  [
    'a profile that was refused says nothing of the program',
    [[{ ...attempt(60_000, 'exit code 21'), final: true }]],
    [BEFORE],
    undefined,
  ],
  ['one node, and no browser from before: its own bad luck', [[TRAP, TRAP], []], [], undefined],
  ['two nodes, and no browser is left', [[TRAP], [TRAP]], [], SENTENCE],
]
for (const [name, attempts, startedWallMs, want] of rows) {
  test(`case 57: the program changed on disk: ${name}`, () => {
    const facts = { changedWallMs: CHANGED, startedWallMs, attempts }
    assert.equal(judgeProgram(facts, CHANGED + 600_000, 120_000), want)
  })
}

const living = look(OLD, undefined, gone)
test('case 57: a living browser is not given up for a program that cannot start: one page, the fleet’s', () => {
  const d = decide(seen(living, { program: SENTENCE }), memory(), at(T), policy)
  assert.deepEqual([d.actions, d.guard?.code, d.confirm], [[], 'cannot-start', undefined])
  assert.equal(d.guard?.text, `not relaunched: ${SENTENCE}`)
  const paged = d.pages.filter((e) => e.failing)
  assert.deepEqual(
    paged.map((e) => [e.kind, e.of, e.code, e.text]),
    [['browser-fault', 'fleet', 'program-changed', SENTENCE]],
  )
})

test('case 57: a dead one is still tried, and its failure is the fleet’s page', () => {
  const d = decide(seen(look(undefined), { program: SENTENCE }), memory(), at(T), policy)
  assert.equal(d.actions[0]?.kind, 'relaunch-browser')
  assert.deepEqual(
    d.pages.filter((e) => e.failing).map((e) => e.of),
    ['fleet'],
  )
})

for (const age of [OLD, undefined]) {
  test(`cases 57, 58: no start can succeed, browser ${age === undefined ? 'dead' : 'alive'}: no relaunch, paged with why`, () => {
    const o = seen(age === undefined ? look(undefined) : living, { noStart: '/usr/lib/c is missing' })
    const d = decide(o, memory(), at(T), policy)
    assert.deepEqual([d.actions, d.guard?.code], [[], 'cannot-start'])
    const paged = d.pages.filter((e) => e.failing)
    assert.equal(paged.length, 1)
    assert.match(paged[0]?.text ?? '', /; not relaunched: \/usr\/lib\/c is missing$/)
  })
}

test('case 58: a healthy browser whose profile cannot be written: a fault of a person’s, and no relaunch', () => {
  const d = decide(seen(look(OLD), { unwritable: 'Default is root’s' }), memory(), at(T), policy)
  assert.deepEqual(
    [d.verdict.state, d.verdict.layer, d.verdict.code],
    ['unhealthy', 'process', 'profile-unwritable'],
  )
  assert.deepEqual([d.actions, d.confirm], [[], undefined])
  assert.deepEqual(d.marks.map((m) => [m.layer, m.state]).slice(2), [
    ['process', 'fail'],
    ['cdp', 'ok'],
    ['page', 'ok'],
  ])
  const paged = d.pages.filter((e) => e.kind === 'browser-fault')
  assert.deepEqual(
    paged.map((e) => [e.failing, e.text]),
    [[true, 'the profile cannot be written: Default is root’s']],
  )
})

test('case 58: a page is missed too: what the browser still holds is not thrown away', () => {
  const d = decide(seen(living, { unwritable: 'Default is root’s' }), memory(), at(T), policy)
  assert.deepEqual([d.actions, d.guard?.code], [[], 'cannot-start'])
})

const failedWith = (status: number): Relaunched => ({
  did: 'failed',
  durationMs: 900,
  reason: 'it said: no',
  judgement: seen(look(undefined)).browser as never,
  ended: { how: 'signal', detail: 'signal KILL', status: 9 },
  died: { how: 'exit-code', detail: `exit code ${status}`, status },
  notes: [],
})
for (const [status, held] of [
  [21, true],
  [1, false],
] as const) {
  test(`case 58: exit ${status}, not cured: ${held ? 'held and reported at once' : 'tried again'}`, () => {
    const found = decide(seen(look(undefined)), memory(), at(T), policy)
    const begun = beginAttempt(memory(), at(T), { reason: '', ended: '', quickDeath: false })
    const d = relaunched(found, begun, failedWith(status), 'muse', at(T), policy)
    assert.equal(d.memory.held !== undefined, held)
    const { died, final } = d.memory.attempts.at(-1) ?? {}
    assert.deepEqual([died, final], [`exit code ${status}`, held || undefined])
    assert.equal(d.pages.filter((e) => e.failing).length, 1)
  })
}

test('the page for the fleet stands in for the node’s, and leaves the other layers’ alone', () => {
  const others = { kind: 'tunnel-fault', failing: false, code: 'tunnel-recovered', text: '' } as const
  const own = { kind: 'browser-fault', failing: true, code: 'relaunch-failed', text: '' } as const
  const paged = forFleet([others, own], SENTENCE)
  assert.deepEqual(
    paged.map((e) => [e.kind, e.of]),
    [
      ['tunnel-fault', undefined],
      ['browser-fault', 'fleet'],
    ],
  )
})
