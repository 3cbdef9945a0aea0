import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type CircuitMemory, freshMemory } from '../../lib/api/circuit.ts'
import { DEFAULTS } from '../../lib/base/config.ts'
import type { Clocks } from '../../lib/base/damping.ts'
import { type Paths, statePath } from '../../lib/base/paths.ts'
import { seconds } from '../../lib/base/text.ts'
import type { Node, Now } from '../../lib/base/types.ts'
import { decide as decideWord } from '../../lib/evidence/decide.ts'
import { parseRuns } from '../../lib/evidence/journal.ts'
import { readMemory } from '../../lib/evidence/memory.ts'
import { Trust } from '../../lib/evidence/owner.ts'
import { readTunnel } from '../../lib/evidence/tunnel.ts'
import { readRun, readService } from '../../lib/evidence/units.ts'
import { dueText } from '../../lib/host/systemctl.ts'
import { parseTimer } from '../../lib/host/systemd.ts'
import { text } from '../../lib/report/codes.ts'
import { decidePage, type PageMemory } from '../../lib/report/page.ts'
import { type Intent, isPaused } from '../../lib/store/intent.ts'
import { writeState } from '../../lib/store/state.ts'
import { statusOf } from '../../lib/supervisors/agent-health/render.ts'
import { policyOf } from '../../lib/supervisors/agent-health/types.ts'
import { waitMs } from '../../lib/supervisors/cdp-relay-watchdog/decide.ts'
import { afterRestart, NO_MEMORY } from '../../lib/supervisors/cdp-relay-watchdog/memory.ts'
import { decide } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import { parseMemory } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Memory } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { look, memory, seen } from '../kit/chromebox-fixtures.ts'
import { tempPaths } from '../kit/temp.ts'
import { facts } from '../kit/truth-model.ts'

const MIN = 60_000
const HOUR = 60 * MIN
const DAY = 24 * HOUR
/** Minutes of a boot; the wall clock goes with it. */
const at = (min: number, bootId = 'a', wallMs = 1.8e12 + min * MIN): Now => ({
  wallMs,
  bootMs: min * MIN,
  bootId,
})
const muse = { name: 'muse' } as Node

/** What the screen says of the memory files. */
const screen = (p: Paths, now: Now) => readMemory(p, new Trust(p), 'muse', now, DEFAULTS)

describe('the circuit on the screen is the circuit of agent-health', () => {
  const opened = (openedAt: Now): CircuitMemory => ({ ...freshMemory, futile: 3, openedAt })
  const cases: [string, Now, Now, string][] = [
    ['just opened', at(100), at(101), 'circuit open, next probe in 29m'],
    ['its time is over', at(100), at(131), 'circuit half-open, next probe due'],
    ['a minute after a reboot a day later', at(100), at(1, 'b', 2e12), 'circuit open, next probe in 29m'],
    ['a reboot, and the time over', at(100), at(31, 'b'), 'circuit half-open, next probe due'],
    ['stamped ahead of the clock', at(1e6), at(50), 'circuit open, next probe in 30m'],
  ]
  for (const [name, openedAt, now, text] of cases)
    it(name, (t) => {
      const p = tempPaths(t)
      writeState(statePath(p, 'agent-health', 'muse'), opened(openedAt))
      assert.deepEqual(screen(p, now).memos, [text])
      const { circuit, nextProbeInMs } = statusOf(p, muse, now, policyOf(DEFAULTS))
      const due = nextProbeInMs === 0 ? 'due' : `in ${seconds(nextProbeInMs ?? -1)}`
      assert.equal(`circuit ${circuit}, next probe ${due}`, text)
    })
})

