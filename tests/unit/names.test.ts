import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { UsageError } from '../../lib/base/errors.ts'
import type { Node } from '../../lib/base/types.ts'
import { assertNodeName, deriveNames, freeNames, ifNames, isNodeName } from '../../lib/registry/names.ts'

const FLEET: [string, number, number][] = [
  ['muse', 35, 10355],
  ['pip', 87, 9278],
  ['646', 202, 9353],
  ['opm', 157, 10239],
]
for (const [node, octet, port] of FLEET) {
  test(`the reference fleet: ${node} is 10.201.${octet}.0/30, hash port ${port}`, () => {
    const n = deriveNames(node)
    assert.deepEqual([n.octet, n.port], [octet, port])
    assert.deepEqual(
      [n.sub, n.gw, n.peer],
      [`10.201.${octet}.0/30`, `10.201.${octet}.1`, `10.201.${octet}.2`],
    )
    const tag = createHash('sha256').update(node).digest('hex').slice(0, 8)
    assert.deepEqual(
      [n.netns, n.veth, n.vpeer, n.wg],
      [`warp-${node}`, `ve-${tag}`, `vp-${tag}`, `wg-${tag}`],
    )
    assert.deepEqual(ifNames(node), { veth: n.veth, vpeer: n.vpeer, wg: n.wg })
  })
}

const NAMES: [string, boolean][] = [
  ['muse', true],
  ['646', true],
  ['a', true],
  ['node-1', true],
  ['a-', true],
  ['a'.repeat(32), true],
  ['a'.repeat(33), false],
  ['', false],
  ['-a', false],
  ['Muse', false],
  ['a_b', false],
  ['a.b', false],
  ['a/b', false],
  ['..', false],
  ['a b', false],
  ['a\n', false],
  ['a\u0000', false],
  ['ü', false],
  ['a@b', false],
  ['fleet', false],
]
for (const [name, good] of NAMES) {
  test(`name ${JSON.stringify(name)} is ${good ? 'good' : 'refused'}`, () => {
    assert.equal(isNodeName(name), good)
    if (good) assert.equal(assertNodeName(name), name)
    else
      assert.throws(
        () => assertNodeName(name),
        (e: Error) => e instanceof UsageError && /^bad node name "/.test(e.message),
      )
    if (!good) assert.throws(() => deriveNames(name), UsageError)
  })
}

const nodeName = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,31}$/).filter((n) => n !== 'fleet')

test('every name: interface names fit the kernel’s 15 characters, octet and port are in range', () => {
  fc.assert(
    fc.property(nodeName, (name) => {
      const n = deriveNames(name)
      for (const i of [n.veth, n.vpeer, n.wg]) assert.match(i, /^[a-z]{2}-[0-9a-f]{8}$/)
      assert.ok(n.octet >= 10 && n.octet <= 209)
      assert.ok(n.port >= 9222 && n.port <= 11_221)
    }),
  )
})

function row(
  name: string,
  gw: string,
  peer: string,
  cdpPort: number,
  status: Node['status'] = 'active',
): Node {
  const rest = {
    agent: name,
    netns: `warp-${name}`,
    relayTarget: `127.0.0.1:${cdpPort}`,
    chatUrl: '',
    chatTitle: '',
  }
  return { name, gw, peer, cdpPort, status, ...rest, apiCheck: '', host: '', line: 1 }
}

test('freeNames: as derived when nothing is in the way, the node’s own row included', () => {
  const own = deriveNames('muse')
  assert.deepEqual(freeNames('muse', []), own)
  assert.deepEqual(freeNames('muse', [row('muse', own.gw, own.peer, own.port)]), own)
})

test('freeNames: the next free /30 and the next free port, retired rows respected', () => {
  const rows = [
    row('a', '10.201.35.1', '10.201.35.2', 10355, 'retired'),
    row('b', '10.201.36.1', '10.201.36.2', 10356),
  ]
  const n = freeNames('muse', rows)
  assert.deepEqual([n.sub, n.gw, n.peer, n.octet], ['10.201.37.0/30', '10.201.37.1', '10.201.37.2', 37])
  assert.equal(n.port, 10357)
  assert.equal(n.veth, deriveNames('muse').veth)
})

test('freeNames: goes round the ends of both ranges', () => {
  const octets = Array.from({ length: 175 }, (_, i) => 35 + i)
  const rows = octets.map((o, i) => row(`n${i}`, `10.201.${o}.1`, `10.201.${o}.2`, 10_355 + i))
  assert.equal(freeNames('muse', rows).sub, '10.201.10.0/30')
  const ports = Array.from({ length: 867 }, (_, i) => row(`n${i}`, '10.0.0.1', '10.0.0.2', 10_355 + i))
  assert.equal(freeNames('muse', ports).port, 9222)
})

test('freeNames: a fleet grown one by one never collides, past 200 nodes too', () => {
  const rows: Node[] = []
  for (let i = 0; i < 230; i++) {
    const n = freeNames(`node-${i}`, rows)
    rows.push(row(`node-${i}`, n.gw, n.peer, n.port))
  }
  assert.equal(new Set(rows.map((r) => r.gw)).size, 230)
  assert.equal(new Set(rows.map((r) => r.cdpPort)).size, 230)
  assert.equal(rows.filter((r) => r.gw.endsWith('.1')).length, 200)
  assert.equal(rows.filter((r) => r.gw.endsWith('.5')).length, 30)
})

test('freeNames: says so when nothing is left', () => {
  const ports = Array.from({ length: 2000 }, (_, i) => row(`n${i}`, '10.0.0.1', '10.0.0.2', 9222 + i))
  assert.throws(() => freeNames('muse', ports), /no free port left in 9222 to 11221/)
})
