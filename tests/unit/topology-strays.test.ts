import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ifNames } from '../../lib/registry/names.ts'
import { topologyExit } from '../../lib/topology/command.ts'
import type { FleetLook, UnitSeen } from '../../lib/topology/types.ts'
import {
  blind,
  errors,
  fleet,
  judge,
  link,
  listener,
  museListeners,
  museUnits,
  names,
  seen,
  socat,
  systemd,
} from '../kit/topology-fixtures.ts'

const withUnits = (...more: UnitSeen[]) => seen([...museUnits, ...more])

const strays: readonly [string, Partial<FleetLook>, RegExp, string][] = [
  [
    'a relay on another port',
    { listeners: seen([...museListeners, listener('muse', '10.201.35.2', 9999, { owners: [socat] })]) },
    /listener 10\.201\.35\.2:9999 in warp-muse, socat/,
    'kill 77',
  ],
  [
    'a relay on every address',
    {
      listeners: seen([
        ...museListeners,
        listener('muse', '0.0.0.0', 9999, { owners: [{ ...socat, unit: 'mine.service' }] }),
      ]),
    },
    /0\.0\.0\.0:9999/,
    'systemctl stop mine.service',
  ],
  [
    'not our relay in its place',
    { listeners: seen([listener('muse', '10.201.35.2', 9435, { owners: [socat] })]) },
    /10\.201\.35\.2:9435/,
    'kill 77',
  ],
  [
    'a relay on the host',
    {
      listeners: seen([
        ...museListeners,
        { ...listener('muse', '10.201.35.1', 9435, { owners: [socat] }), netns: '' },
      ]),
    },
    /listener 10\.201\.35\.1:9435 on the host, socat/,
    'kill 77',
  ],
  [
    'a socket unit on a wrong address',
    {
      listeners: seen([...museListeners, listener('muse', '10.201.40.2', 9435)]),
      units: withUnits({ id: 'hand.socket', active: 'active', listen: ['10.201.40.2:9435'] }),
    },
    /10\.201\.40\.2:9435/,
    'systemctl stop hand.socket',
  ],
  [
    'a relay unit without a row',
    { units: withUnits({ id: 'cdp-relay@ghost.socket', active: 'active', listen: ['10.201.50.2:1'] }) },
    /cdp-relay@ghost\.socket/,
    'systemctl stop cdp-relay@ghost.socket',
  ],
  [
    'a namespace without a row',
    { namespaces: seen({ names: ['warp-muse', 'warp-ghost'], others: [] }) },
    /warp-ghost/,
    'ip netns del warp-ghost',
  ],
  [
    'a namespace whose unit is up',
    {
      namespaces: seen({ names: ['warp-muse', 'warp-ghost'], others: [] }),
      units: withUnits({ id: 'netvm-netns@ghost.service', active: 'active', listen: [] }),
    },
    /warp-ghost/,
    'systemctl stop netvm-netns@ghost.service',
  ],
  [
    'a file in its place',
    { namespaces: seen({ names: ['warp-muse'], others: ['warp-ghost'] }) },
    /plain file/,
    'rm /run/netns/warp-ghost',
  ],
  [
    'a namespace of a retired row',
    { namespaces: seen({ names: ['warp-muse', 'warp-old'], others: [] }) },
    /warp-old/,
    'netvm-node-down old',
  ],
  [
    'a veth of nobody',
    { hostLinks: seen([link(ifNames('muse').veth, '10.201.35.1'), link('ve-00000000', '10.201.9.1')]) },
    /ve-00000000/,
    'ip link del ve-00000000',
  ],
  [
    'a browser without a row',
    {
      browsers: seen([
        { pid: 900, node: 'muse', unit: '', netns: 5 },
        { pid: 5, node: 'ghost', unit: '' },
      ]),
    },
    /profile ghost \(pid 5\)/,
    'kill 5',
  ],
  [
    'a browser outside its namespace',
    {
      browsers: seen([
        { pid: 900, node: 'muse', unit: '', netns: 5 },
        { pid: 6, node: 'muse', unit: 'x.service', netns: 1 },
      ]),
    },
    /pid 6/,
    'systemctl stop x.service',
  ],
]
for (const [name, over, what, remove] of strays) {
  test(`stray: ${name} → ${remove}`, () => {
    const t = judge({ registry: { ...fleet().registry, errors: [] }, ...over })
    assert.equal(t.strays.length, 1, JSON.stringify(t.strays))
    assert.match(t.strays[0]?.what ?? '', what)
    assert.equal(t.strays[0]?.remove, remove)
    assert.equal(topologyExit(t), 1)
  })
}

