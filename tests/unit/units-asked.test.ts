import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import type { Clocks } from '../../lib/base/damping.ts'
import { lookAtUnits, wanted } from '../../lib/evidence/units.ts'
import type { UnitShow } from '../../lib/host/systemd.ts'
import { type FakeUnit, fakeBus } from '../kit/fake-bus.ts'
import { tempPaths } from '../kit/temp.ts'
import { NOW } from '../kit/truth-model.ts'
import { patience } from '../kit/unit.ts'

const AWAKE = { ...NOW, aheadMs: 0 }
const AT = { ...NOW, aheadMs: 500 }

describe('what systemd is asked', () => {
  const on = { LoadState: 'loaded', ActiveState: 'active', SubState: 'running' }
  const off = { ...on, ActiveState: 'inactive', SubState: 'dead' }
  const RUN = ['Result', 'ExecMainStatus', 'ExecMainExitTimestampMonotonic']
  const TIMER = ['UnitFileState', 'NextElapseUSecMonotonic', 'SubState']
  const SINCE = 'ActiveEnterTimestampMonotonic'
  const TUNNEL = ['ConditionResult', 'ConditionTimestampMonotonic', 'InactiveEnterTimestampMonotonic']
  const cases: [string, string, UnitShow | undefined, string[]][] = [
    ['a namespace', 'netvm-netns@muse.service', on, [SINCE]],
    ['one that failed', 'netvm-netns@muse.service', { ...off, ActiveState: 'failed' }, [SINCE, 'Result']],
    ['a browser', 'chromebox@muse.service', on, [SINCE]],
    ['one that was stopped', 'chromebox@muse.service', off, [SINCE, 'Result']],
    ['a relay', 'cdp-relay@muse.socket', on, []],
    ['one that failed', 'cdp-relay@muse.socket', { ...off, ActiveState: 'failed' }, ['Result']],
    ['a tunnel', 'netvm-tunnel@muse.service', on, TUNNEL],
    ['one that ended', 'netvm-tunnel@muse.service', off, TUNNEL],
    ['a watchdog', 'chromebox-watchdog@muse.service', off, RUN],
    ['one that runs', 'chromebox-watchdog@muse.service', { ...on, ActiveState: 'activating' }, []],
    ['its timer, meanwhile', 'chromebox-watchdog@muse.timer', on, ['UnitFileState']],
    ['its timer', 'chromebox-watchdog@muse.timer', { ...on, SubState: 'waiting' }, TIMER],
    ['a watchdog of all nodes', 'agent-health.service', off, RUN],
    ['its timer', 'cdp-relay-watchdog.timer', off, ['UnitFileState']],
    ['a namespace that is not in memory', 'netvm-netns@muse.service', undefined, ['LoadState']],
    ['such a timer', 'chromebox-watchdog@muse.timer', undefined, ['LoadState']],
    ['such a timer of all nodes', 'agent-health.timer', undefined, ['LoadState']],
    ['such a browser of the second node', 'chromebox@pip.service', undefined, []],
    ['such a timer of the second node', 'chromebox-watchdog@pip.timer', undefined, ['LoadState']],
    ['such a watchdog of the second node', 'chromebox-watchdog@pip.service', undefined, []],
  ]
  const ask = (unit: string, listed: UnitShow | undefined, at: Clocks) =>
    new Map(wanted(['muse', 'pip'], new Map(listed ? [[unit, listed]] : []), at)).get(unit)
  for (const [what, unit, listed, asked] of cases)
    it(`of ${what}, ${unit}`, () => assert.deepEqual(ask(unit, listed, AWAKE), asked))
  it('after a sleep the stamps of the wall clock too', () => {
    assert.deepEqual(ask('chromebox@muse.service', on, AT), ['ActiveEnterTimestamp', SINCE])
    assert.deepEqual(ask('agent-health.service', off, AT), [
      ...RUN.slice(0, 2),
      'ExecMainExitTimestamp',
      'ExecMainExitTimestampMonotonic',
    ])
  })
})

