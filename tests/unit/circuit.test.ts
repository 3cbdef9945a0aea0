import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { CircuitEvent, CircuitMemory, CircuitPolicy, Note } from '../../lib/api/circuit.ts'
import {
  cautiousMemory,
  circuitState,
  cooldownLeftMs,
  freshMemory,
  stepCircuit,
} from '../../lib/api/circuit.ts'
import type { Now } from '../../lib/base/types.ts'

const policy: CircuitPolicy = {
  strikeLimit: 2,
  strikeWindowMs: 900_000,
  futileLimit: 3,
  cooldownMs: 1_800_000,
}
const at = (s: number, bootId = 'a'): Now => ({ wallMs: 1e12 + s * 1000, bootMs: s * 1000, bootId })
const open = (s: number): CircuitMemory => ({ ...freshMemory, futile: 3, openedAt: at(s) })

function play(start: CircuitMemory, events: readonly [CircuitEvent, Now][]) {
  let memory = start
  const notes: Note[] = []
  let wants = false
  for (const [event, now] of events) {
    const step = stepCircuit(memory, event, now, policy)
    memory = step.memory
    wants = step.wantsRestart
    notes.push(...step.notes)
  }
  return { memory, wants, notes }
}

describe('circuit: strikes', () => {
  const cases: [string, [CircuitEvent, Now][], number, boolean][] = [
    ['one failure is one strike', [['failure', at(0)]], 1, false],
    [
      'two in a row want a restart',
      [
        ['failure', at(0)],
        ['failure', at(300)],
      ],
      2,
      true,
    ],
    [
      'fail, pass, fail is one strike',
      [
        ['failure', at(0)],
        ['ok', at(300)],
        ['failure', at(600)],
      ],
      1,
      false,
    ],
    [
      'an unknown in between neither counts nor clears',
      [
        ['failure', at(0)],
        ['unknown', at(300)],
        ['failure', at(600)],
      ],
      2,
      true,
    ],
    [
      'six hours apart is not consecutive',
      [
        ['failure', at(0)],
        ['failure', at(6 * 3600)],
      ],
      1,
      false,
    ],
    [
      'the window is three periods and includes its end',
      [
        ['failure', at(0)],
        ['failure', at(900)],
      ],
      2,
      true,
    ],
    [
      'just past the window starts over',
      [
        ['failure', at(0)],
        ['failure', at(901)],
      ],
      1,
      false,
    ],
    [
      'a reboot starts over',
      [
        ['failure', at(5000)],
        ['failure', at(60, 'b')],
      ],
      1,
      false,
    ],
    [
      'a stamp ahead of the clock starts over',
      [
        ['failure', at(5000)],
        ['failure', at(10)],
      ],
      1,
      false,
    ],
  ]
  for (const [name, events, strikes, wants] of cases) {
    it(name, () => {
      const r = play(freshMemory, events)
      assert.equal(r.memory.strikes, strikes)
      assert.equal(r.wants, wants)
    })
  }
})

describe('circuit: restarts', () => {
  const futileRound = (s: number): [CircuitEvent, Now][] => [
    ['failure', at(s)],
    ['failure', at(s + 300)],
    ['restart-started', at(s + 301)],
    ['restart-futile', at(s + 330)],
  ]

  it('a restart that helped leaves nothing behind', () => {
    const r = play(freshMemory, [...futileRound(0).slice(0, 3), ['restart-helped', at(340)]])
    assert.deepEqual(r.memory, freshMemory)
  })

  it('three futile restarts in a row trip it, and the cooldown counts from the failure', () => {
    const r = play(freshMemory, [...futileRound(0), ...futileRound(600), ...futileRound(1200)])
    assert.equal(circuitState(r.memory, at(1531), policy), 'open')
    assert.equal(cooldownLeftMs(r.memory, at(1530), policy), policy.cooldownMs)
    assert.deepEqual(
      r.notes.filter((n) => n !== 'struck'),
      ['futile', 'futile', 'futile', 'tripped'],
    )
    assert.equal(r.memory.trips.length, 1)
  })

  it('a success in between starts the futile count again', () => {
    const r = play(freshMemory, [
      ...futileRound(0),
      ...futileRound(600),
      ['ok', at(1100)],
      ...futileRound(1200),
    ])
    assert.equal(r.memory.futile, 1)
    assert.equal(circuitState(r.memory, at(1600), policy), 'closed')
  })

  it('a run that died after recording its third restart finds the circuit open, and tells it once', () => {
    const died = play(freshMemory, [...futileRound(0), ...futileRound(600), ...futileRound(1200).slice(0, 3)])
    assert.equal(circuitState(died.memory, at(1600), policy), 'open')
    const next = play(died.memory, [
      ['failure', at(1800)],
      ['failure', at(2100)],
    ])
    assert.equal(next.wants, false)
    assert.deepEqual(next.notes, ['futile', 'tripped'])
    assert.equal(next.memory.openedAt?.bootMs, 1_501_000)
  })
})

