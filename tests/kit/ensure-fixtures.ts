/** A healthy host as ensure sees it, to be broken one piece at a time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideDrift } from '../../lib/ensure/decide.ts'
import type { Finding, Observation, UnitLook } from '../../lib/ensure/types.ts'
import { unitsOf } from '../../lib/registry/names.ts'
import { row } from './row.ts'

export const NOW = 5_000_000
export const timer = (period: number): UnitLook => ({
  load: 'loaded',
  file: 'enabled',
  active: 'active',
  sub: 'waiting',
  result: 'success',
  needReload: false,
  activeSinceMs: NOW - 1_000_000,
  periodMs: period,
  firstMs: 20_000,
  lateMs: 1000,
  nextMs: NOW + period / 2,
  lastMs: NOW - period / 2,
})
export const idle: UnitLook = {
  load: 'loaded',
  file: 'static',
  active: 'inactive',
  sub: 'dead',
  result: 'success',
  needReload: false,
  startTimeoutMs: 110_000,
  exit: { exited: true, status: 0 },
}
export const unit = (look: UnitLook, change: Partial<UnitLook>): UnitLook => ({ ...look, ...change })

export const { timer: T, watchdog: S } = unitsOf('muse')
export const SOCKET = 'cdp-relay@muse.socket'
export const wanted = { path: '/etc/netvm/nodes/muse.env', text: 'right', what: 'settings' }
export const offset = { path: '/etc/systemd/system/x/netvm.conf', text: 'right', what: 'timer offset' }

export function healthy(): Observation {
  return {
    nowMs: NOW,
    bootIdMissing: false,
    nodes: [
      {
        node: row(),
        files: [wanted, offset].map((want) => ({ want, have: 'right' })),
        queueReady: true,
        tunnelConfigured: false,
      },
    ],
    orphans: [],
    rowErrors: [],
    units: {
      [T]: timer(120_000),
      [S]: idle,
      [unitsOf('muse').target]: { ...idle, file: 'enabled' },
      'netvm-netns@muse.service': { ...idle, active: 'active' },
      [SOCKET]: { ...idle, active: 'active', listen: ['10.201.35.2:9410'] },
      'cdp-relay-watchdog.timer': timer(300_000),
      'cdp-relay-watchdog.service': idle,
      'agent-health.timer': timer(300_000),
      'agent-health.service': idle,
    },
    missingUnitFiles: [],
    legacy: [],
    resetAgoMs: {},
  }
}
export const withUnit = (name: string, look: UnitLook): Observation => ({
  ...healthy(),
  units: { ...healthy().units, [name]: look },
})
export const verbs = (f: Finding) => f.actions.map((a) => ('unit' in a ? `${a.kind} ${a.unit}` : a.kind))

/** A state, the code of its one finding, and what is done about it. */
export type DriftRow = readonly [name: string, o: Observation, code: string, actions: readonly string[]]

/** One test a row. A finding that nothing is done about names a command for a person; a refused row is told with its line. */
export function driftTests(rows: readonly DriftRow[]): void {
  for (const [name, o, code, actions] of rows) {
    test(`drift: ${name}`, () => {
      const [finding, ...more] = decideDrift(o)
      assert.deepEqual(
        more.map((f) => f.code),
        [],
      )
      assert.equal(finding?.code, code)
      assert.deepEqual(finding && verbs(finding), actions)
      if (actions.length === 0 && code !== 'row-refused') assert.ok(finding?.next, 'a command for a person')
    })
  }
}
