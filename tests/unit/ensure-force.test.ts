import assert from 'node:assert/strict'
import test from 'node:test'
import { decideDrift } from '../../lib/ensure/decide.ts'
import type { Observation } from '../../lib/ensure/types.ts'
import {
  type DriftRow,
  driftTests,
  healthy,
  idle,
  NOW,
  S,
  T,
  timer,
  unit,
  verbs,
  withUnit,
} from '../kit/ensure-fixtures.ts'

// Settings in force that somebody else made, and a timer and its service judged together.

const t = timer(120_000)
const rows: DriftRow[] = [
  [
    'first elapse in a month',
    withUnit(T, unit(t, { firstMs: 2_592_000_000, nextMs: NOW + 2_592_000_000 })),
    'settings-foreign',
    [],
  ],
  ['no first elapse', withUnit(T, unit(t, { firstMs: undefined as never })), 'settings-foreign', []],
  ['no period', withUnit(T, unit(t, { periodMs: undefined as never })), 'settings-foreign', []],
  ['a longer period', withUnit(T, unit(t, { periodMs: 1_800_000 })), 'settings-foreign', []],
  ['a random delay', withUnit(T, unit(t, { lateMs: 60_000 })), 'settings-foreign', []],
  [
    'no period at all',
    withUnit(T, unit(t, { periodMs: Number.POSITIVE_INFINITY, nextMs: Number.POSITIVE_INFINITY })),
    'settings-foreign',
    [],
  ],
  ['another service to fire', withUnit(T, unit(t, { fires: 'x.service' })), 'settings-foreign', []],
  ['another program', withUnit(S, unit(idle, { exec: ['/bin/true'] })), 'settings-foreign', []],
  ['a service that stays active', withUnit(S, unit(idle, { ends: false })), 'settings-foreign', []],
  ['service refused by systemd', withUnit(S, unit(idle, { load: 'bad-setting' })), 'service-bad', []],
  [
    'timer failed because its service is masked',
    {
      ...healthy(),
      units: {
        ...healthy().units,
        [T]: unit(t, { active: 'failed', result: 'resources' }),
        [S]: unit(idle, { load: 'masked' }),
      },
    },
    'service-masked',
    [],
  ],
  [
    'service that has not ended for three periods',
    {
      ...healthy(),
      units: {
        ...healthy().units,
        [T]: unit(t, { sub: 'running', lastMs: NOW - 376_000, nextMs: Number.POSITIVE_INFINITY }),
        [S]: unit(idle, { active: 'active' }),
      },
    },
    'timer-held',
    [`stop ${S}`],
  ],
  [
    'browser with another profile',
    withUnit('chromebox@muse.service', unit(idle, { exec: ['/bin/x --remote-debugging-port=9410'] })),
    'settings-foreign',
    [],
  ],
  [
    'relay in the host’s network',
    withUnit('cdp-relay@muse.service', unit(idle, { netns: '' })),
    'settings-foreign',
    [],
  ],
]
driftTests(rows)

const fine: [string, Observation][] = [
  [
    'a timer that is put off because others start its service',
    {
      ...healthy(),
      units: {
        ...healthy().units,
        [T]: unit(t, { lastMs: NOW - 900_000 }),
        [S]: unit(idle, { startedMs: NOW - 50_000 }),
      },
    },
  ],
  ['a shorter period', withUnit(T, unit(t, { periodMs: 30_000, firstMs: 5000, nextMs: NOW + 5000 }))],
  [
    'other flags of the browser',
    withUnit(
      'chromebox@muse.service',
      unit(idle, {
        exec: ['/x --remote-debugging-port=$CDP_PORT --user-data-dir=/var/lib/chromebox/muse --y'],
        netns: '/run/netns/warp-muse',
      }),
    ),
  ],
]
for (const [name, o] of fine) test(`no drift: ${name}`, () => assert.deepEqual(decideDrift(o), []))

test('foreign settings: the command takes away the files that set them, and no others', () => {
  const slow = (paths: string[]) =>
    withUnit(
      T,
      unit(t, {
        periodMs: 1_800_000,
        foreign: [
          { path: '/etc/x.d/memory.conf', keys: ['MemoryMax'] },
          ...paths.map((path) => ({ path, keys: ['OnUnitActiveSec'] })),
        ],
      }),
    )
  assert.equal(
    decideDrift(slow(['/run/a.conf', '/etc/b.conf']))[0]?.next,
    `rm /run/a.conf /etc/b.conf && systemctl daemon-reload && systemctl restart ${T}`,
  )
  assert.equal(decideDrift(slow([]))[0]?.next, `systemctl cat ${T}`)
})

test('a mask of this boot only has its own command', () => {
  const masked = { load: 'masked', file: 'masked-runtime', active: 'inactive' }
  assert.equal(decideDrift(withUnit(T, unit(t, masked)))[0]?.next, `systemctl unmask --runtime ${T}`)
  assert.equal(decideDrift(withUnit(S, unit(idle, masked)))[0]?.next, `systemctl unmask --runtime ${S}`)
})

test('a unit that systemd refuses is not up to date for ever, and nothing is reloaded for it', () => {
  const refused = unit(idle, { load: 'bad-setting', needReload: true })
  assert.deepEqual(decideDrift(withUnit(S, refused)).flatMap(verbs), [])
})
