import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Look, MarkState } from '../../lib/base/types.ts'
import { judgeBrowser } from '../../lib/browser/judge.ts'
import type { BrowserLook, CdpFinding, MainProcess, PageFinding } from '../../lib/browser/types.ts'
import { text } from '../../lib/report/codes.ts'

const MAIN: MainProcess = { pid: 4711, startTicks: 99, ageMs: 87_900, state: 'S' }
const ASKED = { title: 'Muse', port: 9410 }
const OK: CdpFinding = { state: 'ok', browser: 'Chrome/1' }

const seen = <T>(value: T): Look<T> => ({ seen: true, value })
const unseen = (why: string): Look<never> => ({ seen: false, why })
const alive = (cdp?: Look<CdpFinding>, page?: Look<PageFinding>): BrowserLook => ({
  process: seen(MAIN),
  elsewhere: [],
  ...(cdp ? { cdp } : {}),
  ...(page ? { page } : {}),
})

interface Row {
  readonly what: string
  readonly look: BrowserLook
  readonly state: 'healthy' | 'unhealthy' | 'unknown'
  readonly code: string
  readonly reason: string
  readonly evidence?: readonly string[]
  /** Of process, cdp and page. */
  readonly marks: readonly MarkState[]
}

const NO = 'not-checked'
const pageRow = (what: string, page: Look<PageFinding>, rest: Partial<Row>): Row => ({
  what,
  look: alive(seen(OK), page),
  state: 'unhealthy',
  code: '',
  reason: text('page-missing', { title: 'Muse' }),
  marks: ['ok', 'ok', 'fail'],
  ...rest,
})

const TABLE: readonly Row[] = [
  {
    what: 'processes hidden',
    look: { process: unseen('hidepid'), elsewhere: [] },
    state: 'unknown',
    code: 'process-unseen',
    reason: text('process-unseen', { why: 'hidepid' }),
    marks: ['unknown', NO, NO],
  },
  {
    what: 'no process',
    look: { process: seen(undefined), elsewhere: [] },
    state: 'unhealthy',
    code: 'no-process',
    reason: text('no-process'),
    marks: ['fail', NO, NO],
  },
  {
    what: 'the profile in another namespace only',
    look: { process: seen(undefined), elsewhere: [MAIN] },
    state: 'unhealthy',
    code: 'no-process',
    reason: text('no-process'),
    evidence: ['pid 4711 has the profile, in another namespace'],
    marks: ['fail', NO, NO],
  },
  {
    what: 'CDP was not asked',
    look: alive(),
    state: 'unknown',
    code: 'cdp-unseen',
    reason: text('cdp-unseen', { port: 9410, why: 'not asked' }),
    marks: ['ok', 'unknown', NO],
  },
  {
    what: 'curl is missing',
    look: alive(unseen('the program curl is missing')),
    state: 'unknown',
    code: 'cdp-unseen',
    reason: text('cdp-unseen', { port: 9410, why: 'the program curl is missing' }),
    marks: ['ok', 'unknown', NO],
  },
  {
    what: 'CDP silent',
    look: alive(seen({ state: 'unreachable', detail: 'timed out' })),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: text('cdp-unreachable', { port: 9410 }),
    evidence: ['timed out'],
    marks: ['ok', 'fail', NO],
  },
  {
    what: 'another on the port, even with a page that looks right',
    look: alive(seen({ state: 'squatted', detail: 'from pid 5 (nc)' }), seen({ state: 'ok', title: 'Muse' })),
    state: 'unhealthy',
    code: 'port-squatted',
    reason: text('port-squatted', { port: 9410 }),
    evidence: ['from pid 5 (nc)'],
    marks: ['ok', 'fail', NO],
  },
  pageRow('the target list was not asked', unseen('no list'), {
    state: 'unknown',
    code: 'page-unseen',
    reason: text('page-unseen', { why: 'no list' }),
    marks: ['ok', 'ok', 'unknown'],
  }),
  pageRow('another title', seen({ state: 'missing', detail: 'titles: News' }), {
    code: 'page-missing',
    evidence: ['titles: News'],
  }),
  pageRow('no page', seen({ state: 'no-pages', detail: 'no page at all' }), {
    code: 'no-pages',
    reason: text('no-pages', { title: 'Muse' }),
    evidence: ['no page at all'],
  }),
  pageRow('an error page', seen({ state: 'error-page', detail: 'error page: muse.example' }), {
    code: 'error-page',
    reason: text('error-page', { title: 'Muse' }),
    evidence: ['error page: muse.example'],
  }),
  pageRow('perhaps an error page', seen({ state: 'doubtful', detail: 'over the relay: closed' }), {
    state: 'unknown',
    code: 'page-doubtful',
    reason: text('page-doubtful', { why: 'over the relay: closed' }),
    marks: ['ok', 'ok', 'unknown'],
  }),
  pageRow('well', seen({ state: 'ok', title: 'Muse — chat' }), {
    state: 'healthy',
    code: 'ok',
    reason: '',
    marks: ['ok', 'ok', 'ok'],
  }),
]

