import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Layer, Receipt, Supervisor } from '../../lib/base/types.ts'
import { decide, phrase } from '../../lib/evidence/decide.ts'
import type { Statement } from '../../lib/evidence/statements.ts'
import type { FactState, NodeFacts } from '../../lib/evidence/types.ts'
import { weigh } from '../../lib/evidence/weigh.ts'
import { facts, NOW, not, receipt, SUPERVISORS, saw } from '../kit/truth-model.ts'

// Whose word on a layer counts, whatever was said by whom and when.
const OWNER: Partial<Record<Layer, Supervisor>> = {
  egress: 'chromebox-watchdog',
  process: 'chromebox-watchdog',
  cdp: 'chromebox-watchdog',
  page: 'chromebox-watchdog',
  relay: 'cdp-relay-watchdog',
  api: 'agent-health',
}
const LAYERS = ['netns', 'egress', 'process', 'cdp', 'page', 'relay', 'api'] as const

const blind: NodeFacts = { ...facts('healthy', 'both'), units: not('no bus'), tunnel: not('EACCES') }

const statement = fc
  .record({
    supervisor: fc.constantFrom<Supervisor>(...SUPERVISORS),
    ageMs: fc.integer({ min: 0, max: 300_000 }),
    marks: fc.array(
      fc.tuple(
        fc.constantFrom(...LAYERS),
        fc.constantFrom<FactState>('ok', 'ok', 'fail', 'unknown', 'unknown', 'absent'),
      ),
      { minLength: 1, maxLength: 7 },
    ),
  })
  .map(
    ({ supervisor, ageMs, marks }): Statement => ({
      source: 'receipt',
      supervisor,
      atBootMs: NOW.bootMs - ageMs,
      marks: new Map(marks.map(([layer, state]) => [layer, { state, note: state }])),
      failedSomewhere: false,
      healthy: false,
    }),
  )
const sequence = fc
  .array(statement, { maxLength: 8 })
  .map((all) => all.sort((a, b) => a.atBootMs - b.atBootMs))

const known = (statements: readonly Statement[]) =>
  new Map(weigh(blind, { statements, unknowns: [] }).map((k) => [k.layer, k.state]))
const without = (all: readonly Statement[], gone: (layer: Layer, state: FactState) => boolean) =>
  all.map((s) => ({ ...s, marks: new Map([...s.marks].filter(([l, m]) => !gone(l, m.state))) }))
const check = (judge: (all: readonly Statement[]) => void) =>
  fc.assert(fc.property(sequence, judge), { numRuns: 10_000 })

describe('whatever was said, by whom and when', () => {
  it('an unknown never replaces what anybody saw', () => {
    check((all) => {
      const seen = known(without(all, (_, state) => state === 'unknown'))
      const now = known(all)
      for (const [layer, state] of seen)
        if (state !== 'unknown') assert.equal(now.get(layer), state, `${layer}`)
    })
  })

  it('what the owner saw failing last fails, whoever saw it well', () => {
    let said = 0
    check((all) => {
      const now = known(all)
      for (const [layer, owner] of Object.entries(OWNER) as [Layer, Supervisor][]) {
        const last = all.findLast(
          (s) => s.supervisor === owner && ['ok', 'fail', 'absent'].includes(s.marks.get(layer)?.state ?? ''),
        )
        if (last?.marks.get(layer)?.state !== 'fail') continue
        said++
        assert.equal(now.get(layer), 'fail', layer)
      }
    })
    assert.ok(said > 1000)
  })

  it('a fault that somebody saw after the owner saw it well is not hidden', () => {
    check((all) => {
      const last = all.at(-1)
      const now = known(all)
      for (const [layer, m] of last?.marks ?? [])
        if (m.state === 'fail') assert.equal(now.get(layer), 'fail', layer)
    })
  })

  it('another`s ok says nothing where the owner has spoken', () => {
    check((all) => {
      const now = known(all)
      for (const [layer, owner] of Object.entries(OWNER) as [Layer, Supervisor][]) {
        if (
          !all.some((s) => s.supervisor === owner && (s.marks.get(layer)?.state ?? 'unknown') !== 'unknown')
        )
          continue
        const others = without(all, () => false).map((s) =>
          s.supervisor !== owner && s.marks.get(layer)?.state === 'ok'
            ? { ...s, marks: new Map([...s.marks].filter(([l]) => l !== layer)) }
            : s,
        )
        const state = known(others).get(layer)
        // Taking an ok away may leave an older fault of the same supervisor as its last word.
        if (state !== 'fail') assert.equal(now.get(layer), state, layer)
      }
    })
  })

  it('one half of the namespace`s layer that is well does not refute the other that fails', () => {
    const at = (supervisor: Supervisor, ageMs: number, state: FactState): Statement => ({
      source: 'receipt',
      supervisor,
      atBootMs: NOW.bootMs - ageMs,
      marks: new Map([['netns', { state, note: '' }]]),
      failedSomewhere: false,
      healthy: false,
    })
    for (const [one, other] of [
      ['chromebox-watchdog', 'cdp-relay-watchdog'],
      ['cdp-relay-watchdog', 'chromebox-watchdog'],
    ] as const) {
      assert.equal(known([at(one, 900, 'fail'), at(other, 100, 'ok')]).get('netns'), 'fail')
      assert.equal(known([at(one, 900, 'fail'), at(one, 100, 'ok')]).get('netns'), 'unknown')
      assert.equal(known([at(one, 100, 'ok'), at(other, 100, 'ok')]).get('netns'), 'ok')
    }
  })
})

