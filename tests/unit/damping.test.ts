import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  anchoredMs,
  backoffMs,
  bootTimeMs,
  type Clocks,
  certainMs,
  elapsedMs,
  isAhead,
  notAhead,
  waitLeftMs,
} from '../../lib/base/damping.ts'
import type { Now } from '../../lib/base/types.ts'

const then: Now = { wallMs: 1_000_000, bootMs: 50_000, bootId: 'a' }
const later = (over: Partial<Now>): Now => ({ wallMs: 1_010_000, bootMs: 60_000, bootId: 'a', ...over })

describe('what has passed', () => {
  const cases: [string, Now, { certain: number; elapsed: number }][] = [
    ['within a boot', later({}), { certain: 10_000, elapsed: 10_000 }],
    ['the wall clock stepped back', later({ wallMs: 0 }), { certain: 10_000, elapsed: 10_000 }],
    ['the wall clock stepped forward', later({ wallMs: 4e12 }), { certain: 10_000, elapsed: 10_000 }],
    ['the stamp is ahead', later({ bootMs: 10 }), { certain: 0, elapsed: 0 }],
    ['a reboot', later({ bootId: 'b', bootMs: 3_000 }), { certain: 3_000, elapsed: 10_000 }],
    ['this boot is not known', later({ bootId: '' }), { certain: 0, elapsed: 10_000 }],
    [
      'this boot is not known, and the stamp ahead',
      later({ bootId: '', wallMs: 5 }),
      { certain: 0, elapsed: 0 },
    ],
    [
      'a reboot, the stamp ahead of the wall clock',
      later({ bootId: 'b', wallMs: 5 }),
      { certain: 60_000, elapsed: 60_000 },
    ],
  ]
  for (const [what, now, expected] of cases)
    it(what, () => {
      assert.deepEqual({ certain: certainMs(then, now), elapsed: elapsedMs(then, now) }, expected)
      assert.equal(now.bootMs - anchoredMs(then, now), expected.certain)
    })
})

it('back-off: none, doubling, the maximum, and no overflow', () => {
  const policy = { backoffBaseMs: 120_000, backoffMaxMs: 1_800_000 }
  const waits = [-1, 0, 1, 2, 3, 4, 5, 6, 5000].map((n) => backoffMs(n, policy) / 1000)
  assert.deepEqual(waits, [0, 0, 120, 240, 480, 960, 1800, 1800, 1800])
})

/** A machine that sleeps, reboots and has its wall clock set; `trueMs` is what really passes. */
const step = fc.oneof(
  fc.record({ kind: fc.constant('run' as const), ms: fc.nat(4_000_000) }),
  fc.record({ kind: fc.constant('sleep' as const), ms: fc.nat(40_000_000) }),
  fc.record({ kind: fc.constant('step' as const), ms: fc.integer({ min: -3e12, max: 3e12 }) }),
  fc.record({ kind: fc.constant('reboot' as const), ms: fc.nat(600_000) }),
)

interface Instant extends Clocks {
  readonly trueMs: number
}

function* play(steps: readonly { kind: string; ms: number }[]): Generator<Instant> {
  let [trueMs, wallMs, bootMs, aheadMs, boots] = [0, 1.8e12, 0, 0, 0]
  const instant = () => ({ trueMs, wallMs, bootMs, aheadMs, bootId: `boot-${boots}` })
  yield instant()
  for (const { kind, ms } of steps) {
    wallMs += ms
    if (kind !== 'step') {
      trueMs += ms
      bootMs += ms
    }
    if (kind === 'sleep') aheadMs += ms
    if (kind === 'reboot') {
      boots++
      bootMs = 0
      aheadMs = 0
    }
    yield instant()
  }
}

const steps = fc.array(step, { minLength: 1, maxLength: 12 })
const runs = { numRuns: 2000 }

describe('over any sleeps, reboots and steps of the wall clock', () => {
  it('certain is at least nothing and at most the truth, goes only up within a boot, and a whole boot is enough', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const [began, ...rest] = [...play(list)] as [Instant, ...Instant[]]
        let before = began
        for (const now of rest) {
          const certain = certainMs(began, now)
          assert.ok(certain >= 0 && certain <= now.trueMs - began.trueMs)
          if (now.bootId === before.bootId) assert.ok(certain >= certainMs(began, before))
          if (now.bootId !== began.bootId) assert.equal(certain, now.bootMs)
          before = now
        }
      }),
      runs,
    )
  })

  it('elapsed is never less than certain; it is the truth while nobody sets the wall clock', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const [began, ...rest] = [...play(list)] as [Instant, ...Instant[]]
        for (const now of rest) assert.ok(elapsedMs(began, now) >= certainMs(began, now))
        const [calm, ...after] = [...play(list.filter((s) => s.kind !== 'step'))] as [Instant, ...Instant[]]
        for (const now of after) assert.equal(elapsedMs(calm, now), now.trueMs - calm.trueMs)
      }),
      runs,
    )
  })

  it('a wait ends: never negative, never longer than itself, never before its time', () => {
    const wait = fc.nat(5_000_000)
    const stamp = fc.record({
      bootMs: fc.integer({ min: -1e12, max: 1e12 }),
      bootId: fc.constantFrom('boot-0', 'x', ''),
    })
    fc.assert(
      fc.property(steps, wait, stamp, (list, waitMs, nonsense) => {
        const all = [...play(list)]
        const [began] = all as [Instant]
        for (const now of all) {
          const left = waitLeftMs(began, waitMs, now)
          assert.ok(left >= 0 && left <= waitMs)
          if (left === 0) assert.ok(now.trueMs - began.trueMs >= waitMs)
          const any = waitLeftMs(nonsense, waitMs, now)
          assert.ok(any >= 0 && any <= waitMs)
          // What is written anew is over after the wait, however far ahead it was.
          const anew = notAhead(nonsense, now)
          assert.ok(!isAhead(anew, now))
          assert.equal(waitLeftMs(anew, waitMs, { ...now, bootMs: now.bootMs + waitMs }), 0)
        }
      }),
      runs,
    )
  })

  it('a moment on the monotonic clock: exact while nobody sets the wall clock, never younger than it can be, nor older', () => {
    fc.assert(
      fc.property(steps, fc.nat(12), fc.nat(10), (list, pick, back) => {
        for (const calm of [true, false]) {
          const all = [...play(calm ? list.filter((s) => s.kind !== 'step') : list)]
          const stamp = all[Math.min(pick, all.length - 1)] as Instant
          for (const now of all.slice(all.indexOf(stamp))) {
            if (now.bootId !== stamp.bootId) continue
            const monoMs = stamp.bootMs - stamp.aheadMs
            const got = bootTimeMs({ monoMs, wallMs: stamp.wallMs }, now)
            if (calm || now.aheadMs === 0) assert.equal(got, stamp.bootMs)
            const awakeMs = now.bootMs - now.aheadMs - monoMs
            for (const at of [got, bootTimeMs({ monoMs }, now), bootTimeMs({ monoMs, wallMs: back }, now)])
              assert.ok(now.bootMs - at >= awakeMs && now.bootMs - at <= awakeMs + now.aheadMs)
          }
        }
      }),
      runs,
    )
  })
})

it('where the uptime is another machine’s, monotonic stamps are shifted by it', () => {
  const now: Clocks = { wallMs: 1e12, bootMs: 10_000, bootId: 'a', aheadMs: -90_000 }
  assert.equal(bootTimeMs({ monoMs: 99_000, wallMs: 5 }, now), 9_000)
})
