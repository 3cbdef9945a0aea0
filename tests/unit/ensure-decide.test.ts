import assert from 'node:assert/strict'
import test from 'node:test'
import { decideDrift } from '../../lib/ensure/decide.ts'
import type { Observation, Orphan } from '../../lib/ensure/types.ts'
import { unitsOf } from '../../lib/registry/names.ts'
import {
  type DriftRow,
  driftTests,
  healthy,
  idle,
  NOW,
  offset,
  S,
  SOCKET,
  T,
  timer,
  unit,
  verbs,
  wanted,
  withUnit,
} from '../kit/ensure-fixtures.ts'

test('a healthy host has no findings', () => assert.deepEqual(decideDrift(healthy()), []))

const t = timer(120_000)
const orphan = (change: Partial<Orphan>): Observation => ({
  ...healthy(),
  orphans: [{ name: 'old', why: 'retired', enabled: [], active: [], files: [], ...change }],
})
const rows: DriftRow[] = [
  ['timer disabled', withUnit(T, unit(t, { file: 'disabled' })), 'timer-disabled', [`enable ${T}`]],
  [
    'timer neither enabled nor started',
    withUnit(T, unit(t, { file: 'disabled', active: 'inactive', sub: 'dead' })),
    'timer-missing',
    [`enable ${T}`, `restart ${T}`],
  ],
  [
    'timer enabled, not started',
    withUnit(T, unit(t, { active: 'inactive', sub: 'dead' })),
    'timer-stopped',
    [`restart ${T}`],
  ],
  [
    'timer masked by hand',
    withUnit(T, unit(t, { load: 'masked', file: 'masked', active: 'inactive' })),
    'timer-masked',
    [],
  ],
  ['timer without a unit file', withUnit(T, unit(t, { load: 'not-found' })), 'timer-missing', []],
  ['timer that cannot be loaded', withUnit(T, unit(t, { load: 'bad-setting' })), 'timer-bad', []],
  [
    'timer failed',
    withUnit(T, unit(t, { active: 'failed', result: 'resources' })),
    'timer-failed',
    [`reset-failed ${T}`, `restart ${T}`],
  ],
  [
    'timer elapsed for good',
    withUnit(T, unit(t, { sub: 'elapsed', nextMs: Number.POSITIVE_INFINITY })),
    'timer-never',
    [`restart ${T}`],
  ],
  [
    'timer waiting for infinity',
    withUnit(T, unit(t, { nextMs: Number.POSITIVE_INFINITY })),
    'timer-infinite',
    [`restart ${T}`],
  ],
  [
    'next elapse beyond two periods',
    withUnit(T, unit(t, { nextMs: NOW + 256_000 })),
    'timer-far',
    [`restart ${T}`],
  ],
  [
    'last trigger older than three periods',
    withUnit(T, unit(t, { lastMs: NOW - 376_000 })),
    'timer-stale',
    [`restart ${T}`],
  ],
  [
    'fleet-wide timer stopped',
    withUnit('agent-health.timer', unit(timer(300_000), { active: 'inactive' })),
    'timer-stopped',
    ['restart agent-health.timer'],
  ],
  [
    'service at its start limit',
    withUnit(S, unit(idle, { active: 'failed', result: 'start-limit-hit' })),
    'start-limit-hit',
    [`reset-failed ${S}`],
  ],
  [
    'service failed by its timeout',
    withUnit(S, unit(idle, { active: 'failed', result: 'timeout' })),
    'unit-failed',
    [`reset-failed ${S}`],
  ],
  [
    'service failed on its configuration',
    withUnit(S, unit(idle, { active: 'failed', result: 'exit-code', exit: { exited: true, status: 78 } })),
    'unit-failed',
    [`reset-failed ${S}`],
  ],
  ...[
    'chromebox@muse.service',
    'cdp-relay@muse.service',
    'cdp-relay@muse.socket',
    'netvm-netns@muse.service',
  ].map((masked): [string, Observation, string, string[]] => [
    `${masked} masked`,
    withUnit(masked, unit(idle, { load: 'masked', file: 'masked' })),
    'unit-masked',
    [],
  ]),
  ['the record of the boot is gone', { ...healthy(), bootIdMissing: true }, 'boot-id-missing', []],
  [
    'tunnel that runs on without its configuration',
    withUnit('netvm-tunnel@muse.service', unit(idle, { active: 'active' })),
    'tunnel-left',
    [],
  ],
  [
    'service whose program is missing',
    withUnit(S, unit(idle, { active: 'failed', result: 'exit-code', exit: { exited: true, status: 203 } })),
    'program-gone',
    [],
  ],
  [
    'service activating past its timeout',
    withUnit(S, unit(idle, { active: 'activating', startedMs: NOW - 126_000 })),
    'activating-too-long',
    [`stop ${S}`, `reset-failed ${S}`],
  ],
  [
    'service activating without a timeout',
    withUnit(
      S,
      unit(idle, {
        active: 'activating',
        startTimeoutMs: Number.POSITIVE_INFINITY,
        startedMs: NOW - 136_000,
      }),
    ),
    'activating-too-long',
    [`stop ${S}`, `reset-failed ${S}`],
  ],
  [
    'target not enabled',
    withUnit(unitsOf('muse').target, idle),
    'target-disabled',
    [`enable ${unitsOf('muse').target}`],
  ],
  [
    'relay on another address',
    withUnit(SOCKET, unit(idle, { listen: ['127.0.0.1:9'] })),
    'relay-address-differs',
    [],
  ],
  [
    'namespace unit failed',
    withUnit('netvm-netns@muse.service', unit(idle, { active: 'failed', result: 'exit-code' })),
    'netns-failed',
    [],
  ],
  ['manager not up to date', withUnit(S, unit(idle, { needReload: true })), 'needs-reload', ['reload']],
  [
    'queue missing',
    { ...healthy(), nodes: healthy().nodes.map((n) => ({ ...n, queueReady: false })) },
    'queue-missing',
    ['make-queue'],
  ],
  [
    'row refused',
    {
      ...healthy(),
      rowErrors: [{ scope: 'fleet', text: 'NODES.md line 9: bad node name', next: 'editor NODES.md' }],
    },
    'row-refused',
    [],
  ],
  [
    'retired row still supervised',
    orphan({ enabled: [unitsOf('old').timer], active: [unitsOf('old').timer], files: ['/x/netvm.conf'] }),
    'orphan-supervised',
    [`stop ${unitsOf('old').timer}`, `disable ${unitsOf('old').timer}`, 'remove-files', 'reload'],
  ],
  [
    'removed row whose node still runs',
    orphan({ why: 'removed', active: ['chromebox@old.service'], files: ['/x.env'] }),
    'orphan-running',
    [],
  ],
  [
    'retired row whose files are left',
    orphan({ files: ['/x.env'] }),
    'orphan-files',
    ['remove-files', 'reload'],
  ],
]
driftTests(rows)

