import assert from 'node:assert/strict'
import test from 'node:test'
import { ifNames } from '../../lib/names.ts'
import { topologyExit } from '../../lib/topology/command.ts'
import { parseHandshakes, parseUnits } from '../../lib/topology/observe.ts'
import type { FleetLook, InsideLook, Part } from '../../lib/topology/types.ts'
import { blind, judge, link, museInside, museLook, seen, stateOf } from '../kit/topology-fixtures.ts'

test('a fleet that is well: every part ok, nothing stray, exit 0', () => {
  const t = judge()
  assert.deepEqual(
    t.nodes[0]?.parts.map((m) => m.state),
    ['ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok'],
  )
  assert.deepEqual([t.strays, t.notes, t.blind, topologyExit(t)], [[], [], [], 0])
})

const timeout = { kind: 'timeout', stage: 'headers', detail: 'no answer', ms: 5000 } as const
const refused = { kind: 'refused', stage: 'connect', detail: 'connection refused', ms: 1 } as const
const asked = (answer: typeof timeout | typeof refused, browser: 'answers' | 'silent' | 'refused') => ({
  nodes: new Map([['muse', { answer, inner: seen({ browser, detail: browser }), tunnelConfigured: true }]]),
})
const inside = (over: Partial<InsideLook>) => ({
  inside: new Map([['warp-muse', { ...museInside, ...over }]]),
})

const parts: readonly [string, Partial<FleetLook>, Part, string, RegExp][] = [
  [
    'veth bare',
    { hostLinks: seen([link(ifNames('muse').veth, '10.9.9.9')]) },
    'veth',
    'fail',
    /has no 10\.201\.35\.1\/30/,
  ],
  [
    'veth with the address and another prefix',
    {
      hostLinks: seen([
        {
          ...link(ifNames('muse').veth, ''),
          inet: [{ address: '10.201.35.1', prefixLength: 24 }],
        },
      ]),
    },
    'veth',
    'fail',
    /has no/,
  ],
  ['veth gone', { hostLinks: seen([]) }, 'veth', 'fail', /^no ve-/],
  ['veth not seen', { hostLinks: blind('no ip') }, 'veth', 'unknown', /no ip/],
  ['namespace gone', { namespaces: seen({ names: [], others: [] }) }, 'netns', 'fail', /warp-muse missing/],
  [
    'namespace a file',
    { namespaces: seen({ names: [], others: ['warp-muse'] }) },
    'netns',
    'fail',
    /not a namespace/,
  ],
  ['peer bare', inside({ links: seen([]) }), 'peer', 'fail', /^no vp-/],
  ['relay refused', asked(refused, 'answers'), 'relay', 'fail', /connection refused/],
  ['relay before a frozen browser', asked(timeout, 'silent'), 'relay', 'ok', /takes connections/],
  ['frozen browser', asked(timeout, 'silent'), 'cdp', 'fail', /silent/],
  [
    'browser elsewhere',
    { browsers: seen([{ pid: 3, node: 'muse', unit: '', netns: 6 }]) },
    'browser',
    'fail',
    /outside/,
  ],
  [
    'two browsers',
    {
      browsers: seen([
        { pid: 3, node: 'muse', unit: '' },
        { pid: 4, node: 'muse', unit: '' },
      ]),
    },
    'browser',
    'fail',
    /^2 processes were started with its profile: pid 3, pid 4; end the others$/,
  ],
  [
    'no tunnel interface',
    inside({ links: seen([link(ifNames('muse').vpeer, '10.201.35.2')]) }),
    'tunnel',
    'fail',
    /^no wg-/,
  ],
  [
    'never a handshake',
    inside({ handshakes: seen(new Map([[ifNames('muse').wg, 0]])) }),
    'tunnel',
    'fail',
    /never/,
  ],
  ['no peers', inside({ handshakes: seen(new Map()) }), 'tunnel', 'fail', /no peer/],
  [
    'an old handshake',
    inside({ handshakes: seen(new Map([[ifNames('muse').wg, 1]])) }),
    'tunnel',
    'ok',
    /999s ago/,
  ],
  [
    'no tunnel wanted',
    {
      ...inside({ links: seen([]) }),
      nodes: new Map([['muse', { ...museLook, tunnelConfigured: false }]]),
    },
    'tunnel',
    'not-configured',
    /^$/,
  ],
]
for (const [name, over, part, state, note] of parts) {
  test(`node: ${name}`, () => {
    const found = stateOf(over, part)
    assert.equal(found?.state, state)
    assert.match(found?.note ?? '', note)
  })
}

test('systemctl show for patterns, and handshakes, as the programs print them', () => {
  const units = parseUnits(
    'Id=cdp-relay@a.socket\nActiveState=active\nListen=10.201.1.2:9400 (Stream)\n\nId=chromebox@a.service\nActiveState=failed\n',
  )
  assert.deepEqual(units, [
    { id: 'cdp-relay@a.socket', active: 'active', listen: ['10.201.1.2:9400'] },
    { id: 'chromebox@a.service', active: 'failed', listen: [] },
  ])
  assert.deepEqual(parseUnits(''), [])
  assert.deepEqual(
    [...parseHandshakes('wg-1\tkey=\t17\nwg-1\tk2=\t9\nwg-2\tk=\t0\nnonsense\n')],
    [
      ['wg-1', 17],
      ['wg-2', 0],
    ],
  )
})