describe('the hold on the screen is the hold of the watchdog', () => {
  const ended = (min: number, over: Partial<Memory> = {}) =>
    memory({
      bootId: 'a',
      failures: 5,
      held: { sinceWallMs: at(min).wallMs },
      last: { startBootMs: at(min).bootMs - MIN, endBootMs: at(min).bootMs },
      ...over,
    })
  const { held: _, ...killed } = ended(100)
  const cases: [string, Memory, Now, string][] = [
    ['one minute', ended(100), at(101), 'held for 1m, next probe in 29m'],
    ['half an hour', ended(100), at(130), 'held for 30m, next probe due'],
    [
      'a lower layer failed since',
      ended(100, { lowerFault: 'egress' }),
      at(101),
      'held for 1m, next probe in 1m',
    ],
    ['the fifth attempt was killed in the middle', killed, at(101), 'held for 0s, next probe in 29m'],
    [
      'a reboot: the wait began with it',
      ended(100),
      at(5, 'b', at(110).wallMs),
      'held for 10m, next probe in 25m',
    ],
    ['stamped ahead of both clocks', ended(1e6), at(101), 'held for 0s, next probe in 30m'],
  ]
  for (const [name, m, now, text] of cases)
    it(name, (t) => {
      const p = tempPaths(t)
      writeState(statePath(p, 'chromebox-watchdog', 'muse'), m)
      assert.deepEqual(screen(p, now).memos, [text])
      assert.deepEqual(screen(p, now).held, { seen: true, value: true })
      const { guard, actions } = decide(seen(look(undefined)), parseMemory(m), now, DEFAULTS)
      const due = actions.length > 0 ? 'due' : `in ${seconds(guard?.eligibleInMs ?? -1)}`
      assert.equal(text.replace(/^.*, /, ''), `next probe ${due}`)
    })
})

it('a relay waits after a reboot as a browser does: from the boot on', () => {
  const relay = afterRestart(NO_MEMORY, false, at(100))
  const browser = memory({
    bootId: 'a',
    failures: 1,
    last: { startBootMs: at(99).bootMs, endBootMs: at(100).bootMs },
  })
  for (const now of [at(100), at(101), at(102), at(0, 'b'), at(1, 'b'), at(2, 'b'), at(50)]) {
    const { guard } = decide(seen(look(undefined)), browser, now, DEFAULTS)
    assert.equal(waitMs(relay, now, DEFAULTS), guard?.eligibleInMs ?? 0)
  }
  assert.equal(waitMs(relay, at(1, 'b'), DEFAULTS), MIN)
})

describe('after eight hours of sleep', () => {
  /** Up and awake for an hour, then asleep; a run had ended 50 s before that. */
  const SLEPT = 8 * HOUR
  const now: Clocks = { ...at(60 + 480), aheadMs: SLEPT }
  const ended = { monoMs: HOUR - 50_000, wallMs: at(60).wallMs - 50_000 }
  const show = (name: string, t: typeof ended) => ({
    [name]: new Date(t.wallMs).toISOString().replace(/(.*)T(.*)Z/, 'Fri $1 $2 UTC'),
    [`${name}Monotonic`]: String(t.monoMs * 1000),
  })
  const run = (t: typeof ended, clocks: Clocks) =>
    readRun({ Result: 'success', ExecMainStatus: '0', ...show('ExecMainExitTimestamp', t) }, clocks)
  const age = (t: typeof ended, clocks = now) => clocks.bootMs - run(t, clocks).exitBootMs

  it('a run that ended before is that much older', () => {
    assert.equal(age(ended), SLEPT + 50_000)
    const u = { ActiveState: 'active', ...show('ActiveEnterTimestamp', ended) }
    assert.equal(readService(u, now).sinceBootMs, now.bootMs - SLEPT - 50_000)
    const c = { ConditionResult: 'yes', ...show('ConditionTimestamp', ended) }
    assert.equal(readTunnel(c, now)?.sinceBootMs, now.bootMs - SLEPT - 50_000)
  })
  it('a run that ended after it is as young as it is', () =>
    assert.equal(age({ monoMs: HOUR - 20_000, wallMs: now.wallMs - 20_000 }), 20_000))
  it('the journal says the same', () => {
    const entry = {
      _UID: '0',
      _PID: '1',
      _BOOT_ID: now.bootId,
      UNIT: 'chromebox-watchdog@muse.service',
      MESSAGE_ID: '7ad2d189f7e94e70a38c781354912448',
      __MONOTONIC_TIMESTAMP: String(ended.monoMs * 1000),
      __REALTIME_TIMESTAMP: String(ended.wallMs * 1000),
    }
    const [found] = parseRuns(JSON.stringify(entry), ['muse'], now).get('muse')?.runs ?? []
    assert.equal(now.bootMs - (found?.endBootMs ?? 0), SLEPT + 50_000)
  })
  it('evidence from before it is history, and the word is UNKNOWN until the next run', () => {
    const known = facts('healthy', 'both')
    assert.ok(known.units.seen)
    const clocks = { ...now, bootId: known.now.bootId }
    const runs = { ...known.units.value.runs, 'chromebox-watchdog': run(ended, clocks) }
    const units = { seen: true, value: { ...known.units.value, runs } } as const
    assert.equal(decideWord({ ...known, now: clocks, units }).word, 'UNKNOWN')
  })
  it('a wall clock that was set moves a stamp by no more than the sleep, and without sleep not at all', () => {
    for (const wallMs of [0, at(60).wallMs, 9e12]) {
      const stepped = age(ended, { ...now, wallMs })
      assert.ok(stepped >= 50_000 && stepped <= SLEPT + 50_000)
      assert.equal(age(ended, { ...at(60), wallMs, aheadMs: 0 }), 50_000)
    }
  })
  it('a timer is due when its own clock says so', () => {
    const timer = parseTimer({
      LoadState: 'loaded',
      ActiveState: 'active',
      SubState: 'waiting',
      NextElapseUSecMonotonic: '1h 1min 10s',
    })
    assert.equal(dueText(timer, HOUR), 'armed, next in 1m 10s')
    assert.equal(dueText(timer, 2 * HOUR), 'armed, next in 0s')
  })
})

