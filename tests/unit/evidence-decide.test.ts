import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { decide, phrase, readable } from '../../lib/evidence/decide.ts'
import type { Message } from '../../lib/evidence/message.ts'
import { unknownText } from '../../lib/evidence/report.ts'
import type { NodeFacts } from '../../lib/evidence/types.ts'
import { facts, NOW, not, receipt, saw } from '../kit/truth-model.ts'
import { EXPECTED, IS_UP, SHELLS, STATES } from '../kit/truth-table.ts'

const CDP: Message = { text: 'CDP unreachable on :9410', code: 'cdp-unreachable', layer: 'cdp' }
const EGRESS: Message = { text: 'egress down: x', code: 'egress-no-answer', layer: 'egress' }

describe('the truth table', () => {
  for (const state of STATES)
    for (const shell of SHELLS)
      it(`${state} seen by ${shell}: ${EXPECTED[state][shell]}`, () => {
        assert.equal(phrase(decide(facts(state, shell))), EXPECTED[state][shell])
      })

  it('no expected word is a lie', () => {
    for (const state of STATES)
      for (const shell of SHELLS) {
        const word = EXPECTED[state][shell]
        if (IS_UP[state]) assert.notEqual(word, 'STOPPED', `${state} ${shell}`)
        else assert.doesNotMatch(word, /^ACTIVE/, `${state} ${shell}`)
      }
  })
})

describe('what may be read over CDP', () => {
  const cases: [string, NodeFacts, string][] = [
    ['an answer', facts('healthy', 'user'), 'OK'],
    ['blind, and the host knows it works', facts('healthy', 'both'), 'BLIND'],
    ['blind, and nobody knows', facts('timer-disabled', 'both'), 'UNKNOWN'],
    ['blind, and the browser is gone', facts('dead', 'both'), 'DOWN'],
    ['the relay is down', facts('relay-down', 'user'), 'DOWN'],
    ['somebody else answers', facts('squatted-relay', 'root'), 'DOWN'],
    ['egress is down, CDP answers', facts('tunnel-cut', 'user'), 'OK'],
    ['egress is down, and nobody got to CDP behind it', facts('tunnel-cut', 'both'), 'UNKNOWN'],
    ['a frozen browser', facts('frozen', 'own-net'), 'DOWN'],
    ['paused and up', facts('paused', 'user'), 'OK'],
  ]
  for (const [name, f, word] of cases)
    it(`${name}: ${word}`, () => assert.equal(readable(f, decide(f)).word, word))
})

describe('what does not count', () => {
  const blind = facts('healthy', 'both')
  const withReceipt = (r: ReturnType<typeof receipt>): NodeFacts => ({
    ...blind,
    // Without systemd's record of the same runs: the receipts are all there is.
    units: not('no bus'),
    receipts: { ...blind.receipts, 'chromebox-watchdog': saw(r) },
  })
  const good = receipt('chromebox-watchdog')

  it('counts a good receipt at all', () => assert.equal(phrase(decide(withReceipt(good))), 'ACTIVE [*]'))

  const bad: [string, Partial<typeof good>, RegExp][] = [
    ['from another boot', { at: { ...good.at, bootId: 'other' } }, /another boot/],
    [
      'older than three periods',
      { at: { ...good.at, bootMs: NOW.bootMs - 361_000 }, nextDueBootMs: NOW.bootMs - 241_000 },
      /3 periods/,
    ],
    [
      'old, with a due time that stretches it',
      { at: { ...good.at, bootMs: NOW.bootMs - 361_000 }, nextDueBootMs: NOW.bootMs + 99_999_999 },
      /3 periods/,
    ],
    ['from the future', { at: { ...good.at, bootMs: NOW.bootMs + 11_000 } }, /future/],
    ['about another node', { node: 'pip' }, /another node/],
  ]
  for (const [name, over, why] of bad)
    it(`a receipt ${name}`, () => {
      const v = decide(withReceipt({ ...good, ...over }))
      assert.equal(v.word, 'UNKNOWN')
      assert.match(v.unknowns.map(unknownText).join('; '), why)
    })

  it('a receipt written before the node was started again', () => {
    assert.ok(blind.units.seen)
    const units = {
      ...blind.units.value,
      netns: { ...blind.units.value.netns, sinceBootMs: NOW.bootMs - 5000 },
    }
    const v = decide({ ...blind, units: saw(units) })
    assert.equal(v.word, 'UNKNOWN')
    assert.match(v.unknowns.map(unknownText).join('; '), /started again/)
  })

  it('a receipt written before the browser was started again', () => {
    assert.ok(blind.units.seen)
    const browser = { ...blind.units.value.browser, sinceBootMs: NOW.bootMs - 5000 }
    const v = decide({ ...blind, units: saw({ ...blind.units.value, browser }) })
    assert.equal(v.word, 'UNKNOWN')
  })

  it('a unit that never ran, for all its Result=success', () => {
    assert.ok(blind.units.seen)
    const never = { ended: false, exitBootMs: 0, status: 0, result: 'success' }
    const runs = { 'chromebox-watchdog': never, 'cdp-relay-watchdog': never, 'agent-health': never }
    const none = saw(undefined)
    const v = decide({
      ...blind,
      units: saw({ ...blind.units.value, runs }),
      receipts: { 'chromebox-watchdog': none, 'cdp-relay-watchdog': none, 'agent-health': none },
    })
    assert.equal(v.word, 'UNKNOWN')
  })
})

