import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type CircuitMemory, freshMemory } from '../../lib/api/circuit.ts'
import { apiTimeout, judgeStatus, unknown } from '../../lib/api/judge.ts'
import type { Now, Receipt } from '../../lib/base/types.ts'
import { text } from '../../lib/report/codes.ts'
import { said } from '../../lib/report/line.ts'
import { HEALTHY } from '../../lib/report/verdict.ts'
import { decide, notRestarted, settleRestart } from '../../lib/supervisors/agent-health/decide.ts'
import { parseMemory } from '../../lib/supervisors/agent-health/memory.ts'
import type { Guard, Observation, Policy } from '../../lib/supervisors/agent-health/types.ts'
import { saying } from '../kit/says.ts'

const HTTP_500 = text('api-http', { status: 500 })

const policy: Policy = {
  strikeLimit: 2,
  strikeWindowMs: 900_000,
  futileLimit: 3,
  cooldownMs: 1_800_000,
  freshBrowserMs: 120_000,
  restartNeedsMs: 90_000,
}
const now: Now = { wallMs: 1e12, bootMs: 5_000_000, bootId: 'a' }
const ago = (ms: number): Now => ({ ...now, bootMs: now.bootMs - ms })
const struck: CircuitMemory = { ...freshMemory, strikes: 1, lastStrike: ago(300_000) }
const open: CircuitMemory = { ...freshMemory, futile: 3, openedAt: ago(600_000) }
const halfOpen: CircuitMemory = { ...open, openedAt: ago(1_900_000) }
const PAUSED = { by: 'ann', reason: 'maintenance' }
const look = (more: Partial<Observation> = {}): Observation => ({
  node: { name: 'muse', apiCheck: '/api/me' },
  finding: judgeStatus(500),
  browserAgeMs: { seen: true, value: 600_000 },
  evidence: [],
  ...more,
})

describe('agent-health: what a look leads to', () => {
  const cases: [string, Observation, CircuitMemory, number, string, string][] = [
    ['well', look({ finding: judgeStatus(204) }), struck, 2e5, 'none', ''],
    ['first failure', look(), freshMemory, 2e5, 'none', ''],
    ['second failure', look(), struck, 2e5, 'restart-browser', ''],
    ['unknown', look({ finding: unknown('no-slot', 'x', 'cdp') }), struck, 2e5, 'none', ''],
    ['paused', look({ paused: PAUSED }), struck, 2e5, 'held', 'paused'],
    ['fresh', look({ browserAgeMs: { seen: true, value: 119_999 } }), struck, 2e5, 'held', 'fresh'],
    [
      'old enough',
      look({ browserAgeMs: { seen: true, value: 120_000 } }),
      struck,
      2e5,
      'restart-browser',
      '',
    ],
    [
      'age hidden',
      look({ browserAgeMs: { seen: false, why: 'hidepid' } }),
      struck,
      2e5,
      'held',
      'age-unknown',
    ],
    [
      'no browser',
      look({ browserAgeMs: { seen: true, value: undefined } }),
      struck,
      2e5,
      'held',
      'no-browser',
    ],
    ['too late in the run', look(), struck, 89_999, 'held', 'no-time'],
    ['open', look(), open, 2e5, 'none', ''],
    ['half-open', look(), halfOpen, 2e5, 'restart-browser', ''],
    ['half-open and paused', look({ paused: PAUSED }), halfOpen, 2e5, 'held', 'paused'],
  ]
  for (const [name, seen, memory, leftMs, action, guard] of cases) {
    it(`${name}: ${action} ${guard}`, () => {
      const d = decide(seen, memory, now, { ...policy, leftMs })
      const held = (d.guard as Guard | undefined)?.held
      assert.equal(d.actions[0]?.kind ?? (held ? 'held' : 'none'), action)
      assert.equal(held?.kind ?? '', guard)
      assert.equal(d.confirm, action === 'restart-browser' ? 'at-once' : undefined)
    })
  }

  it('a failure of a fresh or paused browser is told and not counted', () => {
    for (const more of [{ paused: PAUSED }, { browserAgeMs: { seen: true, value: 5000 } as const }]) {
      const d = decide(look(more), freshMemory, now, policy)
      assert.equal(d.verdict.state, 'unhealthy')
      assert.equal(d.memory.strikes, 0)
    }
  })
})

