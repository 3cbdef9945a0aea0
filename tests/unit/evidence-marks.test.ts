import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Layer, Node, Supervisor } from '../../lib/base/types.ts'
import { hostLine } from '../../lib/box/status.ts'
import { decide } from '../../lib/evidence/decide.ts'
import { liveMarks } from '../../lib/evidence/live-marks.ts'
import type { FactState, LayerKnowledge, LiveFacts, NodeFacts, TunnelFact } from '../../lib/evidence/types.ts'
import { blind, down, evidence, up, withLive } from '../kit/evidence-arbitrary.ts'
import { facts, NOW, not, receipt, SUPERVISORS, saw } from '../kit/truth-model.ts'

const LAYERS_OF: Record<Supervisor, readonly Layer[]> = {
  'chromebox-watchdog': ['netns', 'egress', 'process', 'cdp', 'page'],
  'cdp-relay-watchdog': ['netns', 'cdp', 'relay'],
  'agent-health': ['cdp', 'relay', 'api'],
}

const mark = (f: NodeFacts, layer: Layer): LayerKnowledge => {
  const k = decide(f).layers.find((l) => l.layer === layer)
  assert.ok(k)
  return k
}

/** Did somebody who may be believed see this layer well, at the time that the mark claims? */
function spoken(f: NodeFacts, k: LayerKnowledge): boolean {
  const at = NOW.bootMs - k.ageMs
  const when = (bootMs: number) => Math.max(0, NOW.bootMs - bootMs) === k.ageMs
  const told = (s: Supervisor) =>
    LAYERS_OF[s].includes(k.layer) &&
    (k.layer !== 'egress' || (f.tunnel.seen && f.tunnel.value.configured && f.tunnel.value.sinceBootMs <= at))
  switch (k.source) {
    case 'live':
      return liveMarks(f.live).some(
        (m) => m.state === 'ok' && (m.layer === k.layer || (k.layer === 'process' && m.layer === 'cdp')),
      )
    case 'receipt':
      return SUPERVISORS.some((s) => {
        const look = f.receipts[s]
        const r = look.seen ? look.value : undefined
        return (
          r?.at.bootId === NOW.bootId &&
          r.node === f.node &&
          when(r.at.bootMs) &&
          r.layers.some((m) => m.layer === k.layer && m.state === 'ok')
        )
      })
    case 'journal':
      return (
        f.journal?.seen === true &&
        f.journal.value.incomplete === undefined &&
        f.journal.value.runs.some((r) => r.outcome === 'success' && when(r.endBootMs) && told(r.supervisor))
      )
    case 'unit': {
      if (!f.units.seen) return false
      const { browser, runs } = f.units.value
      if (k.ageMs === 0 && k.layer === 'process' && browser.active) return true
      return SUPERVISORS.some((s) => {
        const run = runs[s]
        return run.ended && run.status === 0 && run.result === 'success' && when(run.exitBootMs) && told(s)
      })
    }
    default:
      return false
  }
}

const anyLive: fc.Arbitrary<LiveFacts> = fc.oneof(fc.constant(blind), up, down)
const anyFacts = fc.tuple(anyLive, evidence).map(([l, e]) => withLive(l, e))
const check = (judge: (f: NodeFacts) => void, seed?: number) =>
  fc.assert(fc.property(anyFacts, judge), { numRuns: 5000, ...(seed === undefined ? {} : { seed }) })

const uplinkOf = (f: NodeFacts) =>
  hostLine({
    at: NOW,
    sight: { processes: not('x'), absenceCounts: false, network: () => not('x'), blind: [] },
    judged: [{ node: { name: f.node } as Node, facts: f, verdict: decide(f) }],
  }).uplink