describe('the order of evidence', () => {
  const blind = facts('healthy', 'both')
  const none = saw(undefined)
  const noReceipts = { 'chromebox-watchdog': none, 'cdp-relay-watchdog': none, 'agent-health': none }

  it('the record of systemd speaks where no receipt does', () => {
    const v = decide({ ...blind, receipts: noReceipts })
    assert.equal(phrase(v), 'ACTIVE [*]')
    assert.equal(v.source, 'unit')
  })

  it('a later exit overrules the receipt of the run before', () => {
    assert.ok(blind.units.seen)
    const failed = { ended: true, exitBootMs: NOW.bootMs - 1000, status: 1, result: 'exit-code' }
    const runs = { ...blind.units.value.runs, 'chromebox-watchdog': failed }
    const v = decide({ ...blind, units: saw({ ...blind.units.value, runs }) })
    assert.equal(phrase(v), 'DEGRADED (layer not known)')
  })

  const ended: [string, { status: number; result: string }, RegExp | undefined][] = [
    [
      'a program that systemd cannot start',
      { status: 203, result: 'exit-code' },
      /cannot start its program, exit 203/,
    ],
    [
      'a refused configuration',
      { status: 78, result: 'exit-code' },
      /chromebox-watchdog could not look \(exit 78\)/,
    ],
    ['a run killed at its deadline', { status: 15, result: 'timeout' }, /cut short \(timeout\)/],
    ['a run that waited for no lock', { status: 75, result: 'success' }, undefined],
    ['a fault', { status: 1, result: 'exit-code' }, undefined],
  ]
  for (const [name, how, note] of ended)
    it(`${name}: ${note ? 'noted, and no verdict on the node' : 'no such note'}`, () => {
      assert.ok(blind.units.seen)
      const last = { ended: true, exitBootMs: NOW.bootMs - 1000, ...how }
      const runs = { ...blind.units.value.runs, 'chromebox-watchdog': last }
      const text = 'chromebox-watchdog@muse.service: Failed at step EXEC spawning it: Permission denied'
      const supervisor = 'chromebox-watchdog' as const
      const failed = {
        supervisor,
        endBootMs: NOW.bootMs - 999,
        outcome: 'failure' as const,
        failure: { text },
      }
      const told = note === undefined ? {} : { journal: saw({ runs: [failed] }) }
      const v = decide({ ...blind, ...told, units: saw({ ...blind.units.value, runs }) })
      if (note === undefined) return assert.doesNotMatch(v.notes.join(), /could not look|cut short/)
      assert.match(v.notes.join(), note)
      assert.equal(phrase(v), 'ACTIVE [*]')
    })

  it('a run that ended with "cannot tell" found no fault, also where its receipt tells it', () => {
    assert.ok(blind.units.seen)
    const endBootMs = NOW.bootMs - 1000
    const last = { ended: true, exitBootMs: endBootMs, status: 2, result: 'exit-code' }
    const runs = { ...blind.units.value.runs, 'chromebox-watchdog': last }
    const at = { ...receipt('chromebox-watchdog').at, bootMs: endBootMs - 100 }
    const told = receipt('chromebox-watchdog', undefined, { at })
    const failed = { supervisor: 'chromebox-watchdog' as const, endBootMs, outcome: 'failure' as const }
    const v = decide({
      ...blind,
      receipts: { ...blind.receipts, 'chromebox-watchdog': saw(told) },
      units: saw({ ...blind.units.value, runs }),
      journal: saw({ runs: [failed] }),
    })
    assert.equal(phrase(v), 'ACTIVE [*]')
  })

  it('a tunnel whose configuration was taken away under it is told beside an egress that nobody asks for', () => {
    const away = { configured: false, sinceBootMs: NOW.bootMs, source: 'live' } as const
    const v = decide({ ...facts('healthy', 'user'), tunnel: saw(away) })
    assert.match(v.notes.join(), /its tunnel runs without its configuration/)
    assert.doesNotMatch(decide(facts('healthy', 'user')).notes.join(), /tunnel/)
  })

  it('a loop that ended late, long after its receipt of this node, has looked at it', () => {
    assert.ok(blind.units.seen)
    const last = { ended: true, exitBootMs: NOW.bootMs - 1000, status: 2, result: 'exit-code' }
    const runs = { ...blind.units.value.runs, 'agent-health': last }
    const v = decide({ ...blind, units: saw({ ...blind.units.value, runs }) })
    assert.doesNotMatch(v.notes.join(), /could not look/)
    const without = { ...blind, receipts: noReceipts, units: saw({ ...blind.units.value, runs }) }
    assert.match(decide(without).notes.join(), /agent-health could not look \(exit 2\)/)
  })

  const run = (outcome: 'success' | 'failure' | 'locked', failure?: Message) => ({
    supervisor: 'chromebox-watchdog' as const,
    endBootMs: NOW.bootMs - 30_000,
    outcome,
    ...(failure ? { failure } : {}),
  })
  const fromJournal = (f: NodeFacts['journal']): NodeFacts => ({
    ...blind,
    receipts: { ...blind.receipts, 'chromebox-watchdog': none },
    units: not('no bus'),
    ...(f ? { journal: f } : {}),
  })
  const journal: [string, NodeFacts['journal'], string][] = [
    ['a run that succeeded', saw({ runs: [run('success')] }), 'ACTIVE [*]'],
    ['only a run that found the lock taken', saw({ runs: [run('locked')] }), 'UNKNOWN'],
    ['a run that failed', saw({ runs: [run('failure', CDP)] }), 'DEGRADED cdp'],
    [
      'a success among suppressed lines',
      saw({ runs: [run('success')], incomplete: 'suppressed' }),
      'UNKNOWN',
    ],
    [
      'a failure among suppressed lines',
      saw({ runs: [run('failure', EGRESS)], incomplete: 's' }),
      'DEGRADED egress',
    ],
    ['no journal', not('no journal files were found'), 'UNKNOWN'],
  ]
  for (const [name, j, word] of journal)
    it(`${name} in the journal: ${word}`, () => assert.equal(phrase(decide(fromJournal(j))), word))

  it('a failure line newer than a healthy receipt takes the trust away', () => {
    const line = {
      supervisor: 'chromebox-watchdog' as const,
      wallMs: NOW.wallMs - 5000,
      level: 'FAIL',
      ...CDP,
    }
    const v = decide({ ...blind, logs: saw([line]) })
    assert.equal(phrase(v), 'DEGRADED cdp')
    assert.equal(v.source, 'log')
  })

  it('a failure line older than the receipt does not', () => {
    const line = {
      supervisor: 'chromebox-watchdog' as const,
      wallMs: NOW.wallMs - 45_000,
      level: 'FAIL',
      ...CDP,
    }
    assert.equal(phrase(decide({ ...blind, logs: saw([line]) })), 'ACTIVE [*]')
  })

  it('the look at the namespace does not refute the finding about the veth', () => {
    const v = decide(facts('veth-lost', 'both'))
    assert.match(v.reason, /veth ve-1 has no/)
  })
})

describe('what stands beside the word', () => {
  it('an unarmed timer is noted on a node that is up', () => {
    const v = decide(facts('timer-disabled', 'user'))
    assert.match(v.notes.join('; '), /timer of chromebox-watchdog unarmed/)
  })
  it('a pause says what is beneath it', () => {
    const dead = facts('dead', 'user')
    const v = decide({ ...dead, intent: { by: 'ops', reason: 'x', untilWallMs: 0 } })
    assert.equal(v.word, 'PAUSED')
    assert.equal(v.beneath, 'STOPPED')
  })
  it('a hold does not hide a node that is up', () => {
    const v = decide({ ...facts('healthy', 'user'), held: saw(true) })
    assert.equal(v.word, 'ACTIVE')
    assert.match(v.notes.join('; '), /hold/)
  })
  it('evidence carries its age and source', () => {
    const v = decide(facts('healthy', 'both'))
    assert.equal(v.source, 'receipt')
    assert.ok(v.ageMs >= 40_000)
  })
})
