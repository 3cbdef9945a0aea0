import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Paths, receiptHistoryPath } from '../../lib/base/paths.ts'
import type { Receipt, Verdict } from '../../lib/base/types.ts'
import { keepReceipt, readHistory } from '../../lib/store/receipt-history.ts'
import { isNews } from '../../lib/store/receipts.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { tempPaths } from '../kit/temp.ts'

const HEALTHY: Verdict = { state: 'healthy', code: 'ok', reason: '', evidence: [] }
const SILENT: Verdict = {
  state: 'unhealthy',
  layer: 'cdp',
  code: 'cdp-unreachable',
  reason: 'CDP unreachable on :9410',
  evidence: [],
}
const ACTION = { kind: 'relaunch-browser', startedWallMs: 1, durationMs: 2, helped: true, detail: 'x' }

const receipt = (n: number, over: Partial<Receipt> = {}): Receipt => ({
  version: 1,
  supervisor: 'chromebox-watchdog',
  node: 'muse',
  verdict: HEALTHY,
  layers: [],
  actions: [],
  at: { wallMs: n, bootMs: n, bootId: 'b' },
  durationMs: 5,
  hostNs: { net: 6, pid: 7 },
  nextDueBootMs: 8,
  extra: {},
  ...over,
})

const read = (p: Paths) => readHistory(p, 'chromebox-watchdog', 'muse')
const times = (p: Paths): number[] => {
  const got = read(p)
  assert.ok(got.seen, got.seen ? '' : got.why)
  return got.value.map((r) => r.at.wallMs)
}

test('the last five, oldest first, and no more on disk', (t) => {
  const p = tempPaths(t)
  assert.deepEqual(read(p), { seen: true, value: [] })
  for (let n = 1; n <= 7; n++) keepReceipt(p, receipt(n))
  assert.deepEqual(times(p), [3, 4, 5, 6, 7])
  const path = receiptHistoryPath(p, 'chromebox-watchdog', 'muse')
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).receipts.length, 5)
  assert.equal(statSync(path).mode & 0o777, 0o644)
})

test('what is kept is the whole receipt', (t) => {
  const p = tempPaths(t)
  const full = receipt(1, { verdict: SILENT, actions: [ACTION], extra: { held: true } })
  keepReceipt(p, full)
  assert.deepEqual(read(p), { seen: true, value: [full] })
})

test('nodes and supervisors have histories of their own', (t) => {
  const p = tempPaths(t)
  keepReceipt(p, receipt(1))
  keepReceipt(p, receipt(2, { node: 'pip' }))
  keepReceipt(p, receipt(3, { supervisor: 'agent-health' }))
  assert.deepEqual(times(p), [1])
})

for (const [what, text] of [
  ['empty', ''],
  ['torn', '{"version":1,"rec'],
  ['of another version', '{"version":2,"receipts":[]}'],
  ['a list', '[]'],
  ['null', 'null'],
  ['huge', ' '.repeat(300_000)],
] as const) {
  test(`a history that is ${what}: told, and the next receipt starts it anew`, (t) => {
    const p = tempPaths(t)
    const path = receiptHistoryPath(p, 'chromebox-watchdog', 'muse')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    assert.equal(read(p).seen, false)
    keepReceipt(p, receipt(4))
    assert.deepEqual(times(p), [4])
  })
}

test('entries that are no receipts of this node are left out, and more than five are cut', (t) => {
  const p = tempPaths(t)
  const path = receiptHistoryPath(p, 'chromebox-watchdog', 'muse')
  mkdirSync(dirname(path), { recursive: true })
  const odd = [
    null,
    7,
    {},
    receipt(1, { node: 'pip' }),
    { ...receipt(2), actions: [{ kind: 'x', helped: true }] },
  ]
  const many = Array.from({ length: 9 }, (_, i) => receipt(10 + i))
  writeFileSync(path, JSON.stringify({ version: 1, receipts: [...odd, ...many, ...odd] }))
  assert.deepEqual(times(p), [14, 15, 16, 17, 18])
})

test('receipts that are too long together lose the oldest, so that it can be read again', (t) => {
  const p = tempPaths(t)
  const long = 'x'.repeat(100_000)
  for (let n = 1; n <= 4; n++) {
    keepReceipt(p, receipt(n, { verdict: { ...SILENT, evidence: [long] } }))
    assert.deepEqual(times(p), n === 1 ? [1] : [n - 1, n])
  }
})

test('on a real host a history that others may write is not believed', {
  skip: needsRoot('owns the files'),
}, (t) => {
  const p = { ...tempPaths(t), root: '' }
  keepReceipt(p, receipt(1))
  assert.equal(read(p).seen, true)
  chmodSync(receiptHistoryPath(p, 'chromebox-watchdog', 'muse'), 0o666)
  const got = read(p)
  assert.match(got.seen ? '' : got.why, /not trusted/)
})

test('news: the first run, another verdict, something done; not the same again', () => {
  const well = receipt(1)
  const bad = receipt(2, { verdict: SILENT })
  assert.equal(isNews(well, undefined), true)
  assert.equal(isNews(receipt(9), well), false)
  assert.equal(isNews(bad, well), true)
  assert.equal(isNews(well, bad), true)
  assert.equal(
    isNews(receipt(3, { verdict: { ...SILENT, reason: 'other words', evidence: ['y'] } }), bad),
    false,
  )
  assert.equal(isNews(receipt(3, { verdict: { ...SILENT, code: 'port-squatted' } }), bad), true)
  assert.equal(isNews(receipt(3, { verdict: { ...SILENT, layer: 'page' } }), bad), true)
  assert.equal(isNews(receipt(3, { verdict: { ...SILENT, state: 'unknown' } }), bad), true)
  assert.equal(isNews(receipt(3, { verdict: SILENT, actions: [ACTION] }), bad), true)
})

test('whatever runs there were, it is bounded, and ends with the last one that was news', (t) => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(HEALTHY, SILENT), { maxLength: 20 }), (verdicts) => {
      const p = tempPaths(t)
      let before: Receipt | undefined
      const news: number[] = []
      verdicts.forEach((verdict, n) => {
        const r = receipt(n, { verdict })
        if (isNews(r, before)) {
          news.push(n)
          keepReceipt(p, r)
        }
        before = r
      })
      assert.deepEqual(times(p), news.slice(-5))
    }),
    { numRuns: 30 },
  )
})
