import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import type { CloseLook } from '../../lib/relay/types.ts'
import { decide } from '../../lib/supervisors/cdp-relay-watchdog/decide.ts'
import { NO_MEMORY } from '../../lib/supervisors/cdp-relay-watchdog/memory.ts'
import type { Observation } from '../../lib/supervisors/cdp-relay-watchdog/types.ts'
import {
  blind,
  link,
  node,
  now,
  pages,
  policy,
  refused,
  seen,
  timeout,
  units,
  well,
} from '../kit/relay-fixtures.ts'

const arbOwner = fc.record({
  pid: fc.constantFrom(1, 2, 900, 4711),
  startTicks: fc.nat(5),
  program: fc.constantFrom('socat', 'systemd', 'chromium'),
  unit: fc.constantFrom(
    '',
    'init.scope',
    'cdp-relay@muse.service',
    'cdp-relay@pip.service',
    'chromebox@muse.service',
    'user.slice',
  ),
  browser: fc.boolean(),
})
const arbListener = fc
  .record({
    netns: fc.constantFrom('warp-muse', 'warp-pip'),
    address: fc.constantFrom('10.201.35.2', '10.201.87.2', '127.0.0.1', '::1', '0.0.0.0', '::', '172.16.0.2'),
    port: fc.constantFrom(9410, 9420),
    inode: fc.nat(9),
    owners: fc.array(arbOwner, { maxLength: 3 }),
  })
  .map((l) => (l.address === '10.201.87.2' ? { ...l, otherNode: 'pip' } : l))
const arbLook = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 4, arbitrary: value.map(seen) }, { weight: 1, arbitrary: fc.constant(blind('no')) })
const arbLink = fc.record({
  name: fc.constant('ve-1'),
  exists: fc.boolean(),
  up: fc.boolean(),
  hasAddress: fc.boolean(),
})
const arbGood = fc.constant(link())
const arbClose: fc.Arbitrary<CloseLook> = fc.record({
  netns: arbLook(
    fc
      .constantFrom('there', 'there', 'there', 'missing', 'file')
      .map((is) => ({ exists: is !== 'missing', isNamespace: is === 'there' })),
  ),
  peerLink: arbLook(fc.oneof(arbGood, arbLink)),
  inner: arbLook(
    fc
      .constantFrom('answers', 'answers', 'refused', 'silent', 'not-a-browser')
      .map((browser) => ({ browser, detail: '' })),
  ),
  units: arbLook(
    fc
      .record({
        socketActive: fc.constantFrom('active', 'inactive', 'failed'),
        socketResult: fc.constantFrom('success', 'trigger-limit-hit'),
        socketLoad: fc.constantFrom('loaded', 'loaded', 'masked', 'not-found'),
        listen: fc.constantFrom(['10.201.35.2:9410'], ['10.201.35.2:9410'], []),
      })
      .map(units),
  ),
  listeners: arbLook(fc.array(arbListener, { maxLength: 5 })),
})
const arbObservation: fc.Arbitrary<Observation> = fc
  .record(
    {
      node: fc.constant(node),
      veth: arbLook(fc.oneof(arbGood, arbLink)),
      answer: fc.constantFrom(timeout, refused, well),
      close: arbClose,
      paused: fc.constant({ by: 'ann', reason: 'why' }),
    },
    { requiredKeys: ['node', 'veth', 'answer'] },
  )
  .map((o) => (o.answer === well ? { ...o, browser: 'Chrome/156' } : o))

test('whatever is seen: no action on unknown, healthy or paused, none on a layer below, and no wrong victim', () => {
  fc.assert(
    fc.property(arbObservation, (o) => {
      const d = decide(o, NO_MEMORY, now, policy)
      if (d.actions.length > 0) {
        assert.equal(d.verdict.state, 'unhealthy')
        assert.equal(d.verdict.layer, 'relay')
        assert.equal(o.paused, undefined)
        assert.ok(o.close?.inner.seen && o.close.inner.value.browser === 'answers')
        assert.equal(d.actions.at(-1)?.kind, 'restart-relay')
      }
      for (const action of d.actions) {
        if (action.kind !== 'remove-listener') continue
        const { owner: who, listener: what } = action
        assert.ok(who.pid > 1 && !who.browser && !/^(chromebox|cdp-relay)@/.test(who.unit))
        assert.equal(what.port, node.cdpPort)
        assert.ok(what.address === node.peer ? what.netns === node.netns : what.otherNode !== undefined)
        assert.ok(!what.owners.some((x) => x.pid === 1))
      }
      if (d.verdict.state !== 'healthy') assert.notEqual(d.verdict.reason, '')
      if (pages(d)) assert.equal(o.paused, undefined)
    }),
    { numRuns: 3000 },
  )
})