const fine: [string, Observation][] = [
  [
    'a timer whose service runs has no next elapse',
    withUnit(T, unit(t, { sub: 'running', nextMs: Number.POSITIVE_INFINITY })),
  ],
  ['a last trigger just within three periods', withUnit(T, unit(t, { lastMs: NOW - 374_000 }))],
  [
    'a timer armed a moment ago that never triggered',
    withUnit(T, unit(t, { lastMs: undefined as never, activeSinceMs: NOW - 60_000 })),
  ],
  [
    'a verdict of unhealthy is the service at work',
    withUnit(S, unit(idle, { active: 'failed', result: 'exit-code', exit: { exited: true, status: 1 } })),
  ],
  [
    'a verdict of unknown too',
    withUnit(S, unit(idle, { active: 'failed', result: 'exit-code', exit: { exited: true, status: 2 } })),
  ],
  ['a run within its timeout', withUnit(S, unit(idle, { active: 'activating', startedMs: NOW - 100_000 }))],
]
for (const [name, o] of fine) test(`no drift: ${name}`, () => assert.deepEqual(decideDrift(o), []))

test('settings: new ones are written, others are named, and a new offset arms the timer again', () => {
  const at = (have: (string | undefined)[]): Observation => ({
    ...healthy(),
    nodes: [
      { ...healthy().nodes[0], files: [wanted, offset].map((want, i) => ({ want, have: have[i] })) } as never,
    ],
  })
  const [fresh] = decideDrift(at([undefined, undefined]))
  assert.equal(fresh?.code, 'settings-missing')
  assert.deepEqual(fresh && verbs(fresh), ['write-file', 'write-file', 'reload'])
  const [changed] = decideDrift(at(['wrong', 'right']))
  assert.equal(changed?.code, 'settings-differ')
  assert.match(changed?.did ?? '', /netvm-node-up muse/)
  const [moved] = decideDrift(at(['right', 'wrong']))
  assert.deepEqual(moved && verbs(moved), ['write-file', 'reload', `restart ${T}`])
})

test('a unit that was reset an hour ago or less and failed again is told, paged and left alone', () => {
  const failed = withUnit(S, unit(idle, { active: 'failed', result: 'start-limit-hit' }))
  const [again] = decideDrift({ ...failed, resetAgoMs: { [S]: 60_000 } })
  assert.deepEqual(again?.actions, [])
  assert.equal(again?.page, true)
  const [later] = decideDrift({ ...failed, resetAgoMs: { [S]: 4_000_000 } })
  assert.equal(later?.actions.length, 1)
})

test('legacy: ours is not armed beside it, and is stopped beside one that acts by itself', () => {
  const legacy = {
    scope: 'muse',
    what: 'chromebox-watchdog-muse.timer',
    remove: 'systemctl disable --now x',
    armed: true,
  }
  const unarmed = withUnit(T, unit(t, { file: 'disabled', active: 'inactive' }))
  const held = decideDrift({ ...unarmed, legacy: [legacy] })
  assert.deepEqual(
    held.map((f) => [f.code, f.actions.length]),
    [['legacy', 0]],
  )
  assert.equal(held[0]?.next, 'systemctl disable --now x')
  const [beside] = decideDrift({ ...healthy(), legacy: [legacy] })
  assert.deepEqual(beside && verbs(beside), [`stop ${T}`])
  const [process] = decideDrift({ ...healthy(), legacy: [{ ...legacy, armed: false }] })
  assert.deepEqual(process?.actions, [])
})

test('a fleet-wide unit file that is missing is put back, and its timer armed', () => {
  const o: Observation = {
    ...withUnit('agent-health.timer', unit(timer(300_000), { load: 'not-found', active: 'inactive' })),
    missingUnitFiles: [{ name: '/etc/systemd/system/agent-health.timer', copy: '[Timer]' }],
  }
  const found = decideDrift(o)
  assert.deepEqual(
    found.map((f) => [f.scope, f.code]),
    [
      ['fleet', 'unit-file-missing'],
      ['fleet', 'timer-missing'],
    ],
  )
  const all = found.flatMap(verbs)
  assert.deepEqual(all, ['write-file', 'reload', 'enable agent-health.timer', 'restart agent-health.timer'])
  const [noCopy] = decideDrift({ ...o, missingUnitFiles: [{ name: 'agent-health.timer', copy: undefined }] })
  assert.deepEqual(noCopy?.actions, [])
})
