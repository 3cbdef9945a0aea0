import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { decideDrift, LOOPS } from '../../lib/ensure/decide.ts'
import type { Finding, Observation, UnitLook } from '../../lib/ensure/types.ts'
import { healthy, NOW, T } from '../kit/ensure-fixtures.ts'

test('whatever a timer looks like, one pass of the actions leaves nothing to act on', () => {
  const look = fc.record({
    load: fc.constantFrom('loaded', 'masked', 'not-found', 'bad-setting'),
    file: fc.constantFrom('enabled', 'disabled', 'masked', ''),
    active: fc.constantFrom('active', 'inactive', 'failed'),
    sub: fc.constantFrom('waiting', 'elapsed', 'running', 'dead'),
    result: fc.constantFrom('success', 'resources', 'start-limit-hit'),
    needReload: fc.boolean(),
    activeSinceMs: fc.integer({ min: 0, max: NOW }),
    periodMs: fc.constantFrom(120_000, Number.POSITIVE_INFINITY),
    nextMs: fc.oneof(fc.integer({ min: NOW, max: NOW * 2 }), fc.constant(Number.POSITIVE_INFINITY)),
    lastMs: fc.integer({ min: 0, max: NOW }),
  })
  const units = [T, ...LOOPS.map((l) => `${l}.timer`)]
  fc.assert(
    fc.property(fc.tuple(look, look, look), (looks) => {
      const o: Observation = {
        ...healthy(),
        units: { ...healthy().units, ...Object.fromEntries(units.map((u, i) => [u, looks[i] as UnitLook])) },
      }
      const after: Observation = { ...o, units: carryOut(o, decideDrift(o)) }
      assert.deepEqual(
        decideDrift(after).filter((f) => f.actions.length > 0),
        [],
      )
    }),
  )
})

/** A model of systemd: what the actions make of a timer. The template has its period. */
function carryOut(o: Observation, findings: readonly Finding[]): Record<string, UnitLook> {
  const units = { ...o.units }
  for (const action of findings.flatMap((f) => f.actions)) {
    if (action.kind === 'reload') {
      for (const [name, u] of Object.entries(units)) units[name] = { ...u, needReload: false }
    }
    if (!('unit' in action)) continue
    const u = units[action.unit] ?? assert.fail(action.unit)
    if (action.kind === 'enable') units[action.unit] = { ...u, file: 'enabled' }
    if (action.kind === 'reset-failed') units[action.unit] = { ...u, active: 'inactive', result: 'success' }
    if (action.kind === 'restart') {
      const armed = {
        active: 'active',
        sub: 'waiting',
        activeSinceMs: NOW,
        nextMs: NOW + 15_000,
        periodMs: 120_000,
      }
      units[action.unit] = { ...u, ...armed, result: 'success' }
    }
  }
  return units
}
