import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { CircuitMemory } from '../../lib/api/circuit.ts'
import { cautiousMemory, circuitState, freshMemory, stepCircuit } from '../../lib/api/circuit.ts'
import { type Finding, judgeStatus, unknown } from '../../lib/api/judge.ts'
import type { Now } from '../../lib/base/types.ts'
import { decide } from '../../lib/supervisors/agent-health/decide.ts'
import type { Policy } from '../../lib/supervisors/agent-health/types.ts'

const policy: Policy = {
  strikeLimit: 2,
  strikeWindowMs: 900_000,
  futileLimit: 3,
  cooldownMs: 1_800_000,
  freshBrowserMs: 120_000,
  restartNeedsMs: 90_000,
}
const found: Record<'ok' | 'failure' | 'unknown', Finding> = {
  ok: judgeStatus(200),
  failure: judgeStatus(500),
  unknown: unknown('no-slot', 'no slot', 'cdp'),
}

type Op =
  | {
      op: 'run'
      dt: number
      finding: keyof typeof found
      outcome: 'helps' | 'futile' | 'dies'
      leftMs: number
    }
  | { op: 'browser-born' }
  | { op: 'age-unknown' }
  | { op: 'reboot' }
  | { op: 'wall'; by: number }
  | { op: 'corrupt' }

interface Kill {
  readonly atMs: number
  readonly circuit: string
  readonly browserAgeMs: number
  readonly run: number
}

/** A host with one node: plays the runs as lib/supervisors/agent-health/act.ts does, on a clock of its own. */
function play(ops: readonly Op[]) {
  let trueMs = 1e9
  let bootAt = 0
  let boots = 0
  let wall = 1e12
  let bornAt = 0
  let ageSeen = true
  let memory: CircuitMemory = freshMemory
  const kills: Kill[] = []
  const now = (): Now => ({ wallMs: wall, bootMs: trueMs - bootAt, bootId: `b${boots}` })
  ops.forEach((op, run) => {
    if (op.op === 'browser-born') bornAt = trueMs
    if (op.op === 'age-unknown') ageSeen = !ageSeen
    if (op.op === 'wall') wall += op.by
    if (op.op === 'corrupt') memory = cautiousMemory(now(), policy)
    if (op.op === 'reboot') {
      boots++
      bootAt = trueMs
      bornAt = trueMs
    }
    if (op.op !== 'run') return
    trueMs += op.dt
    wall += op.dt
    const d = decide(
      {
        node: { name: 'muse', apiCheck: '' },
        finding: found[op.finding],
        browserAgeMs: ageSeen ? { seen: true, value: trueMs - bornAt } : { seen: false, why: 'hidden' },
        evidence: [],
      },
      memory,
      now(),
      { ...policy, leftMs: op.leftMs },
    )
    const before = circuitState(d.memory, now(), policy)
    memory = d.memory
    if (d.actions.length === 0) return
    kills.push({ atMs: trueMs, circuit: before, browserAgeMs: trueMs - bornAt, run })
    memory = stepCircuit(memory, 'restart-started', now(), policy).memory
    trueMs += 10_000
    wall += 10_000
    bornAt = trueMs
    if (op.outcome === 'dies') return
    const result = op.outcome === 'helps' ? 'restart-helped' : 'restart-futile'
    memory = stepCircuit(memory, result, now(), policy).memory
  })
  return { kills, memory, now: now(), elapsedMs: trueMs - 1e9 }
}

const arbRun = fc.record({
  op: fc.constant('run' as const),
  dt: fc.oneof(fc.constantFrom(300_000, 15_000, 900_001), fc.integer({ min: 0, max: 3_000_000 })),
  finding: fc.constantFrom(
    'ok' as const,
    'failure' as const,
    'failure' as const,
    'failure' as const,
    'unknown' as const,
  ),
  outcome: fc.constantFrom('futile' as const, 'futile' as const, 'helps' as const, 'dies' as const),
  leftMs: fc.constantFrom(200_000, 200_000, 10_000),
})
const arbOp: fc.Arbitrary<Op> = fc.oneof(
  { weight: 12, arbitrary: arbRun },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'browser-born' }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'age-unknown' }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'reboot' }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: 'corrupt' }) },
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constant('wall' as const), by: fc.integer({ min: -1e10, max: 1e10 }) }),
  },
)
const arbOps = fc.array(arbOp, { maxLength: 120, size: 'max' })
const failing = (dt: number): Op => ({
  op: 'run',
  dt,
  finding: 'failure',
  outcome: 'futile',
  leftMs: 200_000,
})

