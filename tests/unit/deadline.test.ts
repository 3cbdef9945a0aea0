import assert from 'node:assert/strict'
import test from 'node:test'
import { deadlineIn, until } from '../../lib/base/deadline.ts'

test('a deadline never has less than nothing left', () => {
  assert.equal(deadlineIn(-5).leftMs(), 0)
  const left = deadlineIn(60_000).leftMs()
  assert.ok(left > 0 && left <= 60_000, String(left))
})

const polls: [string, number, number, boolean, number][] = [
  ['at once, though no time is left', 1, 0, true, 1],
  ['after some polls', 4, 60_000, true, 4],
  ['not within the time, with a look at its end', 99, 0, false, 1],
]
for (const [name, holdsAt, ms, held, looks] of polls) {
  test(`until: ${name}`, async () => {
    for (const answer of [(v: boolean) => v, (v: boolean) => Promise.resolve(v)]) {
      let n = 0
      assert.equal(await until(() => answer(++n >= holdsAt), ms, 1), held)
      assert.equal(n, looks)
    }
  })
}

test('until: what throws ends the wait', async () => {
  await assert.rejects(
    until(() => Promise.reject(new Error('no')), 60_000, 1),
    /no/,
  )
})
