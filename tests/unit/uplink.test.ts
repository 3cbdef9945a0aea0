import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { EgressAnswer } from '../../lib/egress/types.ts'
import { decideUplink } from '../../lib/egress/uplink.ts'
import { text } from '../../lib/report/codes.ts'

const LETTERS: Record<string, EgressAnswer> = { p: 'pass', f: 'fail', u: 'unknown' }
/** The other rows as letters: p passes, f fails, u could not be asked. */
function decide(others: string, host: EgressAnswer) {
  const rows = [...others].map((letter, i) => ({ node: `n${i}`, egress: LETTERS[letter] ?? 'unknown' }))
  return decideUplink({ self: 'fail', others: rows, host })
}

const TABLE: readonly [others: string, host: EgressAnswer, down: boolean, why: string][] = [
  ['', 'pass', false, 'one node alone, the host fine'],
  ['', 'fail', true, 'one node alone, and the host cannot get out either'],
  ['', 'unknown', false, 'one node alone, the host could not be asked'],
  ['f', 'pass', false, 'two of two are not three'],
  ['f', 'fail', true, 'nothing passes and the host fails'],
  ['fp', 'fail', false, 'the host fails, but a row passes: its way is not theirs'],
  ['ff', 'pass', true, 'three of three'],
  ['ffp', 'pass', true, 'three of four'],
  ['fppp', 'pass', false, 'two of five'],
  ['ffppp', 'pass', true, 'three of six are half'],
  ['fpppp', 'pass', false, 'two of six'],
  ['ffpppp', 'pass', false, 'three of seven are less than half'],
  ['fffpppp', 'pass', true, 'four of eight'],
  ['ffuuu', 'pass', true, 'unknown rows stay in the total: three of six'],
  ['fuuuu', 'pass', false, 'and are not counted as failing'],
  ['uu', 'fail', true, 'no row passes and the host fails'],
]
for (const [others, host, down, why] of TABLE) {
  test(`${why} → ${down ? 'uplink down' : 'this tunnel'}`, () => {
    const answer = decide(others, host)
    assert.equal(answer.down, down)
    assert.equal(answer.reason, down ? text('uplink-down') : '')
  })
}

test('the evidence counts and names', () => {
  assert.deepEqual(decide('fpf', 'pass').evidence, [
    'egress fails on 3 of 4 active nodes (also n0 n2)',
    "the host's own probe: pass",
  ])
})

const answer = fc.constantFrom<EgressAnswer>('pass', 'fail', 'unknown')
const rows = fc.array(answer, { maxLength: 40 })
const ask = (all: readonly EgressAnswer[], host: EgressAnswer) =>
  decideUplink({ self: 'fail', others: all.map((egress, i) => ({ node: `n${i}`, egress })), host }).down

test('the order of rows does not matter', () => {
  fc.assert(
    fc.property(rows, answer, (all, host) => assert.equal(ask(all, host), ask(all.toReversed(), host))),
  )
})

test('another row that passes never turns one tunnel into an uplink fault', () => {
  fc.assert(
    fc.property(rows, answer, (all, host) => assert.ok(ask(all, host) || !ask([...all, 'pass'], host))),
  )
})

test('one row more that fails never makes an uplink fault go away', () => {
  fc.assert(
    fc.property(rows, answer, (all, host) => assert.ok(!ask(all, host) || ask([...all, 'fail'], host))),
  )
})

test('two failing rows are never enough while the host passes', () => {
  const quiet = fc.array(fc.constantFrom<EgressAnswer>('pass', 'unknown'), { maxLength: 10 })
  fc.assert(fc.property(quiet, (all) => assert.equal(ask([...all, 'fail'], 'pass'), false)))
})