describe('circuit: generated sequences', () => {
  it('never a kill while open, never of a fresh browser, never two in one run', () => {
    fc.assert(
      fc.property(arbOps, (ops) => {
        const { kills } = play(ops)
        for (const k of kills) {
          assert.notEqual(k.circuit, 'open')
          assert.ok(k.browserAgeMs >= policy.freshBrowserMs)
        }
        assert.equal(new Set(kills.map((k) => k.run)).size, kills.length)
      }),
      { numRuns: 500 },
    )
  })

  it('reboots, clock steps and lost memories never buy more kills than the breaker allows', () => {
    const broken = fc.array(
      arbOp.map((o) =>
        o.op === 'run'
          ? {
              ...o,
              finding: 'failure' as const,
              outcome: o.outcome === 'helps' ? ('dies' as const) : o.outcome,
            }
          : o,
      ),
      { maxLength: 120, size: 'max' },
    )
    fc.assert(
      fc.property(broken, (ops) => {
        const { kills, elapsedMs } = play(ops)
        assert.ok(kills.length <= policy.futileLimit + Math.floor(elapsedMs / policy.cooldownMs))
        for (let i = policy.futileLimit; i < kills.length; i++) {
          const gap = (kills[i]?.atMs ?? 0) - (kills[i - 1]?.atMs ?? 0)
          assert.ok(gap >= policy.cooldownMs, `kills ${i - 1} and ${i} are ${gap} ms apart`)
        }
      }),
      { numRuns: 500 },
    )
  })

  it('a wall-clock step changes no kill', () => {
    fc.assert(
      fc.property(arbOps, (ops) => {
        const still = ops.map((o) => (o.op === 'wall' ? { ...o, by: 0 } : o))
        assert.deepEqual(
          play(ops).kills.map((k) => k.atMs),
          play(still).kills.map((k) => k.atMs),
        )
      }),
      { numRuns: 300 },
    )
  })

  it('a lost memory never leads to a kill earlier than the whole cooldown', () => {
    fc.assert(
      fc.property(arbOps, fc.array(arbRun, { maxLength: 30 }), (ops, rest) => {
        const noSuccess = rest.map((r) => ({ ...r, finding: 'failure' as const }))
        const start = play([...ops, { op: 'corrupt' }])
        const after = play([...ops, { op: 'corrupt' }, ...noSuccess])
        const lost = ops.length
        for (const k of after.kills.filter((k) => k.run > lost)) {
          assert.ok(k.atMs - 1e9 - start.elapsedMs >= policy.cooldownMs)
        }
      }),
      { numRuns: 300 },
    )
  })

  it('never stuck open: whatever happened, failing runs get their probe within a cooldown, and a success closes', () => {
    fc.assert(
      fc.property(arbOps, (ops) => {
        const healed = play([...ops, { op: 'run', dt: 1, finding: 'ok', outcome: 'futile', leftMs: 0 }])
        assert.equal(circuitState(healed.memory, healed.now, policy), 'closed')
        const toggles = ops.filter((o) => o.op === 'age-unknown').length
        const seen: Op[] = toggles % 2 === 1 ? [...ops, { op: 'age-unknown' }] : [...ops]
        const more = Array.from({ length: 9 }, () => failing(300_000))
        const { kills } = play([...seen, ...more])
        assert.ok(
          kills.some((k) => k.run >= seen.length),
          'no restart within 45 minutes',
        )
      }),
      { numRuns: 500 },
    )
  })
})

describe('circuit: the futile loop of the field', () => {
  const day = Array.from({ length: 288 }, () => failing(300_000))

  it('24 h of a broken API: three restarts, then one per cooldown at most; then it heals and closes', () => {
    const { kills, memory, now } = play(day)
    const opened = (kills[2]?.atMs ?? 0) - 1e9
    assert.ok(opened <= 45 * 60_000, `the third restart came after ${opened} ms`)
    const gaps = kills.slice(3).map((k, i) => k.atMs - (kills[i + 2]?.atMs ?? 0))
    assert.ok(gaps.length > 0 && gaps.every((g) => g >= policy.cooldownMs))
    assert.ok(kills.slice(0, 3).every((k) => k.circuit === 'closed'))
    assert.ok(kills.slice(3).every((k) => k.circuit === 'half-open'))
    assert.notEqual(circuitState(memory, now, policy), 'closed')
    assert.equal(memory.trips.length, 1)

    const healed = play([
      ...day,
      { op: 'run', dt: 300_000, finding: 'ok', outcome: 'futile', leftMs: 200_000 },
    ])
    assert.deepEqual({ ...healed.memory, changedWallMs: 0, trips: [], reviews: [] }, { ...freshMemory })
  })

  it('an operator who watches: a run every 15 s costs no more', () => {
    const { kills } = play(Array.from({ length: 5760 }, () => failing(15_000)))
    assert.ok(kills.length <= 3 + 48, `${kills.length} restarts`)
    assert.ok(kills.slice(3).every((k) => k.circuit === 'half-open'))
  })
})
