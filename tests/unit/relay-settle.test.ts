import assert from 'node:assert/strict'
import test from 'node:test'
import { said } from '../../lib/report/line.ts'
import { HEALTHY } from '../../lib/report/verdict.ts'
import { decide, removalLine, settle } from '../../lib/supervisors/cdp-relay-watchdog/decide.ts'
import { afterRestart, NO_MEMORY } from '../../lib/supervisors/cdp-relay-watchdog/memory.ts'
import type { Observation, Policy } from '../../lib/supervisors/cdp-relay-watchdog/types.ts'
import { close, healthy, kinds, look, now, policy, restart, seen, units } from '../kit/relay-fixtures.ts'

const SILENT = said('relay-silent', { endpoint: '10.201.35.2:9410' })
const NEXT = 'journalctl -n 20 -u cdp-relay@muse.socket -u cdp-relay@muse.service'
const failed = afterRestart(NO_MEMORY, false, now)
const late = said('out-of-time', {
  why: 'no time left in this run to restart and verify; the next run does it',
})
const limit = look({
  close: close({ units: seen(units({ socketActive: 'failed', socketResult: 'trigger-limit-hit' })) }),
})

const guards: readonly [string, Observation, typeof NO_MEMORY, Policy, string][] = [
  ['time enough', look(), NO_MEMORY, { ...policy, leftMs: 35_000 }, ''],
  ['too late in the run', look(), NO_MEMORY, { ...policy, leftMs: 34_999 }, 'out-of-time'],
  ['too late, and the lock was waited for', look({ again: true }), NO_MEMORY, { ...policy, leftMs: 0 }, ''],
  ['too soon', look(), failed, { ...policy, leftMs: 0 }, 'relay-backoff'],
  ['too soon, and it was waited for', look({ again: true }), failed, policy, 'relay-backoff'],
  ['too soon, and named', look(), failed, { ...policy, named: true }, ''],
  ['named, too late in the run', look(), failed, { ...policy, named: true, leftMs: 1 }, 'out-of-time'],
]
for (const [name, o, memory, how, guard] of guards) {
  test(`guards: ${name}: ${guard || 'restarted'}`, () => {
    const d = decide(o, memory, now, how)
    assert.equal(d.guard?.code ?? '', guard)
    assert.deepEqual(kinds(d), guard === '' ? restart : [])
    assert.equal(d.confirm, guard === '' ? 'at-once' : undefined)
    // Who names the node starts the wait anew by a restart only.
    assert.equal(d.memory, memory)
  })
}

test('what is said before a restart, and of one that is held back', () => {
  const doing = { level: 'WARN', code: SILENT.code, text: `${SILENT.text}; restarting the relay` }
  assert.deepEqual(decide(look(), NO_MEMORY, now, policy).lines, [doing])
  const slow = decide(look(), NO_MEMORY, now, { ...policy, leftMs: 0 })
  const told = { code: SILENT.code, next: NEXT, text: `${SILENT.text} (${late.text})` }
  assert.deepEqual([slow.lines, slow.pages], [[{ level: 'WARN', ...told }], []])
  const soon = decide(look(), failed, now, policy)
  const { text } = said('relay-restart-failed', { reason: `${SILENT.text} (${soon.guard?.text})` })
  const held = { code: SILENT.code, next: NEXT, text }
  assert.deepEqual(soon.lines, [{ level: 'FAIL', ...held }])
  assert.deepEqual(soon.pages, [{ kind: 'relay-fault', failing: true, ...held }])
})

test('healthy: nothing is said, an open page is over, and nothing is remembered', () => {
  const d = decide(look(healthy), failed, now, policy)
  assert.deepEqual(
    [d.lines, d.pages],
    [[], [{ kind: 'relay-fault', failing: false, ...said('relay-recovered') }]],
  )
  assert.equal(d.memory, NO_MEMORY)
})

test('a restart that helped: healthy, with what it was, and paged only where somebody must look all the same', () => {
  for (const [o, paged] of [[look(), false] as const, [limit, true] as const]) {
    const planned = decide(o, failed, now, { ...policy, named: true })
    const { decision, did } = settle(o, planned, { durationMs: 1500 }, now)
    const ok = said('relay-restart-ok', { took: '2s' })
    assert.deepEqual(did, { helped: true, ...ok })
    assert.deepEqual(decision.verdict, { ...HEALTHY, evidence: [planned.verdict.reason, ok.text] })
    assert.deepEqual(decision.lines, [{ level: 'INFO', ...ok }])
    const page = { kind: 'relay-fault', failing: true, code: planned.verdict.code, next: NEXT }
    assert.deepEqual(
      decision.pages,
      paged ? [{ ...page, text: `${planned.verdict.reason}; ${ok.text}` }] : [],
    )
    assert.deepEqual(decision.marks.at(-1), { layer: 'relay', state: 'ok', note: 'after a restart' })
    assert.deepEqual(decision.memory, afterRestart(failed, true, now))
  }
})

test('one that did not: FAILED with its cause, paged, counted', () => {
  const planned = decide(look(), NO_MEMORY, now, policy)
  const { decision, did } = settle(look(), planned, { failure: 'no answer', durationMs: 9 }, now)
  const told = said('relay-restart-failed', { reason: `${SILENT.text}; no answer` })
  assert.deepEqual(did, { helped: false, ...told })
  assert.deepEqual(decision.verdict, { ...planned.verdict, reason: told.text })
  const fault = { ...told, cause: SILENT.code, next: NEXT }
  assert.deepEqual(decision.lines, [{ level: 'FAIL', ...fault }])
  assert.deepEqual(decision.pages, [{ kind: 'relay-fault', failing: true, ...fault }])
  assert.deepEqual([decision.marks, decision.memory], [planned.marks, afterRestart(NO_MEMORY, false, now)])
})

test('a foreign listener that is gone is a warning, one that stays a failure with the command', () => {
  const gone = removalLine(look(), { ok: true, detail: 'removed x' })
  assert.deepEqual(gone, { level: 'WARN', ...said('listener-removed', { what: 'removed x' }) })
  const kept = removalLine(look(), { ok: false, detail: 'x survived KILL' })
  assert.deepEqual(kept, {
    level: 'FAIL',
    ...said('listener-kept', { what: 'x survived KILL' }),
    next: NEXT,
  })
})
