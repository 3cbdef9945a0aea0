import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as tick } from 'node:timers/promises'
import fc from 'fast-check'
import { makeGate, mapBounded } from '../../lib/base/bounded.ts'

test('results keep the order, and no more than the limit run at once', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(3), { maxLength: 30 }),
      fc.integer({ min: 1, max: 8 }),
      async (waits, limit) => {
        let running = 0
        let most = 0
        const out = await mapBounded(waits, limit, async (wait, i) => {
          most = Math.max(most, ++running)
          for (let k = 0; k < wait; k++) await tick()
          running--
          return i
        })
        assert.deepEqual(
          out,
          waits.map((_, i) => i),
        )
        assert.ok(most <= limit)
        // Side by side, and not one after the other, as soon as there is something to wait for.
        if (waits.length >= limit && waits.slice(0, limit).every((w) => w > 0)) assert.equal(most, limit)
      },
    ),
    { numRuns: 50 },
  )
})

test('a rejection starts nothing more, and waits for what runs', async () => {
  const started: number[] = []
  let finished = 0
  const work = mapBounded([0, 1, 2, 3, 4], 2, async (i) => {
    started.push(i)
    if (i === 0) throw new Error('first')
    await tick()
    finished++
  })
  await assert.rejects(work, /first/)
  assert.deepEqual(started, [0, 1])
  assert.equal(finished, 1)
})

test('no items, and a limit below one', async () => {
  assert.deepEqual(await mapBounded([], 4, async (x) => x), [])
  assert.deepEqual(await mapBounded([1, 2], 0, async (x) => x * 2), [2, 4])
})

test('a gate lets so many run at once, in order, and a failure frees its place', async () => {
  const gate = makeGate(2)
  let running = 0
  let most = 0
  const order: number[] = []
  const jobs = Array.from({ length: 9 }, (_, i) =>
    gate(async () => {
      most = Math.max(most, ++running)
      order.push(i)
      await new Promise((r) => setImmediate(r))
      running--
      if (i === 3) throw new Error('three')
    }),
  )
  const ends = await Promise.allSettled(jobs)
  assert.deepEqual([most, order], [2, [0, 1, 2, 3, 4, 5, 6, 7, 8]])
  assert.deepEqual(
    ends.flatMap((e, i) => (e.status === 'rejected' ? [i] : [])),
    [3],
  )
})