describe('circuit: open and half-open', () => {
  it('open: failures change nothing, a success closes', () => {
    const r = play(open(0), [
      ['failure', at(300)],
      ['failure', at(600)],
    ])
    assert.deepEqual([r.memory, r.wants], [open(0), false])
    assert.equal(play(open(0), [['ok', at(300)]]).memory.openedAt, null)
  })

  it('open becomes half-open exactly when the cooldown has passed', () => {
    assert.equal(circuitState(open(0), at(1799), policy), 'open')
    assert.equal(circuitState(open(0), at(1800), policy), 'half-open')
  })

  it('half-open: one failure wants a restart; failing again opens for a whole cooldown', () => {
    const r = play(open(0), [['failure', at(1800)]])
    assert.equal(r.wants, true)
    const begun = play(r.memory, [['restart-started', at(1801)]])
    assert.equal(circuitState(begun.memory, at(1802), policy), 'open')
    const failed = play(begun.memory, [['restart-futile', at(1860)]])
    assert.equal(cooldownLeftMs(failed.memory, at(1860), policy), policy.cooldownMs)
    assert.deepEqual(failed.notes, ['futile', 'reopened'])
    assert.equal(failed.memory.trips.length, 0)
  })

  it('a probe that died half-open is an open circuit, which expires', () => {
    const died = play(open(0), [
      ['failure', at(1800)],
      ['restart-started', at(1801)],
    ])
    const settled = play(died.memory, [['failure', at(2100)]])
    assert.equal(settled.wants, false)
    assert.deepEqual(settled.notes, ['futile', 'reopened'])
    assert.equal(play(settled.memory, [['failure', at(3601)]]).wants, true)
  })

  it('a success at the first half-open look closes and asks for a review (D4)', () => {
    const r = play(open(0), [['ok', at(1800)]])
    assert.deepEqual(r.notes, ['closed', 'well-after-cooldown'])
    assert.deepEqual(r.memory.reviews, [{ kind: 'well-after-cooldown', wallMs: at(1800).wallMs }])
  })

  it('a reset before the cooldown ended asks for a review, a later one does not', () => {
    assert.deepEqual(play(open(0), [['reset', at(900)]]).notes, ['closed', 'reset-early'])
    assert.deepEqual(play(open(0), [['reset', at(1900)]]).notes, ['closed'])
    assert.deepEqual(play({ ...freshMemory, strikes: 1, lastStrike: at(1) }, [['reset', at(2)]]).memory, {
      ...freshMemory,
    })
  })

  it('the third trip within a week asks for a review; old ones are forgotten', () => {
    const week = 7 * 24 * 3600
    const trips = (days: readonly number[]) => days.map((d) => at(d * 86_400).wallMs)
    const tripping: CircuitMemory = { ...freshMemory, futile: 3, openedAt: at(week), pending: 'trip' }
    const touchy = play({ ...tripping, trips: trips([1, 2]) }, [['restart-futile', at(week)]])
    assert.deepEqual(touchy.notes, ['futile', 'tripped', 'trips-often'])
    const calm = play({ ...tripping, trips: trips([-3, -1, 2]) }, [['restart-futile', at(week)]])
    assert.deepEqual(calm.notes, ['futile', 'tripped'])
    assert.equal(calm.memory.trips.length, 2)
  })
})

describe('circuit: clocks', () => {
  it('across a reboot only the time since boot has certainly passed', () => {
    assert.equal(cooldownLeftMs(open(90_000), at(60, 'b'), policy), policy.cooldownMs - 60_000)
    assert.equal(circuitState(open(90_000), at(60, 'b'), policy), 'open')
    assert.equal(circuitState(open(90_000), at(1800, 'b'), policy), 'half-open')
  })

  it('a wall-clock step decides nothing', () => {
    const later = { ...at(300), wallMs: at(300).wallMs + 1e10 }
    assert.equal(circuitState(open(0), later, policy), 'open')
  })

  it('an opening stamped ahead of the clock counts from now: a whole cooldown, and not for ever', () => {
    const r = play(open(1e9), [['failure', at(100)]])
    assert.equal(r.wants, false)
    assert.equal(circuitState(r.memory, at(1900), policy), 'half-open')
  })

  it('a lost memory is an open circuit with the whole cooldown ahead', () => {
    const lost = cautiousMemory(at(500), policy)
    assert.equal(cooldownLeftMs(lost, at(500), policy), policy.cooldownMs)
    assert.equal(play(lost, [['failure', at(2299)]]).wants, false)
    assert.equal(play(lost, [['failure', at(2300)]]).wants, true)
  })
})
