import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { receiptPath } from '../../lib/base/paths.ts'
import type { Receipt } from '../../lib/base/types.ts'
import { hostNamespaces, readReceipt, writeReceipt } from '../../lib/store/receipts.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { tempPaths } from '../kit/temp.ts'

const receipt: Receipt = {
  version: 1,
  supervisor: 'chromebox-watchdog',
  node: 'muse',
  verdict: {
    state: 'unhealthy',
    layer: 'cdp',
    code: 'cdp',
    reason: 'CDP unreachable on :9410',
    evidence: ['x'],
  },
  layers: [{ layer: 'netns', state: 'ok' }],
  actions: [{ kind: 'relaunch-browser', startedWallMs: 1, durationMs: 2, helped: true, detail: '' }],
  at: { wallMs: 3, bootMs: 4, bootId: 'b' },
  durationMs: 5,
  hostNs: { net: 6, pid: 7 },
  nextDueBootMs: 8,
  extra: { held: false },
}

test('a receipt is read back, and replaced by the next', (t) => {
  const p = tempPaths(t)
  writeReceipt(p, receipt)
  assert.deepEqual(readReceipt(p, 'chromebox-watchdog', 'muse'), { seen: true, value: receipt })
  writeReceipt(p, { ...receipt, durationMs: 9 })
  const look = readReceipt(p, 'chromebox-watchdog', 'muse')
  assert.equal(look.seen && look.value?.durationMs, 9)
  const path = receiptPath(p, 'chromebox-watchdog', 'muse')
  assert.equal(statSync(path).mode & 0o777, 0o644)
  assert.deepEqual(readdirSync(dirname(path)), ['muse.json'])
})

test('no receipt is something seen: there is none', (t) => {
  assert.deepEqual(readReceipt(tempPaths(t), 'agent-health', 'muse'), { seen: true, value: undefined })
})

const r = receipt as unknown as Record<string, unknown>
const BAD: [string, string, RegExp][] = [
  ['empty', '', /not JSON/],
  ['torn', JSON.stringify(receipt).slice(0, 80), /not JSON/],
  ['an array', '[]', /no receipt of/],
  ['another version', JSON.stringify({ ...r, version: 2 }), /no receipt of/],
  ['another node', JSON.stringify({ ...r, node: 'pip' }), /no receipt of/],
  ['another supervisor', JSON.stringify({ ...r, supervisor: 'agent-health' }), /no receipt of/],
  [
    'a state of its own',
    JSON.stringify({ ...r, verdict: { ...receipt.verdict, state: 'fine' } }),
    /no receipt of/,
  ],
  ['no layers', JSON.stringify({ ...r, layers: undefined }), /no receipt of/],
  ['actions are text', JSON.stringify({ ...r, actions: ['x'] }), /no receipt of/],
  [
    'evidence that is no text',
    JSON.stringify({ ...r, verdict: { ...receipt.verdict, evidence: [1] } }),
    /no receipt of/,
  ],
  [
    'a layer of its own',
    JSON.stringify({ ...r, verdict: { ...receipt.verdict, layer: 'x' } }),
    /no receipt of/,
  ],
  ['no time', JSON.stringify({ ...r, at: null }), /no receipt of/],
  ['namespaces are text', JSON.stringify({ ...r, hostNs: { net: '1', pid: 2 } }), /no receipt of/],
  ['no due time', JSON.stringify({ ...r, nextDueBootMs: undefined }), /no receipt of/],
  ['huge', ' '.repeat(300_000), /is no receipt$/],
]
for (const [what, text, why] of BAD) {
  test(`not believed: ${what}`, (t) => {
    const p = tempPaths(t)
    writeReceipt(p, receipt)
    writeFileSync(receiptPath(p, 'chromebox-watchdog', 'muse'), text)
    const look = readReceipt(p, 'chromebox-watchdog', 'muse')
    assert.equal(look.seen, false)
    assert.match(look.seen ? '' : look.why, why)
  })
}

test('a mark and an extra that nobody here knows are left out', (t) => {
  const p = tempPaths(t)
  writeReceipt(p, receipt)
  const path = receiptPath(p, 'chromebox-watchdog', 'muse')
  const layers = [{ layer: 'moon', state: 'ok' }, ...receipt.layers, { layer: 'cdp', state: 'odd' }]
  writeFileSync(path, JSON.stringify({ ...receipt, layers, extra: { held: false, list: [1] }, more: 1 }))
  assert.deepEqual(readReceipt(p, 'chromebox-watchdog', 'muse'), { seen: true, value: receipt })
})

test('what cannot be read was not seen', (t) => {
  const p = tempPaths(t)
  mkdirSync(receiptPath(p, 'agent-health', 'muse'), { recursive: true })
  assert.equal(readReceipt(p, 'agent-health', 'muse').seen, false)
})

test('on a real host only a root file that nobody else may write counts', {
  skip: needsRoot('owns the files'),
}, (t) => {
  const p = { ...tempPaths(t), root: '' }
  const path = receiptPath(p, 'chromebox-watchdog', 'muse')
  const seen = () => readReceipt(p, 'chromebox-watchdog', 'muse').seen
  writeReceipt(p, receipt)
  assert.equal(seen(), true)
  chmodSync(path, 0o664)
  assert.equal(seen(), false, 'group may write')
  chmodSync(path, 0o646)
  assert.equal(seen(), false, 'others may write')
  chmodSync(path, 0o644)
  chownSync(path, 65_534, 0)
  assert.equal(seen(), false, 'another owner')
})

test('hostNamespaces: our own inodes; 0 where they cannot be read', (t) => {
  const p = tempPaths(t)
  const own = { net: statSync('/proc/self/ns/net').ino, pid: statSync('/proc/self/ns/pid').ino }
  assert.deepEqual(hostNamespaces(p), own)
  assert.deepEqual(hostNamespaces({ ...p, proc: '/nonexistent' }), { net: 0, pid: 0 })
})