describe('agent-health: the second look, under the lock', () => {
  const marks = [{ layer: 'process', state: 'ok' }] as const
  const main = { pid: 9, startTicks: 1, ageMs: 600_000, state: 'S' }
  const browser = { verdict: HEALTHY, marks, process: main }
  const cdp = {
    state: 'unhealthy',
    layer: 'cdp',
    code: 'cdp-unreachable',
    reason: 'CDP unreachable',
    evidence: [],
  } as const
  const again = (more: object, finding?: Observation['finding']): Observation =>
    look({ again: { judgement: { ...browser, ...more }, ...(finding && { finding }) } })
  const fails = judgeStatus(500)
  const cases: [string, Observation, string, string][] = [
    ["the fault is still the API's", again({}, fails), '', ''],
    ['not asked again yet', again({}), '', ''],
    [
      'no process',
      again({ process: undefined }),
      'no-process',
      'no browser process: chromebox-watchdog brings it back',
    ],
    [
      'the browser is ill',
      again({ verdict: cdp }),
      'cdp-unreachable',
      "CDP unreachable: chromebox-watchdog's to repair",
    ],
    [
      'a fresh browser',
      again({ process: { ...main, ageMs: 119_999 } }, fails),
      'fresh',
      text('fresh', { seconds: 119 }),
    ],
    [
      'it cannot tell',
      again({}, unknown('no-slot', 'no slot', 'cdp')),
      'no-slot',
      'the second look saw nothing: no slot',
    ],
    ['paused meanwhile', { ...again({}, fails), paused: PAUSED }, 'paused', 'paused: watched, not acted on'],
  ]
  for (const [name, seen, code, why] of cases) {
    it(`${name}: ${code || 'restarted'}`, () => {
      const before = { ...struck, strikes: 2 }
      const d = decide(seen, before, now, policy)
      assert.equal(d.memory, before)
      assert.deepEqual([d.verdict.state, d.verdict.code], ['unhealthy', 'api-http'])
      assert.deepEqual([d.guard?.code ?? '', d.guard?.text ?? ''], [code, why])
      assert.deepEqual(d.actions, code === '' ? [{ kind: 'restart-browser', reason: HTTP_500 }] : [])
      const refused = `${HTTP_500}; not restarted: ${why}`
      const told = { level: 'WARN', code: 'api-http', text: refused, next: 'agent-health status muse' }
      assert.deepEqual(d.lines, code === '' ? [] : [told])
    })
  }

  it("a second look that finds the API healthy ends the strikes, and is the run's verdict", () => {
    const why = 'a second look found the API healthy'
    const d = decide(again({}, judgeStatus(200)), { ...struck, strikes: 2, futile: 1 }, now, policy)
    assert.deepEqual(d.verdict, { ...HEALTHY, evidence: [`${HTTP_500}; ${why}`] })
    assert.deepEqual(d.marks, [{ layer: 'api', state: 'ok' }])
    assert.deepEqual([d.guard, d.actions], [{ code: 'api-recovered', text: why }, []])
    assert.deepEqual(d.memory, freshMemory)
    const refused = { code: 'api-http', text: `${HTTP_500}; not restarted: ${why}` }
    assert.deepEqual(d.lines, [{ level: 'WARN', ...refused, next: 'agent-health status muse' }])
    assert.deepEqual(d.pages, [{ kind: 'api-fault', failing: false, ...said('api-recovered') }])
  })

  it('half-open, and healthy on the second look: closed, with its line and a review after the refusal', () => {
    const d = decide(again({}, judgeStatus(200)), halfOpen, now, policy)
    assert.equal(d.memory.openedAt, null)
    assert.deepEqual(
      d.lines.map((l) => [l.level, l.code]),
      [
        ['WARN', 'api-http'],
        ['INFO', 'circuit-closed'],
        ['WARN', 'circuit-review'],
      ],
    )
  })

  it('a lock that stays with another: nothing of the first look is said twice', () => {
    const asked = decide(look(), struck, now, policy)
    const d = notRestarted('muse', asked, { code: 'locked', text: 'held by x' })
    assert.deepEqual([d.actions, d.confirm, d.memory], [[], undefined, asked.memory])
    assert.deepEqual(
      d.lines.map((l) => l.text),
      [`${HTTP_500}; not restarted: held by x`],
    )
  })
})

