import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { now } from '../../lib/base/clock.ts'
import { intentPath } from '../../lib/base/paths.ts'
import type { Now } from '../../lib/base/types.ts'
import { type Intent, isPaused, readIntent } from '../../lib/store/intent.ts'
import { writeState } from '../../lib/store/state.ts'
import { tempPaths } from '../kit/temp.ts'

const since: Now = { wallMs: 1_000_000, bootMs: 10_000, bootId: 'a' }
const intent: Intent = {
  node: 'muse',
  kind: 'pause',
  reason: 'login by hand',
  by: 'ann',
  since,
  untilBootMs: 70_000,
  untilWallMs: 1_060_000,
}

const PAUSED: [string, Intent | undefined, Now, boolean][] = [
  ['no intent', undefined, since, false],
  ['just begun', intent, since, true],
  ['one millisecond before its end', intent, { wallMs: 0, bootMs: 69_999, bootId: 'a' }, true],
  ['at its end', intent, { wallMs: 0, bootMs: 70_000, bootId: 'a' }, false],
  ['the wall clock stepped past its end', intent, { wallMs: 9e12, bootMs: 20_000, bootId: 'a' }, true],
  ['rebooted within it', intent, { wallMs: 1_059_999, bootMs: 20_000, bootId: 'b' }, true],
  ['rebooted past it', intent, { wallMs: 1_060_000, bootMs: 1, bootId: 'b' }, false],
]
const { untilBootMs: _, ...noBoot } = intent
PAUSED.push([
  'without a boot time: its length by the wall clock',
  noBoot,
  { wallMs: 1_060_001, bootMs: 70_001, bootId: 'a' },
  false,
])
for (const [what, i, at, expected] of PAUSED) {
  test(`isPaused: ${what}`, () => assert.equal(isPaused(i, at), expected))
}

test('an intent is read back; without one there is none', (t) => {
  const p = tempPaths(t)
  assert.deepEqual(readIntent(p, 'muse'), {})
  writeState(intentPath(p, 'muse'), intent)
  assert.deepEqual(readIntent(p, 'muse'), { intent })
  writeState(intentPath(p, 'muse'), { ...noBoot, reason: 'a\u001b[2Jb' })
  assert.deepEqual(readIntent(p, 'muse'), { intent: { ...noBoot, reason: 'ab' } })
})

const BAD: [string, object][] = [
  ['another node', { ...intent, node: 'pip' }],
  ['another kind', { ...intent, kind: 'stop' }],
  ['no end', { ...intent, untilWallMs: undefined }],
  ['an end without end', { ...intent, untilBootMs: 'never' }],
  ['no beginning', { ...intent, since: undefined }],
  ['no reason', { ...intent, reason: 5 }],
]
for (const [what, value] of BAD) {
  test(`a corrupt record (${what}) pauses for an hour, once, and is reported`, (t) => {
    const p = tempPaths(t)
    writeState(intentPath(p, 'muse'), value)
    const first = readIntent(p, 'muse')
    assert.ok(first.corrupt !== undefined && existsSync(first.corrupt.keptAs))
    const at = now(p)
    assert.equal(isPaused(first.intent, at), true)
    assert.equal(isPaused(first.intent, { ...at, bootMs: at.bootMs + 3_600_001 }), false)
    const second = readIntent(p, 'muse')
    assert.equal(second.corrupt, undefined)
    assert.deepEqual(second.intent, first.intent, 'the pause does not begin anew at every run')
  })
}

test('an empty record is corrupt too', (t) => {
  const p = tempPaths(t)
  writeState(intentPath(p, 'muse'), {})
  writeFileSync(intentPath(p, 'muse'), '')
  assert.match(readIntent(p, 'muse').corrupt?.why ?? '', /empty/)
})
