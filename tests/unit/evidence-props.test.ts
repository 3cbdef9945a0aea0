import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { decide } from '../../lib/evidence/decide.ts'
import type { LiveFacts, NodeFacts } from '../../lib/evidence/types.ts'
import { blind, down, type Evidence, evidence, up, withLive } from '../kit/evidence-arbitrary.ts'
import { NOW } from '../kit/truth-model.ts'

const check = (e: fc.Arbitrary<Evidence>, judge: (e: Evidence) => void) =>
  fc.assert(fc.property(e, judge), { numRuns: 3000 })
const checkLive = (live: fc.Arbitrary<LiveFacts>, judge: (facts: NodeFacts) => void) =>
  fc.assert(
    fc.property(live, evidence, (l, e) => judge(withLive(l, e))),
    { numRuns: 3000 },
  )

describe('whatever the evidence says', () => {
  it('a node that is seen down is never ACTIVE', () => {
    checkLive(down, (facts) => assert.doesNotMatch(decide(facts).beneath, /^ACTIVE/))
  })

  it('a node that is seen up is never STOPPED, and never HELD DOWN without a fault', () => {
    checkLive(up, (facts) => {
      const v = decide(facts)
      assert.notEqual(v.beneath, 'STOPPED')
      if (v.beneath === 'HELD DOWN')
        assert.ok(v.layers.some((l) => l.state === 'fail') || /found a fault/.test(v.reason))
    })
  })

  it('STOPPED is said only of what is looked at now', () => {
    check(evidence, (e) => {
      const v = decide(withLive(blind, e))
      if (v.beneath === 'STOPPED') assert.ok(e.units.seen && !e.units.value.browser.active)
    })
  })

  it('without a live look there is no plain ACTIVE', () => {
    check(evidence, (e) => assert.notEqual(decide(withLive(blind, e)).beneath, 'ACTIVE'))
  })

  it('ACTIVE [*] needs a run of the watchdog that found no fault, of this boot, young enough, after the node’s start', () => {
    let said = 0
    const judge = (e: Evidence) => {
      const v = decide(withLive(blind, e))
      if (v.beneath !== 'ACTIVE [*]') return
      said++
      const started = e.units.seen ? (e.units.value.netns.sinceBootMs ?? 0) : 0
      const counts = (bootMs: number) => NOW.bootMs - bootMs <= 360_000 && bootMs >= started
      const r = e.receipts['chromebox-watchdog']
      const byReceipt =
        r.seen &&
        r.value !== undefined &&
        r.value.verdict.state !== 'unhealthy' &&
        r.value.node === 'muse' &&
        r.value.at.bootId === 'boot-now' &&
        counts(r.value.at.bootMs)
      const u = e.units.seen ? e.units.value.runs['chromebox-watchdog'] : undefined
      const byUnit = u?.ended === true && u.status === 0 && counts(u.exitBootMs)
      const j = e.journal.seen && e.journal.value.incomplete === undefined ? e.journal.value.runs : []
      const byJournal = j.some(
        (run) =>
          run.supervisor === 'chromebox-watchdog' && run.outcome === 'success' && counts(run.endBootMs),
      )
      assert.ok(byReceipt || byUnit || byJournal)
      if (e.units.seen) {
        assert.equal(e.units.value.timers['chromebox-watchdog'].state, 'armed')
        assert.ok(e.units.value.browser.active || e.units.value.browser.changing)
      }
    }
    // Such evidence is rare: some three thousand cases have none.
    for (let rounds = 0; rounds < 20 && said === 0; rounds++) check(evidence, judge)
    // A property about something that never happens would prove nothing.
    assert.ok(said > 0, 'the generator makes such evidence')
  })

  it('it always says why it does not know', () => {
    check(evidence, (e) => {
      const v = decide(withLive(blind, e))
      if (v.beneath === 'UNKNOWN') assert.notEqual(v.reason, '')
    })
  })
})