describe('a mark, whatever the evidence', () => {
  it('✓ needs somebody who saw that very layer well, no longer than three periods ago', () => {
    const seen = new Set<string>()
    const judge = (f: NodeFacts) => {
      for (const k of decide(f).layers) {
        if (k.state !== 'ok') continue
        seen.add(`${k.layer} ${k.source}`)
        assert.ok(spoken(f, k), `${k.layer} ✓ from ${k.source}, ${k.ageMs} ms ago`)
        assert.ok(k.ageMs <= 900_000)
      }
    }
    check(judge)
    // What is rare among any facts came among these.
    check(judge, 10)
    // A property about marks that are never given would prove nothing.
    for (const how of [
      'egress receipt',
      'egress unit',
      'egress journal',
      'api unit',
      'api journal',
      'relay live',
    ])
      assert.ok(seen.has(how), how)
  })

  it('without a tunnel egress is never ✓ and the uplink never ok, and before the first run it is –', () => {
    const states = new Set<FactState>()
    check((f) => {
      const g: NodeFacts = {
        ...f,
        tunnel: saw({ configured: false, sinceBootMs: NOW.bootMs, source: 'live' }),
      }
      const { state } = mark(g, 'egress')
      states.add(state)
      assert.notEqual(uplinkOf(g), 'ok')
    })
    assert.deepEqual([...states], ['absent'])
  })

  it('nobody says – of a tunnel whose configuration is there', () => {
    check((f) => {
      const g: NodeFacts = { ...f, tunnel: saw({ configured: true, sinceBootMs: 0, source: 'live' }) }
      assert.notEqual(mark(g, 'egress').state, 'absent')
    })
  })

  it('relay ✓ only from an answer while the netns fails', () => {
    check((f) => {
      if (mark(f, 'netns').state === 'fail' && mark(f, 'relay').state === 'ok')
        assert.equal(mark(f, 'relay').source, 'live')
    })
  })

  it('nothing that lives in a browser is ✓ from before its process failed', () => {
    check((f) => {
      const process = mark(f, 'process')
      for (const layer of ['cdp', 'page', 'api'] as const) {
        const k = mark(f, layer)
        if (process.state === 'fail' && k.state === 'ok' && k.source !== 'live')
          assert.ok(k.ageMs <= process.ageMs, layer)
      }
    })
  })

  it('a run within a pause vouches for nothing', () => {
    check((f) => {
      const g: NodeFacts = { ...f, pausedBootMs: { from: 0, until: NOW.bootMs + 60_000 } }
      for (const k of decide(g).layers)
        if (k.state === 'ok' && k.ageMs > 0) assert.equal(k.source, 'receipt', k.layer)
    })
  })
})

const none = saw(undefined)
const noReceipts = { 'chromebox-watchdog': none, 'cdp-relay-watchdog': none, 'agent-health': none }