describe('a fleet', () => {
  const TIMER = { UnitFileState: 'enabled', NextElapseUSecMonotonic: 5n, SubState: 'waiting' }
  const on = (sub: string) => ({ listed: ['loaded', 'active', sub] as const })
  const FLEET = {
    'agent-health.timer': { ...on('waiting'), ...TIMER },
    'cdp-relay-watchdog.timer': { ...on('waiting'), ...TIMER },
  }
  const PIP = {
    'netvm-netns@pip.service': { ...on('exited'), ActiveEnterTimestampMonotonic: 2_000_000n },
    'chromebox@pip.service': { ...on('running'), ActiveEnterTimestampMonotonic: 3_000_000n },
    'chromebox-watchdog@pip.timer': { ...on('waiting'), ...TIMER },
    'chromebox-watchdog@pip.service': {
      listed: ['loaded', 'failed', 'failed'],
      ExecMainExitTimestampMonotonic: 4_000_000n,
      ExecMainStatus: 1,
      Result: 'exit-code',
    },
  } as const
  const load = (LoadState: string) => ({ LoadState })
  const HERE = {
    'netvm-netns@muse.service': load('loaded'),
    'chromebox@muse.service': load('loaded'),
    'cdp-relay@muse.socket': load('loaded'),
    'netvm-tunnel@muse.service': load('loaded'),
    'chromebox-watchdog@muse.service': load('loaded'),
    'chromebox-watchdog@muse.timer': load('loaded'),
  }
  async function look(t: TestContext, units: Record<string, FakeUnit>, ...nodes: string[]) {
    const p = tempPaths(t)
    await fakeBus(t, `${p.root}/run/systemd/private`, units)
    return lookAtUnits(p, nodes.length > 0 ? nodes : ['muse', 'pip'], AWAKE, patience(20_000))
  }

  it('of which systemd has only some units in memory: the others are known, and do not run', async (t) => {
    const of = await look(t, { ...FLEET, ...PIP, ...HERE })
    const [muse, pip] = [of('muse'), of('pip')]
    assert.ok(muse.seen && pip.seen, JSON.stringify([muse, pip]))
    assert.deepEqual(pip.value.netns, { active: true, changing: false, sinceBootMs: 2000, text: 'active' })
    assert.equal(pip.value.browser.sinceBootMs, 3000)
    const run = { ended: true, exitBootMs: 4000, status: 1, result: 'exit-code' }
    assert.deepEqual(pip.value.runs['chromebox-watchdog'], run)
    assert.deepEqual(pip.value.timers['chromebox-watchdog'], { state: 'armed', why: '', enabled: true })
    assert.equal(pip.value.relay.active, false)
    assert.deepEqual(muse.value.browser, { active: false, changing: false, text: 'inactive' })
    const never = { ended: false, exitBootMs: 0, status: 0, result: 'success' }
    assert.deepEqual(muse.value.runs['chromebox-watchdog'], never)
    assert.equal(muse.value.timers['chromebox-watchdog'].why, 'inactive')
    assert.equal(muse.value.timers['agent-health'].state, 'armed')
  })
  it('of which no node but the first is in memory, or not even that one', async (t) => {
    const dev = {
      'chromebox-watchdog@dev.timer': load('loaded'),
      'cdp-relay@pip.socket': load('loaded'),
      'netvm-tunnel@pip.service': load('loaded'),
    }
    for (const [first, units] of [
      ['pip', { ...FLEET, ...PIP, ...dev }],
      ['muse', { ...FLEET, ...HERE, ...dev }],
    ] as const) {
      const of = (await look(t, units, first, 'dev'))('dev')
      assert.ok(of.seen, JSON.stringify(of))
      assert.deepEqual(of.value.browser, { active: false, changing: false, text: 'inactive' })
      assert.equal(of.value.timers['chromebox-watchdog'].why, 'inactive')
    }
  })
  it('whose timers fire just then, and whose timer waits for nothing', async (t) => {
    const timer = (SubState: string) => ({
      ...on('waiting'),
      UnitFileState: 'enabled',
      NextElapseUSecMonotonic: 2n ** 64n - 1n,
      SubState,
    })
    const timers = {
      'chromebox-watchdog@pip.timer': timer('running'),
      'agent-health.timer': timer('waiting'),
      'cdp-relay-watchdog.timer': { ...on('running'), UnitFileState: 'enabled' },
    }
    const pip = (await look(t, { ...PIP, ...HERE, ...timers }))('pip')
    assert.ok(pip.seen)
    const states = Object.values(pip.value.timers).map((f) => f.state)
    assert.deepEqual(states, ['armed', 'armed', 'unarmed'])
    assert.equal(pip.value.timers['agent-health'].why, 'waiting for nothing')
  })
  it('whose timer is masked, or was never installed', async (t) => {
    const timers = {
      'chromebox-watchdog@muse.timer': load('masked'),
      'agent-health.timer': load('not-found'),
    }
    const muse = (await look(t, { ...FLEET, ...PIP, ...HERE, ...timers }))('muse')
    assert.ok(muse.seen)
    assert.equal(muse.value.timers['chromebox-watchdog'].why, 'masked by hand')
    assert.equal(muse.value.timers['agent-health'].state, 'missing')
  })
  it('of which this systemd knows nothing', async (t) => {
    const timer = { 'chromebox-watchdog@pip.timer': load('not-found') }
    const none = Object.fromEntries(Object.keys(HERE).map((unit) => [unit, load('not-found')]))
    const of = await look(t, { ...FLEET, ...none, ...timer })
    for (const node of ['muse', 'pip']) assert.equal(of(node).seen, false)
  })
  it('without a bus', async (t) => {
    const of = await lookAtUnits(tempPaths(t), ['muse'], AWAKE, patience(20_000))
    const muse = of('muse')
    assert.ok(!muse.seen)
    assert.match(muse.why, /^no bus: .*ENOENT/)
  })
})