for (const row of TABLE) {
  test(`${row.what}: ${row.code}`, () => {
    const { verdict, marks } = judgeBrowser(row.look, ASKED)
    assert.equal(verdict.state, row.state)
    assert.equal(verdict.code, row.code)
    assert.equal(verdict.reason, row.reason)
    assert.deepEqual(verdict.evidence, row.evidence ?? [])
    assert.deepEqual(
      marks.map((m) => m.state),
      row.marks,
    )
  })
}

test('a fact without words is no evidence', () => {
  const { verdict } = judgeBrowser(alive(seen({ state: 'unreachable', detail: '' })), ASKED)
  assert.deepEqual(verdict.evidence, [])
})

test('the process mark names pid and age, and a stopped process', () => {
  const note = (state: string) =>
    judgeBrowser({ process: seen({ ...MAIN, state }), elsewhere: [] }, ASKED).marks[0]?.note
  assert.equal(note('S'), 'pid 4711, 87 s old')
  for (const state of ['T', 't']) assert.equal(note(state), 'pid 4711, 87 s old, stopped')
})

const detail = fc.string({ maxLength: 12 })
const look = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<Look<T>> =>
  fc.oneof(value.map(seen), detail.map(unseen))
const main: fc.Arbitrary<MainProcess> = fc.record({
  pid: fc.integer({ min: 2, max: 4_194_304 }),
  startTicks: fc.nat(),
  ageMs: fc.nat(),
  state: fc.constantFrom('S', 'R', 'D', 'T', 't'),
})
const cdp: fc.Arbitrary<CdpFinding> = fc.oneof(
  fc.record({ state: fc.constant('ok' as const), browser: detail }),
  fc.record({ state: fc.constantFrom('unreachable' as const, 'squatted' as const), detail }),
)
const page: fc.Arbitrary<PageFinding> = fc.oneof(
  fc.record({ state: fc.constant('ok' as const), title: detail }),
  fc.record({
    state: fc.constantFrom(
      'missing' as const,
      'no-pages' as const,
      'error-page' as const,
      'doubtful' as const,
    ),
    detail,
  }),
)
const anyLook: fc.Arbitrary<BrowserLook> = fc
  .record({
    process: look(fc.option(main, { nil: undefined })),
    elsewhere: fc.array(main, { maxLength: 3 }),
    cdp: fc.option(look(cdp), { nil: undefined }),
    page: fc.option(look(page), { nil: undefined }),
  })
  .map(({ process, elsewhere, cdp, page }) => ({
    process,
    elsewhere,
    ...(cdp ? { cdp } : {}),
    ...(page ? { page } : {}),
  }))

const LAYERS = ['process', 'cdp', 'page']

test('whatever was seen: three marks in order, and the first that is not ok owns the verdict', () => {
  fc.assert(
    fc.property(anyLook, (seenLook) => {
      const { verdict, marks } = judgeBrowser(seenLook, ASKED)
      assert.deepEqual(
        marks.map((m) => m.layer),
        LAYERS,
      )
      const at = marks.findIndex((m) => m.state !== 'ok')
      if (at < 0) {
        assert.equal(verdict.state, 'healthy')
        assert.equal(verdict.layer, undefined)
        return
      }
      assert.equal(verdict.layer, LAYERS[at])
      assert.equal(verdict.state, marks[at]?.state === 'unknown' ? 'unknown' : 'unhealthy')
      assert.ok(verdict.reason !== '')
      for (const above of marks.slice(at + 1)) assert.equal(above.state, 'not-checked')
    }),
  )
})

test('healthy takes a process, an answer and a page that were all seen', () => {
  fc.assert(
    fc.property(anyLook, (l) => {
      const well =
        l.process.seen &&
        l.process.value !== undefined &&
        l.cdp?.seen === true &&
        l.cdp.value.state === 'ok' &&
        l.page?.seen === true &&
        l.page.value.state === 'ok'
      assert.equal(judgeBrowser(l, ASKED).verdict.state === 'healthy', well)
    }),
  )
})

test('what could not be seen never asks for an action: no layer that is unseen reads as broken', () => {
  fc.assert(
    fc.property(anyLook, (l) => {
      const { verdict } = judgeBrowser(l, ASKED)
      if (verdict.state !== 'unhealthy') return
      const owner = { process: l.process, cdp: l.cdp, page: l.page }[
        verdict.layer as 'process' | 'cdp' | 'page'
      ]
      assert.equal(owner?.seen, true)
    }),
  )
})