describe('agent-health: how a restart ended', () => {
  const planned = decide(look({ evidence: ['asked'] }), struck, now, policy)
  const end = (pending: CircuitMemory['pending'], finding: Observation['finding'], more = {}) => {
    const begun = { ...freshMemory, futile: pending === 'restart' ? 1 : 3, pending, ...more }
    return settleRestart(look().node, planned, begun, { finding, durationMs: 12_000 }, now, policy)
  }
  const codes = (d: ReturnType<typeof end>) => d.lines.map((l) => `${l.level} ${l.code}`)

  it('it helped: healthy, everything forgotten', () => {
    const d = end('restart', judgeStatus(200))
    const ok = said('api-restart-ok', { took: '12s', detail: `${HTTP_500} is gone` })
    assert.deepEqual(d.lines, [{ level: 'INFO', ...ok }])
    assert.deepEqual(d.verdict, { ...HEALTHY, evidence: [`${HTTP_500}; ${ok.text}`] })
    assert.deepEqual([d.marks, d.memory], [[{ layer: 'api', state: 'ok' }], freshMemory])
    assert.deepEqual(d.pages, [{ kind: 'api-fault', failing: false, ...said('api-recovered') }])
  })

  it('futile: counted, told with its cause, and no page while the circuit is closed', () => {
    const d = end('restart', judgeStatus(503))
    const detail = text('api-http', { status: 503 })
    const futile = said('api-restart-futile', {
      detail,
      count: 'futile restart 1 in a row, 3 open the circuit',
    })
    assert.deepEqual(d.lines, [
      { level: 'FAIL', ...futile, cause: 'api-http', next: 'agent-health status muse' },
    ])
    assert.deepEqual(d.verdict.evidence, ['asked', `still down after restart: ${detail}`])
    assert.deepEqual([d.verdict.state, d.memory.futile, d.pages], ['unhealthy', 1, []])
  })

  it('the third one opens the circuit, a half-open one opens it again: loud, and paged', () => {
    const third = end('trip', apiTimeout, { openedAt: now })
    assert.deepEqual(codes(third), ['FAIL api-restart-futile', 'FAIL_LOUD circuit-open'])
    assert.equal(third.pages[0]?.text, third.lines[1]?.text)
    const again = end('probe', apiTimeout, { openedAt: now })
    assert.deepEqual(codes(again), ['FAIL api-restart-futile', 'FAIL_LOUD circuit-reopened'])
    for (const d of [third, again]) assert.deepEqual([d.pages[0]?.failing, d.memory.openedAt], [true, now])
  })
})

describe('agent-health: lines', () => {
  const lines = (o: Observation, m: CircuitMemory, before?: string) => {
    const last = { verdict: { code: before } } as Receipt
    const d = decide(before === undefined ? o : { ...o, last }, m, now, policy)
    return d.lines.map((l) => `${l.level} ${l.text}`)
  }

  it('says a strike, a skip, an unknown once, and nothing of a healthy or paused node', () => {
    assert.deepEqual(lines(look(), freshMemory), [`FAIL ${HTTP_500} (strike 1 of 2)`])
    assert.deepEqual(lines(look({ browserAgeMs: { seen: true, value: 12_345 } }), struck), [
      `WARN ${HTTP_500}; ${text('fresh', { seconds: 12 })}`,
    ])
    const lost = look({ finding: unknown('no-slot', 'no slot', 'cdp') })
    assert.deepEqual(lines(lost, struck, 'ok'), ['WARN unknown: no slot'])
    assert.deepEqual(lines(lost, struck, 'no-slot'), [])
    assert.deepEqual(lines(look({ finding: judgeStatus(200) }), freshMemory), [])
    assert.deepEqual(lines(look({ paused: PAUSED }), struck), [])
  })

  it('an open circuit says that restarts do not help, and where to look', () => {
    const what = /.* 500, and 3 restarts in a row did not help; .* 30m\. Look at \/api\/me.*/
    const d = decide(look(), open, now, policy)
    assert.deepEqual(d.lines, [
      {
        level: 'FAIL',
        code: 'api-http',
        text: `${HTTP_500}; circuit open`,
        next: 'agent-health status muse',
      },
    ])
    const [page, ...more] = d.pages
    assert.match(page?.text ?? '', saying('circuit-open', { what }))
    assert.deepEqual(
      [page?.kind, page?.failing, page?.code, page?.cause, page?.next, more],
      ['api-fault', true, 'circuit-open', 'api-http', 'agent-health status muse', []],
    )
    assert.deepEqual(decide(look(), struck, now, policy).pages, [])
    const over = { kind: 'api-fault', failing: false, ...said('api-recovered') }
    assert.deepEqual(decide(look({ finding: judgeStatus(200) }), open, now, policy).pages, [over])
  })
})

describe('agent-health: the state file', () => {
  it('round-trips, and refuses whatever it would not have written', () => {
    for (const m of [freshMemory, struck, open])
      assert.deepEqual(parseMemory(JSON.parse(JSON.stringify(m))), m)
    for (const bad of [
      {},
      { ...open, strikes: -1 },
      { ...open, futile: '3' },
      { ...open, openedAt: {} },
      { ...open, openedAt: undefined },
      { ...open, pending: 'maybe' },
      { ...open, trips: [null] },
      { ...open, reviews: [{ kind: 'x', wallMs: 1 }] },
    ]) {
      assert.throws(() => parseMemory(bad), JSON.stringify(bad))
    }
  })
})