describe('a dead tunnel, after agent-health has run', () => {
  const api = (): Receipt => ({
    ...receipt('agent-health', undefined, { at: { ...NOW, bootMs: NOW.bootMs - 1000 } }),
    verdict: {
      state: 'unknown',
      layer: 'egress',
      code: 'egress-below',
      reason: 'api timeout, and the tunnel below it: egress down: no probe answered',
      evidence: [],
    },
    layers: [{ layer: 'egress', state: 'unknown' }],
  })
  for (const shell of ['root', 'user', 'own-pid', 'own-net', 'both', 'no-bus'] as const)
    it(`is DEGRADED egress, seen by ${shell}`, () => {
      const f = facts('tunnel-cut', shell)
      const g = { ...f, receipts: { ...f.receipts, 'agent-health': saw(api()) } }
      assert.equal(phrase(decide(g)), 'DEGRADED egress')
    })
})

describe('what agent-health met below the API', () => {
  const bootMs = NOW.bootMs - 1000
  const met = (below: Receipt['layers']): Receipt => ({
    ...receipt('agent-health', undefined, { at: { ...NOW, bootMs } }),
    verdict: { state: 'unknown', layer: 'egress', code: 'egress-below', reason: 'below', evidence: [] },
    layers: below,
  })
  const f = facts('healthy', 'root')
  const told = (r: Receipt) => decide({ ...f, receipts: { ...f.receipts, 'agent-health': saw(r) } })

  it('a tunnel that it looked at and saw failing fails, until the owner has looked again', () => {
    const dead = met([{ layer: 'egress', state: 'fail', code: 'egress-no-answer', note: 'down' }])
    assert.equal(phrase(told(dead)), 'DEGRADED egress')
    const later = receipt('chromebox-watchdog', undefined, { at: { ...NOW, bootMs: bootMs + 500 } })
    const again = { ...f.receipts, 'agent-health': saw(dead), 'chromebox-watchdog': saw(later) }
    assert.notEqual(phrase(decide({ ...f, receipts: again })), 'DEGRADED egress')
  })

  it('where it could not look, the API is not known for that reason', () => {
    assert.ok(f.units.seen)
    const browser = { ...f.units.value.browser, sinceBootMs: bootMs - 500 }
    const old = { ...f, units: saw({ ...f.units.value, browser }) }
    const r = met([{ layer: 'relay', state: 'unknown', code: 'api-unseen', note: 'the relay is away' }])
    const v = decide({ ...old, receipts: { ...old.receipts, 'agent-health': saw(r) } })
    assert.equal(v.layers.find((l) => l.layer === 'api')?.state, 'unknown')
    assert.match(v.reason, /the relay is away/)
  })
})

describe('a fault of the browser of before', () => {
  it('is void in the journal too', () => {
    const f = facts('healthy', 'root')
    assert.ok(f.units.seen)
    const units = { ...f.units.value, browser: { ...f.units.value.browser, sinceBootMs: NOW.bootMs - 1000 } }
    const run = (layer: 'api' | 'egress') => ({
      supervisor: layer === 'api' ? ('agent-health' as const) : ('chromebox-watchdog' as const),
      endBootMs: NOW.bootMs - 2000,
      outcome: 'failure' as const,
      failure: {
        text: 'it failed',
        layer,
        code: layer === 'api' ? ('api-timeout' as const) : ('egress-dns' as const),
      },
    })
    const state = (layer: 'api' | 'egress') =>
      decide({
        ...f,
        units: saw(units),
        journal: saw({ runs: [run(layer)] }),
      }).layers.find((l) => l.layer === layer)?.state
    assert.equal(state('api'), 'unknown')
    assert.notEqual(state('egress'), 'unknown')
  })
})