describe('after one boot with the clock far ahead', () => {
  const FAR = Date.UTC(2098, 0, 1)
  const page: PageMemory = { open: { since: at(1, 'a', FAR), lastPaged: at(1, 'a', FAR), reason: 'r' } }
  const repeated = (now: Now) => decidePage(page, { failing: true, reason: 'r' }, now, 4 * HOUR).say

  it('a standing page is repeated', () => {
    assert.equal(repeated(at(239, 'b')), undefined)
    assert.equal(repeated(at(240, 'b')), 'repeat')
  })
  it('a page stamped ahead of this boot counts from the next look on', () => {
    const before: PageMemory = { open: { since: at(1e6), lastPaged: at(1e6), reason: 'r' } }
    const event = { failing: true, reason: 'r' }
    const first = decidePage(before, event, at(10), 4 * HOUR)
    assert.equal(first.say, undefined)
    assert.equal(decidePage(first.memory, event, at(249), 4 * HOUR).say, undefined)
    assert.equal(decidePage(first.memory, event, at(250), 4 * HOUR).say, 'repeat')
  })
  it('a pause of 30 min ends at the latest 30 min after the next boot', () => {
    const since = at(10, 'a', FAR)
    const pause: Intent = {
      node: 'muse',
      kind: 'pause',
      reason: '',
      by: 'ann',
      since,
      untilBootMs: since.bootMs + 30 * MIN,
      untilWallMs: FAR + 30 * MIN,
    }
    assert.equal(isPaused(pause, at(29, 'b')), true)
    assert.equal(isPaused(pause, at(30, 'b')), false)
  })
  it('no browser waits longer than its wait', () => {
    const far = memory({ bootId: 'a', notBeforeBootMs: 60 * DAY })
    const now = at(10)
    const first = decide(seen(look(undefined)), far, now, DEFAULTS)
    assert.equal(first.guard?.text, text('cautious', { wait: '30m' }))
    assert.equal(first.guard?.eligibleInMs, DEFAULTS.backoffMaxMs)
    assert.equal(decide(seen(look(undefined)), first.memory, at(40), DEFAULTS).actions.length, 1)
    assert.equal(decide(seen(look(undefined)), far, at(30, 'b'), DEFAULTS).actions.length, 1)
  })
})
