import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { now } from '../../lib/base/clock.ts'
import { ConfigError } from '../../lib/base/errors.ts'
import { pagePath } from '../../lib/base/paths.ts'
import type { Now } from '../../lib/base/types.ts'
import { formatLine, said } from '../../lib/report/line.ts'
import type { Log } from '../../lib/report/log.ts'
import {
  decidePage,
  type PageContext,
  type Paged,
  type PageMemory,
  page,
  pageConfigFault,
  pageConfigHealthy,
  pageKey,
  pageRecovered,
  RECOVERY_PART,
} from '../../lib/report/page.ts'
import { tempPaths } from '../kit/temp.ts'

const REPEAT_MS = 14_400_000
const HOLD_MS = REPEAT_MS / RECOVERY_PART
const MIN = 60_000

/** Clock readings `min` minutes after a boot. */
const at = (min: number, bootId = 'a'): Now => ({ wallMs: 1e12 + min * MIN, bootMs: min * MIN, bootId })

/** What is said for a sequence of findings, `F` for failing and `.` for well, one every `step` minutes. */
function told(findings: string, step = 2): string[] {
  let memory: PageMemory = {}
  const out: string[] = []
  for (const [i, f] of [...findings].entries()) {
    const d = decidePage(memory, { failing: f === 'F', reason: 'r' }, at(i * step), REPEAT_MS)
    memory = d.memory
    if (d.say !== undefined) out.push(`${i}:${d.say}`)
  }
  return out
}

const SEQUENCES: [string, string, string[]][] = [
  ['always well', '.....', []],
  ['a fault is told at once, and once', '..FFFF', ['2:page']],
  ['a recovery is told when it has held for 10 min', 'F......', ['0:page', '6:recovery']],
  ['a relapse within that time is the same fault', 'F...F......', ['0:page', '10:recovery']],
  ['20 flips: one page, one recovery', `${'F.'.repeat(20)}......`, ['0:page', '44:recovery']],
  ['a fault after a told recovery is a new one', 'F......F', ['0:page', '6:recovery', '7:page']],
]
for (const [what, findings, expected] of SEQUENCES) {
  test(`decidePage: ${what}`, () => assert.deepEqual(told(findings), expected))
}

test('decidePage: a fault that lasts is told every four hours, flapping or not', () => {
  assert.deepEqual(told('F'.repeat(242)), ['0:page', '120:repeat', '240:repeat'])
  assert.deepEqual(told('F.'.repeat(121)), ['0:page', '120:repeat', '240:repeat'])
})

test('decidePage: nobody looked for a day: the old fault is over, this is another', () => {
  const memory: PageMemory = { open: { since: at(0), lastPaged: at(0), reason: 'r', wellSince: at(2) } }
  assert.equal(decidePage(memory, { failing: true, reason: 'r' }, at(30), REPEAT_MS).say, 'page')
})

test('decidePage: another reason is the same fault, unless the fault is its reason', () => {
  const memory: PageMemory = { open: { since: at(0), lastPaged: at(0), reason: 'one' } }
  const same = decidePage(memory, { failing: true, reason: 'two' }, at(2), REPEAT_MS)
  assert.equal(same.say, undefined)
  assert.equal(same.memory.open?.reason, 'two')
  assert.equal(
    decidePage(memory, { failing: true, reason: 'two', byReason: true }, at(2), REPEAT_MS).say,
    'page',
  )
  assert.equal(
    decidePage(memory, { failing: true, reason: 'one', byReason: true }, at(2), REPEAT_MS).say,
    undefined,
  )
})

test('decidePage: a reboot keeps the fault; a wall clock step changes nothing within a boot', () => {
  const memory: PageMemory = { open: { since: at(0), lastPaged: at(0), reason: 'r' } }
  const event = { failing: true, reason: 'r' }
  assert.equal(decidePage(memory, event, at(10, 'b'), REPEAT_MS).say, undefined)
  assert.equal(decidePage(memory, event, at(240, 'b'), REPEAT_MS).say, 'repeat')
  assert.equal(decidePage(memory, event, { ...at(10), wallMs: 9e12 }, REPEAT_MS).say, undefined)
})

test('decidePage: for any findings, pages and recoveries alternate, and the first fault is told at once', () => {
  fc.assert(
    fc.property(
      fc.array(fc.boolean(), { maxLength: 80 }),
      fc.oneof(fc.integer({ min: 1, max: 30 }), fc.constantFrom(1, 2, 5, 10)),
      (findings, step) => {
        const said = told(findings.map((f) => (f ? 'F' : '.')).join(''), step)
        const kinds = said.map((s) => s.split(':')).filter(([, kind]) => kind !== 'repeat')
        for (const [i, [place, kind]] of kinds.entries()) {
          const before = kinds[i - 1]?.[1]
          if (kind === 'recovery') assert.equal(before, 'page')
          else if (before === 'page') {
            // A page follows a page only where the hold was over by now and no run had fallen on its end or later.
            const well = Number(place) - 1 - findings.lastIndexOf(true, Number(place) - 1)
            assert.ok(well * step * MIN >= HOLD_MS, `${place}: well for ${well} runs only`)
            assert.ok((well - 1) * step * MIN < HOLD_MS, `${place}: the recovery was not told`)
          }
        }
        const first = findings.indexOf(true)
        assert.equal(said[0], first === -1 ? undefined : `${first}:page`)
      },
    ),
  )
})

