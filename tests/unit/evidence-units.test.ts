import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { freshMemory } from '../../lib/api/circuit.ts'
import { DEFAULTS } from '../../lib/base/config.ts'
import { circuitMemo, holdMemo } from '../../lib/evidence/memory.ts'
import { Trust } from '../../lib/evidence/owner.ts'
import { unitOf } from '../../lib/evidence/owners.ts'
import { hostNamespaces, parseReceipt } from '../../lib/evidence/receipts.ts'
import { lookAtTunnel, readTunnel } from '../../lib/evidence/tunnel.ts'
import { readRun, readService, readTimer, readUnits } from '../../lib/evidence/units.ts'
import { emptyMemory } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import { tempPaths } from '../kit/temp.ts'
import { NOW, receipt } from '../kit/truth-model.ts'

const AWAKE = { ...NOW, aheadMs: 0 }
/** Half a second ahead, and all of it slept before anything happened. */
const AT = { ...NOW, aheadMs: 500 }
const wall = (bootMs: number) =>
  new Date(NOW.wallMs - NOW.bootMs + bootMs).toISOString().replace(/(.*)T(.*)Z/, 'Fri $1 $2 UTC')

describe('what systemd says of a service', () => {
  const cases: [Record<string, string>, object][] = [
    [
      {
        ActiveState: 'active',
        Result: 'success',
        ActiveEnterTimestampMonotonic: '2000000',
        ActiveEnterTimestamp: wall(2500),
      },
      { active: true, changing: false, sinceBootMs: 2500, text: 'active' },
    ],
    [
      { ActiveState: 'failed', Result: 'exit-code', ActiveEnterTimestampMonotonic: '0' },
      { active: false, changing: false, text: 'failed (exit-code)' },
    ],
    [
      { ActiveState: 'activating', Result: 'success' },
      { active: false, changing: true, text: 'activating' },
    ],
    [{ ActiveState: 'deactivating' }, { active: false, changing: true, text: 'deactivating' }],
  ]
  for (const [u, expected] of cases)
    it(`${u.ActiveState}`, () => assert.deepEqual(readService(u, AT), expected))

  it('a unit that never ran has no end, for all its success', () => {
    const u = { Result: 'success', ExecMainStatus: '0', ExecMainExitTimestampMonotonic: '0' }
    assert.equal(readRun(u, AWAKE).ended, false)
  })
  it('a run that ended', () => {
    const u = {
      Result: 'exit-code',
      ExecMainStatus: '1',
      ExecMainExitTimestampMonotonic: '3000000',
      ExecMainExitTimestamp: wall(3500),
    }
    assert.deepEqual(readRun(u, AT), { ended: true, exitBootMs: 3500, status: 1, result: 'exit-code' })
  })
})

describe('what systemd says of a timer', () => {
  const on = {
    LoadState: 'loaded',
    UnitFileState: 'enabled',
    ActiveState: 'active',
    SubState: 'waiting',
    NextElapseUSecMonotonic: '1h 2min 3s',
  }
  const cases: [string, Record<string, string>, string, RegExp][] = [
    ['waiting', on, 'armed', /^$/],
    ['waiting for nothing', { ...on, NextElapseUSecMonotonic: 'infinity' }, 'unarmed', /nothing/],
    ['its service runs', { ...on, SubState: 'running', NextElapseUSecMonotonic: 'infinity' }, 'armed', /^$/],
    ['stopped', { ...on, ActiveState: 'inactive', SubState: 'dead' }, 'unarmed', /inactive/],
    ['never installed', { LoadState: 'not-found' }, 'missing', /never installed/],
    ['masked', { LoadState: 'masked', UnitFileState: 'masked' }, 'unarmed', /^masked by hand$/],
    ['no answer', {}, 'missing', /never installed/],
  ]
  for (const [name, u, state, why] of cases)
    it(name, () => {
      const t = readTimer(u)
      assert.equal(t.state, state)
      assert.match(t.why, why)
    })
  it('armed and not enabled', () =>
    assert.equal(readTimer({ ...on, UnitFileState: 'disabled' }).enabled, false))
})

describe('a node’s units', () => {
  const loaded = { LoadState: 'loaded', ActiveState: 'active' }
  const all = { 'netvm-netns@muse.service': loaded, 'chromebox@muse.service': loaded }
  it('are seen', () => assert.equal(readUnits(all, 'muse', AWAKE).seen, true))
  it('are not, when this systemd is another one', () => {
    assert.equal(
      readUnits({ ...all, 'chromebox@muse.service': { LoadState: 'not-found' } }, 'muse', AWAKE).seen,
      false,
    )
    assert.equal(readUnits({}, 'muse', AWAKE).seen, false)
  })
  it('a masked browser is known, and not running', () => {
    const masked = { LoadState: 'masked', ActiveState: 'inactive' }
    const u = readUnits({ ...all, 'chromebox@muse.service': masked }, 'muse', AWAKE)
    assert.ok(u.seen && !u.value.browser.active)
  })
  it('only the watchdog of the browser has one per node', () => {
    assert.equal(unitOf('chromebox-watchdog', 'muse'), 'chromebox-watchdog@muse')
    assert.equal(unitOf('agent-health', 'muse'), 'agent-health')
  })
})

