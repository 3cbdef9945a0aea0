import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { backoffMs } from '../../lib/base/damping.ts'
import { decide } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import {
  beginAttempt,
  cautiousMemory,
  emptyMemory,
  endAttempt,
  parseMemory,
  releaseMemory,
} from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Memory, Observation } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { at, gone, look, policy, seen, silent, squatted } from '../kit/chromebox-fixtures.ts'

const unseen = { process: { seen: false, why: 'hidepid' }, elsewhere: [] } as const
const looks: Record<string, Observation> = {
  healthy: seen(look(500)),
  'no-process': seen(look(undefined)),
  silent: seen(look(500, silent)),
  'page gone': seen(look(500, undefined, gone)),
  young: seen(look(30, silent)),
  squatted: seen(look(500, squatted)),
  unseen: seen(unseen),
  'netns gone': seen(look(undefined), {
    netns: { seen: true, value: { exists: false, isNamespace: false } },
  }),
  'egress down': seen(look(undefined), {
    egress: {
      state: 'unhealthy',
      code: 'egress-no-answer',
      reason: 'egress down: x',
      evidence: [],
      repair: true,
    },
  }),
  'egress unseen': seen(look(undefined), {
    egress: { state: 'unknown', code: 'egress-unseen', reason: 'x', evidence: [], repair: false },
  }),
  paused: seen(look(undefined), { paused: { reason: 'x', by: 'ann' } }),
}
const relaunchable = ['no-process', 'silent', 'page gone']

const step = fc.record({
  see: fc.constantFrom(...Object.keys(looks)),
  waitS: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constant(1801)),
  outcome: fc.constantFrom('ok', 'failed', 'failed', 'failed', 'killed'),
  reboot: fc.integer({ min: 0, max: 19 }).map((n) => n === 0),
})

interface Ran {
  see: string
  bootMs: number
  bootId: string
  before: Memory
  acted: boolean
}

function play(
  start: Memory,
  steps: readonly { see: string; waitS: number; outcome: string; reboot: boolean }[],
) {
  let m = start
  let bootMs = 1_000_000
  let boot = 0
  const ran: Ran[] = []
  for (const s of steps) {
    if (s.reboot) {
      boot++
      bootMs = 20_000
    } else bootMs += s.waitS * 1000
    const now = at(bootMs, `boot-${boot}`)
    const o = looks[s.see] as Observation
    const d = decide(o, m, now, policy)
    const acted = d.actions.some((a) => a.kind === 'relaunch-browser')
    ran.push({ see: s.see, bootMs, bootId: now.bootId, before: m, acted })
    m = d.memory
    if (acted) {
      m = beginAttempt(m, now, { reason: d.verdict.reason, ended: 'unknown', quickDeath: false })
      const ok = s.outcome === 'ok'
      if (s.outcome !== 'killed') {
        bootMs += ok ? 3000 : 60_000
        m = endAttempt(m, at(bootMs, now.bootId), { ok, detail: s.outcome, seconds: 3 }, policy)
      }
    }
    // What is written is what the next run reads.
    m = parseMemory(JSON.parse(JSON.stringify({ version: 1, ...m })))
  }
  return { ran, memory: m }
}

const sequences = fc.array(step, { maxLength: 60 })
const empty = () => emptyMemory(at(0, 'boot-0'))
const runs = { numRuns: 400 }

test('no relaunch without a browser fault that was seen', () => {
  fc.assert(
    fc.property(sequences, (steps) => {
      for (const r of play(empty(), steps).ran) {
        if (r.acted) assert.ok(relaunchable.includes(r.see), r.see)
      }
    }),
    runs,
  )
})

test('no two relaunches within the back-off, a kill in the middle and reboots included', () => {
  fc.assert(
    fc.property(sequences, (steps) => {
      const { ran } = play(empty(), steps)
      let last: Ran | undefined
      for (const r of ran) {
        const failures = r.before.failures
        if (r.acted && last && failures > 0) {
          const sameBoot = last.bootId === r.bootId
          const waited = sameBoot ? r.bootMs - last.bootMs : r.bootMs
          const earned = r.before.lowerFault !== undefined && failures >= policy.holdAfter
          const wait = earned ? policy.backoffBaseMs : backoffMs(failures, policy)
          assert.ok(waited >= wait, `${waited} ms after ${failures} failures`)
        }
        if (r.acted) last = r
      }
    }),
    runs,
  )
})

test('a held node gets one attempt a half-open period, however often it is looked at', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 20, maxLength: 200 }), (gaps) => {
      let m: Memory = { ...empty(), failures: 5, held: { sinceWallMs: 1 }, last: { startBootMs: 1_000_000 } }
      const acted: number[] = [1_000_000]
      let bootMs = 1_000_000
      for (const gap of gaps) {
        bootMs += gap * 1000
        const now = at(bootMs, 'boot-0')
        const d = decide(looks.silent as Observation, m, now, policy)
        m = d.memory
        if (d.actions.length > 0) {
          acted.push(bootMs)
          m = beginAttempt(m, now, { reason: 'x', ended: '', quickDeath: false })
        }
      }
      for (const [i, t] of acted.entries()) {
        if (i > 0) assert.ok(t - (acted[i - 1] as number) >= policy.halfOpenMs)
      }
      assert.ok(m.held, 'a failure never opens a hold')
    }),
    { numRuns: 100 },
  )
})

test('a success closes the hold; a release too; nothing else does', () => {
  fc.assert(
    fc.property(sequences, (steps) => {
      const start: Memory = { ...empty(), failures: 5, held: { sinceWallMs: 1 }, last: { startBootMs: 0 } }
      const { ran, memory } = play(start, steps)
      const helped = steps.some((s, i) => s.see === 'healthy' || (ran[i]?.acted && s.outcome === 'ok'))
      if (!helped) assert.ok(memory.held)
      const after = decide(looks.healthy as Observation, memory, at(9e9, 'boot-z'), policy).memory
      assert.equal(after.held, undefined)
      assert.equal(after.failures, 0)
      assert.equal(releaseMemory(memory, at(9e9, 'boot-z')).held, undefined)
    }),
    runs,
  )
})

test('the cautious memory never acts before the longest back-off, unless healthy was seen', () => {
  fc.assert(
    fc.property(sequences, (steps) => {
      const start = cautiousMemory(at(1_000_000, 'boot-0'), policy)
      for (const [i, r] of play(start, steps).ran.entries()) {
        if (steps[i]?.see === 'healthy' || r.bootId !== 'boot-0') return
        if (r.acted) {
          assert.ok(r.bootMs - 1_000_000 >= policy.backoffMaxMs)
          return
        }
      }
    }),
    runs,
  )
})

const bad: [string, unknown][] = [
  ['null', null],
  ['a list', []],
  ['no counts', { version: 1, bootId: 'x', attempts: [] }],
  ['negative failures', { version: 1, ...empty(), failures: -1 }],
  ['another version', { version: 2, ...empty() }],
  ['held is text', { version: 1, ...empty(), held: 'yes' }],
  ['a lower fault of no layer', { version: 1, ...empty(), lowerFault: 'page' }],
  ['an attempt without a result', { version: 1, ...empty(), attempts: [{}] }],
]
for (const [name, raw] of bad) {
  test(`state refused: ${name}`, () => assert.throws(() => parseMemory(raw)))
}