test('decidePage: any 20 flips faster than the hold: exactly one page and one recovery', () => {
  const gaps = fc.array(fc.integer({ min: 1, max: HOLD_MS - 1 }), { minLength: 40, maxLength: 40 })
  fc.assert(
    fc.property(gaps, (waits) => {
      let memory: PageMemory = {}
      let clock = 0
      const said: string[] = []
      const feed = (failing: boolean) => {
        // A repeat interval of its own length, far away: only pages and recoveries are counted here.
        const d = decidePage(
          memory,
          { failing, reason: 'r' },
          { wallMs: clock, bootMs: clock, bootId: 'a' },
          REPEAT_MS,
        )
        memory = d.memory
        if (d.say === 'page' || d.say === 'recovery') said.push(d.say)
      }
      for (const [i, wait] of waits.entries()) {
        feed(i % 2 === 0)
        clock += wait
      }
      clock += HOLD_MS
      feed(false)
      assert.deepEqual(said, ['page', 'recovery'])
    }),
  )
})

const DOWN: Paged = { code: 'held-down', text: 'down', next: 'true' }
const OVER: Paged = { code: 'browser-recovered', text: 'healthy' }

function context(t: TestContext): { ctx: PageContext; lines: string[] } {
  const lines: string[] = []
  const log: Log = {
    write: (node, line, f) => {
      lines.push(`${line.level} [${node}] ${formatLine(line)} (${f?.kind}/${f?.page})`)
    },
  }
  const p = tempPaths(t)
  return { ctx: { p, config: { pageRepeatMs: REPEAT_MS }, now: at(0), log }, lines }
}

test('page and pageRecovered: the lines, and a memory on disk between runs', (t) => {
  const { ctx, lines } = context(t)
  assert.equal(pageRecovered(ctx, 'browser-fault', 'muse', OVER), undefined)
  assert.equal(page(ctx, 'browser-fault', 'muse', DOWN), 'page')
  assert.equal(page({ ...ctx, now: at(2) }, 'browser-fault', 'muse', DOWN), undefined)
  assert.equal(page({ ...ctx, now: at(2) }, 'browser-fault', 'pip', DOWN), 'page')
  assert.equal(page({ ...ctx, now: at(240) }, 'browser-fault', 'muse', DOWN), 'repeat')
  assert.equal(pageRecovered({ ...ctx, now: at(250) }, 'browser-fault', 'muse', OVER), undefined)
  assert.equal(pageRecovered({ ...ctx, now: at(260) }, 'browser-fault', 'muse', OVER), 'recovery')
  assert.equal(pageRecovered({ ...ctx, now: at(270) }, 'browser-fault', 'muse', OVER), undefined)
  assert.deepEqual(lines, [
    'PAGE [muse] browser-fault: down {held-down}; next: true (browser-fault/page)',
    'PAGE [pip] browser-fault: down {held-down}; next: true (browser-fault/page)',
    'PAGE [muse] browser-fault: down (since 2001-09-09T01:46:40.000Z, 4h) {held-down}; next: true (browser-fault/repeat)',
    'PAGE [muse] browser-fault recovered: healthy (lasted 4h 20m) {browser-recovered} (browser-fault/recovery)',
  ])
})

test('a corrupt page record pages again rather than forget the fault', (t) => {
  const { ctx, lines } = context(t)
  const path = pagePath(ctx.p, pageKey('tunnel-fault', 'muse'))
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, '')
  assert.equal(page(ctx, 'tunnel-fault', 'muse', said('egress-no-answer')), 'page')
  assert.equal(lines.length, 1)
})

test('without a place for its memory it still pages', (t) => {
  const { ctx, lines } = context(t)
  const p = { ...ctx.p, state: '/dev/null/nowhere', locks: '/dev/null/nowhere' }
  assert.equal(page({ ...ctx, p }, 'browser-fault', 'muse', DOWN), 'page')
  assert.deepEqual(lines, ['PAGE [muse] browser-fault: down {held-down}; next: true (browser-fault/page)'])
})

test('the uplink is one page for the fleet', () => {
  assert.equal(pageKey('uplink-fault', 'fleet'), 'uplink')
  assert.equal(pageKey('relay-fault', 'muse'), 'muse.relay-fault')
})

test('a configuration fault pages once per text, and other errors do not', (t) => {
  const { ctx, lines } = context(t)
  const { p, log } = ctx
  assert.equal(pageConfigFault(p, log, new Error('x')), undefined)
  assert.equal(pageConfigFault(p, log, new ConfigError('netvm.env: line 1: x', 'editor netvm.env')), 'page')
  assert.equal(
    pageConfigFault(p, log, new ConfigError('netvm.env: line 1: x', 'editor netvm.env')),
    undefined,
  )
  assert.equal(pageConfigFault(p, log, new ConfigError('netvm.env: line 2: y')), 'page')
  assert.equal(pageConfigHealthy({ ...ctx, now: now(p) }), undefined)
  const later = { ...now(p), bootMs: now(p).bootMs + HOLD_MS + 1000 }
  assert.equal(pageConfigHealthy({ ...ctx, now: later }), 'recovery')
  assert.equal(
    lines[0],
    'PAGE [fleet] config-fault: netvm.env: line 1: x {config-refused}; next: editor netvm.env (config-fault/page)',
  )
  assert.equal(
    lines[1],
    'PAGE [fleet] config-fault: netvm.env: line 2: y {config-refused} (config-fault/page)',
  )
  assert.match(lines[2] ?? '', /^PAGE \[fleet\] config-fault recovered: .* \{config-recovered\} /)
})