describe('whether a node has a tunnel', () => {
  const when = { ConditionTimestampMonotonic: '3000000', ConditionTimestamp: wall(3500) }
  it('systemd tells how the condition ended when it last started the tunnel', () => {
    const no = readTunnel({ ...when, ConditionResult: 'no' }, AT)
    assert.deepEqual(no, { configured: false, sinceBootMs: 3500, source: 'unit' })
    assert.equal(readTunnel({ ...when, ConditionResult: 'yes' }, AT)?.configured, true)
  })
  it('and that it does not run although it was to', () => {
    const since = { InactiveEnterTimestampMonotonic: '4000000', InactiveEnterTimestamp: wall(4500) }
    const u = { ...when, ...since, ConditionResult: 'yes', ActiveState: 'inactive' }
    assert.deepEqual(readTunnel(u, AT)?.down, { text: 'inactive', sinceBootMs: 4500 })
    assert.equal(readTunnel({ ...u, ActiveState: 'failed' }, AT)?.down?.text, 'failed')
    for (const ActiveState of ['active', 'activating', 'deactivating', ''])
      assert.equal(readTunnel({ ...u, ActiveState }, AT)?.down, undefined)
    assert.equal(readTunnel({ ...u, ConditionResult: 'no' }, AT)?.down, undefined)
  })
  it('a unit that was never started tells nothing, although it says "no"', () => {
    assert.equal(readTunnel({ ConditionResult: 'no', ConditionTimestampMonotonic: '0' }, AWAKE), undefined)
    assert.equal(readTunnel({}, AWAKE), undefined)
  })
  it('the file decides, and a directory that is not there decides nothing', (t) => {
    const p = tempPaths(t)
    const at = { ...NOW, wallMs: Date.now() }
    const ask = () => lookAtTunnel(p, new Trust(p), 'muse', at)
    assert.equal(ask().seen, false)
    mkdirSync(p.wireguardDir, { recursive: true, mode: 0o700 })
    assert.deepEqual(ask(), {
      seen: true,
      value: { configured: false, sinceBootMs: NOW.bootMs, source: 'live' },
    })
    writeFileSync(`${p.wireguardDir}/muse.conf`, '', { mode: 0o600 })
    const found = ask()
    assert.ok(found.seen && found.value.configured)
    assert.ok(found.value.sinceBootMs <= NOW.bootMs && found.value.sinceBootMs > NOW.bootMs - 60_000)
  })
})

describe('a receipt', () => {
  const good = receipt('chromebox-watchdog')
  it('comes back as it was', () => assert.deepEqual(parseReceipt(JSON.stringify(good)), good))
  it('loses control characters and what does not belong', () => {
    const verdict = { ...good.verdict, reason: 'a\u001b[31mb\nc', evidence: ['x\u0007'] }
    const r = parseReceipt(
      JSON.stringify({ ...good, verdict, extra: { a: '\u001b[2J', b: [1] }, layers: [{ layer: 'x' }] }),
    )
    assert.equal(r.verdict.reason, 'ab c')
    assert.deepEqual(r.verdict.evidence, ['x'])
    assert.deepEqual(r.extra, { a: '' })
    assert.deepEqual(r.layers, [])
  })
  const bad: [string, unknown][] = [
    ['not JSON', undefined],
    ['null', null],
    ['a list', []],
    ['another version', { ...good, version: 2 }],
    ['no time', { ...good, at: { ...good.at, bootMs: 'x' } }],
    ['no verdict', { ...good, verdict: 'healthy' }],
    ['a verdict of a new kind', { ...good, verdict: { ...good.verdict, state: 'fine' } }],
    ['no namespaces', { ...good, hostNs: null }],
  ]
  for (const [name, v] of bad)
    it(`${name} is refused`, () => assert.throws(() => parseReceipt(JSON.stringify(v) ?? '{')))

  it('the host’s namespaces are what most receipts of this boot say', () => {
    const at = (net: number, bootId = 'b') => ({
      ...good,
      hostNs: { net, pid: 2 },
      at: { ...good.at, bootId },
    })
    assert.deepEqual(hostNamespaces([at(7), at(1), at(1)], 'b'), { net: 1, pid: 2 })
    assert.equal(hostNamespaces([at(1, 'other')], 'b'), undefined)
    assert.equal(hostNamespaces([at(0)], 'b'), undefined)
  })
})

describe('what the supervisors remember', () => {
  it('a hold and its next probe', () => {
    const held = { sinceWallMs: NOW.wallMs - 120_000 }
    const last = { startBootMs: NOW.bootMs - 700_000, endBootMs: NOW.bootMs - 600_000 }
    const m = { ...emptyMemory(NOW), held, last }
    assert.equal(holdMemo(m, NOW, DEFAULTS), 'held for 2m, next probe in 20m')
    assert.equal(holdMemo(m, NOW, { ...DEFAULTS, halfOpenMs: 60_000 }), 'held for 2m, next probe due')
    assert.equal(holdMemo(emptyMemory(NOW), NOW, DEFAULTS), undefined)
  })
  it('a circuit and its next probe', () => {
    const m = { ...freshMemory, openedAt: { ...NOW, bootMs: NOW.bootMs - 600_000 } }
    assert.equal(circuitMemo(m, NOW, 1_800_000), 'circuit open, next probe in 20m')
    assert.equal(circuitMemo(m, NOW, 600_000), 'circuit half-open, next probe due')
    assert.equal(circuitMemo(freshMemory, NOW, 1_800_000), undefined)
  })
})