describe('egress of a node without a tunnel', () => {
  const unitsOf = (f: NodeFacts, tunnel: TunnelFact | undefined): NodeFacts => {
    assert.ok(f.units.seen)
    const { tunnel: _, ...rest } = f.units.value
    return { ...f, units: saw(tunnel === undefined ? rest : { ...rest, tunnel }) }
  }
  const bare: TunnelFact = { configured: false, sinceBootMs: 1_200_000, source: 'unit' }
  const user = { ...unitsOf(facts('healthy', 'user'), bare), receipts: noReceipts }

  it('receipts that cannot be written, a run that ended well: – and not ✓', () => {
    assert.equal(mark(user, 'egress').state, 'absent')
    const blindUser = { ...unitsOf(facts('healthy', 'both'), bare), receipts: noReceipts }
    assert.equal(decide(blindUser).word, 'ACTIVE [*]')
    assert.equal(mark(blindUser, 'egress').state, 'absent')
  })
  it('before the first run: – for root and for a user alike', () => {
    assert.ok(user.units.seen)
    const never = { ended: false, exitBootMs: 0, status: 0, result: 'success' }
    const runs = { 'chromebox-watchdog': never, 'cdp-relay-watchdog': never, 'agent-health': never }
    const fresh = { ...user, units: saw({ ...user.units.value, runs }) }
    assert.equal(mark(fresh, 'egress').state, 'absent')
    const root = {
      ...fresh,
      tunnel: saw({ configured: false, sinceBootMs: NOW.bootMs, source: 'live' } as const),
    }
    assert.equal(mark(root, 'egress').state, 'absent')
  })
  it('only the journal is there: the node is up, and ? because nobody can tell', () => {
    const at = NOW.bootMs - 5000
    const runs = SUPERVISORS.map((supervisor) => ({ supervisor, endBootMs: at, outcome: 'success' }) as const)
    const f = {
      ...facts('healthy', 'both'),
      units: not('no bus'),
      receipts: noReceipts,
      journal: saw({ runs }),
    }
    assert.equal(decide(f).word, 'ACTIVE [*]')
    assert.equal(mark(f, 'egress').state, 'unknown')
    assert.equal(uplinkOf(f), 'unknown')
  })
  it('the receipt that saw it well stands beside such a run', () => {
    const run = {
      supervisor: 'chromebox-watchdog',
      endBootMs: NOW.bootMs - 5000,
      outcome: 'success',
    } as const
    const f = { ...facts('healthy', 'both'), units: not('no bus'), journal: saw({ runs: [run] }) }
    assert.deepEqual([mark(f, 'egress').state, mark(f, 'egress').source], ['ok', 'receipt'])
  })
  it('its tunnel’s unit was started with one, and who cannot see the file does not know: ?', () => {
    const started: TunnelFact = { configured: true, sinceBootMs: 1_200_000, source: 'unit' }
    const f = { ...unitsOf(facts('healthy', 'both'), started), receipts: noReceipts }
    assert.equal(decide(f).word, 'ACTIVE [*]')
    assert.equal(mark(f, 'egress').state, 'unknown')
    assert.equal(uplinkOf(f), 'unknown')
    const later: TunnelFact = { ...started, sinceBootMs: NOW.bootMs - 1000 }
    assert.equal(decide({ ...unitsOf(f, later), receipts: noReceipts }).word, 'UNKNOWN')
  })
  it('a tunnel that was configured after the last look is not known', () => {
    const r = receipt('chromebox-watchdog')
    const layers = r.layers.map((m) =>
      m.layer === 'egress' ? { ...m, state: 'not-configured' as const } : m,
    )
    const f: NodeFacts = {
      ...facts('healthy', 'root'),
      tunnel: saw({ configured: true, sinceBootMs: NOW.bootMs - 1000, source: 'live' }),
    }
    const g = { ...f, receipts: { ...f.receipts, 'chromebox-watchdog': saw({ ...r, layers }) } }
    assert.equal(mark(g, 'egress').state, 'unknown')
  })
})

describe('relay, when the way to it is gone', () => {
  it('the namespace’s end of the veth has lost its address: ? although its socket listens', () => {
    const f = facts('healthy', 'user')
    const cdp = saw({ kind: 'unreachable', detail: 'nobody at the relay’s address in 2000 ms' } as const)
    const g = { ...f, live: { ...f.live, cdp, page: not('no answer') } }
    assert.equal(decide(g).layer, 'netns')
    assert.equal(mark(g, 'relay').state, 'unknown')
    assert.match(mark(g, 'relay').note, /since netns failed/)
  })
})

describe('egress, when the tunnel does not run', () => {
  const stopped = (f: NodeFacts, agoMs: number): NodeFacts => {
    assert.ok(f.units.seen)
    const down = { text: 'inactive', sinceBootMs: NOW.bootMs - agoMs }
    const tunnel: TunnelFact = { configured: true, sinceBootMs: 1_200_000, source: 'unit', down }
    return { ...f, units: saw({ ...f.units.value, tunnel }) }
  }
  for (const shell of ['root', 'user', 'both'] as const)
    it(`stopped since the last run, seen by ${shell}`, () => {
      const f = stopped(facts('healthy', shell), 5000)
      const v = decide(f)
      assert.deepEqual([v.word, v.layer], ['DEGRADED', 'egress'])
      assert.equal(v.reason, 'egress down: netvm-tunnel@muse is inactive')
      assert.equal(uplinkOf(f), 'unknown')
      assert.equal(mark(f, 'api').state, 'unknown')
    })
  it('a run that looked since knows better', () => {
    assert.equal(mark(stopped(facts('healthy', 'user'), 60_000), 'egress').state, 'ok')
  })
  it('is no fault of a node whose configuration was taken away', () => {
    const f = stopped(facts('healthy', 'root'), 5000)
    const bare = {
      ...f,
      tunnel: saw({ configured: false, sinceBootMs: NOW.bootMs, source: 'live' } as const),
    }
    assert.equal(mark(bare, 'egress').state, 'absent')
    assert.equal(decide(bare).word, 'ACTIVE')
  })
})
