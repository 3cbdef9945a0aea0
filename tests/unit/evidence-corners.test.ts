import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Receipt } from '../../lib/base/types.ts'
import { decide, phrase, readable } from '../../lib/evidence/decide.ts'
import type { LiveFacts, NodeFacts, UnitFacts } from '../../lib/evidence/types.ts'
import { text } from '../../lib/report/codes.ts'
import { facts, MAIN, NOW, receipt, saw } from '../kit/truth-model.ts'

// Looks and evidence that contradict each other.
const user = facts('healthy', 'user')
const hidepid = facts('healthy', 'hidepid')
const blind = facts('healthy', 'both')

const live = (f: NodeFacts, over: Partial<LiveFacts>): NodeFacts => ({ ...f, live: { ...f.live, ...over } })
const units = (f: NodeFacts, over: Partial<UnitFacts>): NodeFacts => {
  assert.ok(f.units.seen)
  return { ...f, units: saw({ ...f.units.value, ...over }) }
}
const off = { active: false, changing: false, text: 'inactive' }
const withReceipt = (f: NodeFacts, r: Receipt): NodeFacts => ({
  ...f,
  receipts: { ...f.receipts, [r.supervisor]: saw(r) },
})
const word = (f: NodeFacts) => phrase(decide(f))

describe('an answer that cannot be the node’s', () => {
  it('without a browser in the process table', () => {
    const f = live(user, { process: saw(undefined) })
    assert.equal(word(f), 'DEGRADED process')
    assert.equal(readable(f, decide(f)).word, 'DOWN')
  })
  it('while the relay’s socket is gone', () => {
    const f = units(user, { relay: off })
    assert.equal(word(f), 'DEGRADED relay')
    assert.match(decide(f).reason, /not the relay answers/)
    assert.equal(readable(f, decide(f)).word, 'DOWN')
  })
  it('while the veth has no address here', () => {
    const f = live(user, { gateway: saw(false) })
    assert.equal(word(f), 'DEGRADED netns')
    assert.notEqual(decide(f).layers.find((l) => l.layer === 'cdp')?.source, 'live')
    assert.equal(readable(f, decide(f)).word, 'DOWN')
  })
})

describe('a namespace that lost its name', () => {
  const f = live(user, { netns: { name: 'warp-muse', look: saw({ exists: false, isNamespace: false }) } })
  it('is missing although its browser answers', () => {
    const v = decide(f)
    assert.equal(phrase(v), 'DEGRADED netns')
    assert.equal(v.reason, text('netns-missing', { netns: 'warp-muse' }))
    const mark = (layer: string) => v.layers.find((l) => l.layer === layer)
    assert.deepEqual(
      [mark('cdp')?.state, mark('relay')?.state, mark('egress')?.state],
      ['ok', 'ok', 'unknown'],
    )
    assert.equal(readable(f, v).word, 'OK')
  })
})

describe('a page that may be an error page', () => {
  const page = saw({ state: 'doubtful', detail: 'it does not answer' } as const)
  it('is not well, whatever the last run saw', () => {
    const v = decide(live(user, { page }))
    assert.equal(v.word, 'UNKNOWN')
    assert.match(v.reason, /may be the browser's error page/)
    assert.equal(v.layers.find((l) => l.layer === 'page')?.state, 'unknown')
  })
  it('hides no fault', () => {
    const gone = { ...live(user, { page, process: saw(undefined) }) }
    assert.equal(word(gone), 'DEGRADED process')
  })
})

describe('a look beats what systemd and the runs say', () => {
  it('a browser outside its unit that answers is up', () => {
    assert.equal(word(units(hidepid, { browser: off })), 'ACTIVE')
  })
  it('a browser that is stopped cannot answer, whatever the last run found', () => {
    const process = saw({ ...MAIN, state: 'T' })
    assert.equal(word(live(facts('healthy', 'own-net'), { process })), 'DEGRADED cdp')
  })
  it('a stopped one that answers all the same is up', () => {
    assert.equal(word(live(user, { process: saw({ ...MAIN, state: 'T' }) })), 'ACTIVE')
  })
})

describe('a look at one half does not refute a finding about the other', () => {
  it('the veth is there, the namespace is broken inside', () => {
    const broken = { layer: 'netns', reason: 'netns warp-muse missing' } as const
    const f = withReceipt(user, receipt('chromebox-watchdog', broken))
    assert.equal(word(live(f, { cdp: saw({ kind: 'refused' }) })), 'DEGRADED netns')
    // An answer all the way through does; what that run did not get to see is not known.
    assert.equal(word(f), 'UNKNOWN')
  })
  it('an answer does not bring the name of a namespace back', () => {
    const missing = { layer: 'netns', code: 'netns-missing', reason: 'netns warp-muse missing' } as const
    const f = withReceipt(user, receipt('chromebox-watchdog', missing))
    const unseen = { name: 'warp-muse', look: { seen: false, why: 'x' } } as const
    assert.equal(word(live(f, { netns: unseen })), 'DEGRADED netns')
    assert.equal(word(f), 'UNKNOWN')
  })
})

describe('evidence that says less than it seems to', () => {
  it('a run that could not tell is not healthy, whatever its marks', () => {
    const r = receipt('chromebox-watchdog')
    const v = { state: 'unknown', code: 'x', reason: 'ran out of time', evidence: [] } as const
    assert.equal(word(withReceipt(blind, { ...r, verdict: v })), 'UNKNOWN')
  })
  it('a run that failed at no layer of the path vouches for none, whatever its marks', () => {
    for (const layer of [undefined, 'registry'] as const) {
      const r = receipt('chromebox-watchdog')
      const verdict = {
        state: 'unhealthy',
        code: 'x',
        reason: 'r',
        evidence: [],
        ...(layer && { layer }),
      } as const
      assert.equal(word(withReceipt(blind, { ...r, verdict })), 'DEGRADED (layer not known)', layer)
    }
  })
  it('a browser that was started after the watchdog’s run, though another has seen it since', () => {
    const since = { active: true, changing: false, sinceBootMs: NOW.bootMs - 30_000, text: 'active' }
    const relay = receipt('cdp-relay-watchdog', undefined, { at: { ...NOW, bootMs: NOW.bootMs - 10_000 } })
    assert.equal(word(withReceipt(units(blind, { browser: since }), relay)), 'UNKNOWN')
  })
  it('a browser that is starting is not stopped', () => {
    const starting = { active: false, changing: true, text: 'activating' }
    assert.notEqual(decide(units(blind, { browser: starting })).word, 'STOPPED')
  })
  it('a fleet-wide run that failed says nothing of a node it does not name', () => {
    const run = {
      supervisor: 'cdp-relay-watchdog',
      endBootMs: NOW.bootMs - 1000,
      outcome: 'failure',
    } as const
    assert.equal(word({ ...blind, journal: saw({ runs: [run] }) }), 'ACTIVE [*]')
  })
})
