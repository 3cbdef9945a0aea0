import assert from 'node:assert/strict'
import test from 'node:test'
import { judgeBrowser } from '../../lib/browser/judge.ts'
import { parseShow } from '../../lib/host/systemd.ts'
import { topologyExit } from '../../lib/topology/command.ts'
import { unitSeen } from '../../lib/topology/observe.ts'
import type { FleetLook, NodeLook, Part } from '../../lib/topology/types.ts'
import { asked, look as chromebox, silent as frozen, gone, squatted } from '../kit/chromebox-fixtures.ts'
import { close, look, refused, timeout } from '../kit/relay-fixtures.ts'
import { blind, judge, muse, museInside, museLook, seen, stateOf } from '../kit/topology-fixtures.ts'

test('a fleet that is well: every part ok, nothing stray, exit 0', () => {
  const t = judge()
  assert.deepEqual(
    t.nodes[0]?.parts.map((m) => m.state),
    ['ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok'],
  )
  assert.deepEqual([t.strays, t.notes, t.blind, topologyExit(t)], [[], [], [], 0])
})

const node = (over: { watchdog?: Partial<NodeLook['watchdog']>; relay?: Partial<NodeLook['relay']> }) => ({
  nodes: new Map([
    [
      'muse',
      {
        watchdog: { ...museLook.watchdog, ...over.watchdog },
        relay: { ...museLook.relay, ...over.relay },
      },
    ],
  ]),
})
/** What the relay's owner sees when the relay does not answer. */
const silent = (answer: NodeLook['relay']['answer'], inner: 'answers' | 'silent') => {
  const { browser: _, ...relay } = look({ answer, node: muse })
  return { ...relay, close: close({ inner: seen({ browser: inner, detail: inner }) }) }
}
const relayOnly = (relay: ReturnType<typeof silent>): Partial<FleetLook> => ({
  nodes: new Map([['muse', { ...museLook, relay: { ...relay, veth: museLook.relay.veth } }]]),
})
const veth = (over: object) =>
  node({ relay: { veth: seen({ name: 've-1', exists: true, up: true, hasAddress: true, ...over }) } })
const browserIs = (...of: Parameters<typeof chromebox>) =>
  node({ watchdog: { browser: judgeBrowser(chromebox(...of), asked) } })
const egress = (over: Partial<NonNullable<NodeLook['watchdog']['egress']>>) =>
  node({
    watchdog: {
      egress: {
        state: 'unhealthy',
        code: 'egress-no-answer',
        reason: 'r',
        evidence: [],
        repair: true,
        ...over,
      },
    },
  })

const parts: readonly [string, Partial<FleetLook>, Part, string, RegExp][] = [
  ['veth bare', veth({ hasAddress: false }), 'veth', 'fail', /has no 10\.201\.35\.1\/30/],
  ['veth gone', veth({ exists: false }), 'veth', 'fail', /has no/],
  ['veth down', veth({ up: false }), 'veth', 'fail', /is down/],
  ['veth not seen', node({ relay: { veth: blind('no ip') } }), 'veth', 'unknown', /no ip/],
  [
    'namespace gone',
    node({ watchdog: { netns: seen({ exists: false, isNamespace: false }) } }),
    'netns',
    'fail',
    /missing/,
  ],
  [
    'namespace a file',
    node({ watchdog: { netns: seen({ exists: true, isNamespace: false }) } }),
    'netns',
    'fail',
    /is no namespace/,
  ],
  [
    'peer bare',
    { inside: new Map([['warp-muse', { ...museInside, links: seen([]) }]]) },
    'peer',
    'fail',
    /^veth vp-/,
  ],
  ['relay refused', relayOnly(silent(refused, 'answers')), 'relay', 'fail', /^cdp-relay@muse/],
  ['relay before a frozen browser', relayOnly(silent(timeout, 'silent')), 'relay', 'not-checked', /^$/],
  ['frozen browser', browserIs(300, frozen), 'cdp', 'fail', /no answer/],
  ['port squatted', browserIs(300, squatted), 'cdp', 'fail', /squatted/],
  ['another page', browserIs(300, undefined, gone), 'page', 'fail', /News/],
  ['no browser', browserIs(undefined), 'process', 'fail', /none/],
  ['tunnel dead', egress({}), 'egress', 'fail', /^r$/],
  ['uplink down', egress({ code: 'uplink-down' }), 'egress', 'fail', /^r$/],
  ['tunnel not seen', egress({ state: 'unknown', code: 'egress-unseen' }), 'egress', 'unknown', /^r$/],
  [
    'no tunnel wanted',
    egress({ state: 'not-configured', note: 'not configured' }),
    'egress',
    'not-configured',
    /not/,
  ],
]
for (const [name, over, part, state, note] of parts) {
  test(`node: ${name}`, () => {
    const found = stateOf(over, part)
    assert.equal(found?.state, state)
    assert.match(found?.note ?? '', note)
  })
}

test('a second process of the profile is told and left alone', () => {
  const browsers = seen([
    { pid: 4711, node: 'muse', unit: 'chromebox@muse.service', netns: 5 },
    { pid: 4, node: 'muse', unit: '', netns: 5 },
  ])
  const t = judge({ browsers })
  assert.deepEqual(
    [t.strays, t.notes.map((n) => `${n.what}: ${n.why}`), topologyExit(t)],
    [[], ['browser of profile muse (pid 4): the browser of muse is pid 4711'], 0],
  )
})

test('systemctl show for patterns, as the program prints them', () => {
  const units = parseShow(
    'Id=cdp-relay@a.socket\nActiveState=active\nListen=10.201.1.2:9400 (Stream)\n\nId=chromebox@a.service\nActiveState=failed\n',
  ).map(unitSeen)
  assert.deepEqual(units, [
    { id: 'cdp-relay@a.socket', active: 'active', listen: ['10.201.1.2:9400'] },
    { id: 'chromebox@a.service', active: 'failed', listen: [] },
  ])
  assert.deepEqual(parseShow(''), [])
})