test('what is not ours is not told: other namespaces, other interfaces, our own parts', () => {
  const t = judge({
    hostLinks: seen([
      link(ifNames('muse').veth, '10.201.35.1'),
      link('veth1234', '172.17.0.1'),
      link('docker0', '172.17.0.1'),
    ]),
  })
  assert.deepEqual([t.strays, t.notes], [[], []])
})

test('could not look: told, exit 2, and never a stray', () => {
  const t = judge({ listeners: blind('no ip'), units: blind('no bus'), browsers: blind('hidepid') })
  assert.deepEqual(t.blind, ['listeners: no ip', 'units: no bus', 'browsers: hidepid'])
  assert.deepEqual([t.strays, topologyExit(t)], [[], 2])
})

test('whatever lies around: nothing of an active, refused or foreign row is ever told to be removed', () => {
  const arbOwners = fc.subarray([systemd, socat, { ...socat, pid: 78, unit: 'x.service' }])
  const arb = fc.record({
    unnamed: fc.boolean(),
    namespaces: fc.subarray(names.map((n) => `warp-${n}`)),
    files: fc.subarray(names.map((n) => `warp-${n}`)),
    links: fc.subarray(names.flatMap((n) => Object.values(ifNames(n)))),
    browsers: fc.array(
      fc.record({
        pid: fc.integer({ min: 2, max: 999 }),
        node: fc.constantFrom(...names),
        unit: fc.constantFrom('', 'chromebox@x.service'),
      }),
    ),
    units: fc.subarray(
      names.map((n) => ({ id: `cdp-relay@${n}.socket`, active: 'active', listen: ['10.201.1.2:1'] })),
    ),
    listeners: fc.array(
      fc.tuple(
        fc.constantFrom(...names),
        fc.constantFrom('127.0.0.1', '10.201.41.2', '::'),
        fc.constantFrom(9435, 1),
        arbOwners,
      ),
    ),
  })
  fc.assert(
    fc.property(arb, (r) => {
      const t = judge({
        registry: {
          nodes: fleet().registry.nodes,
          errors: r.unnamed ? [...errors, { line: 12, reason: 'short row' }] : errors,
        },
        namespaces: seen({ names: r.namespaces, others: r.files }),
        hostLinks: seen(r.links.map((name) => link(name, '10.201.1.1'))),
        browsers: seen(r.browsers),
        units: seen(r.units),
        listeners: seen(
          r.listeners.map(([n, address, port, owners]) => listener(n, address, port, { owners })),
        ),
      })
      for (const s of t.strays) {
        assert.doesNotMatch(s.what, /warp-(far|bent)\b|profile (far|bent)\b|@(far|bent)\./)
        for (const name of ['far', 'bent'])
          for (const l of Object.values(ifNames(name))) assert.ok(!s.what.includes(l))
        if (s.kind !== 'listener') assert.doesNotMatch(s.what, /warp-muse\b|profile muse\b|@muse\./)
        assert.doesNotMatch(s.what, /listener 127\./)
        assert.ok(!s.remove?.includes('kill 1\n') && s.remove !== 'kill 1')
        // A refused row without a name may own anything that has none.
        if (r.unnamed) assert.doesNotMatch(s.what, /ghost|pip/)
      }
      for (const n of t.notes) assert.equal(n.remove, undefined)
    }),
    { numRuns: 1000 },
  )
})
