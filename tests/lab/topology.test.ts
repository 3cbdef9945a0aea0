import assert from 'node:assert/strict'
import { appendFileSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { before, beforeEach, test } from 'node:test'
import type { Stray, Topology } from '../../lib/topology/types.ts'
import { addresses, identities, relayDown, relayFleet, squat } from '../kit/lab/relay.ts'
import { ok, sh, until } from '../kit/lab.ts'

type Seen = Topology & { exit: number }

function topology(): Seen {
  const ran = sh(['netvm-topology', '--json'])
  const seen = JSON.parse(ran.stdout) as Seen
  assert.equal(ran.code, seen.exit)
  return seen
}
const part = (seen: Seen, node: string, name: string) =>
  seen.nodes.find((n) => n.node === node)?.parts.find((m) => m.part === name)

const REGISTRY = '/etc/netvm/NODES.md'
let browsers: ReturnType<typeof identities>
let registry = ''
before(async () => {
  await relayFleet('muse', 'pip')
  browsers = identities('muse', 'pip')
  registry = readFileSync(REGISTRY, 'utf8')
})

/** Whatever a test that failed left behind is no other one's stray. */
beforeEach(() => {
  writeFileSync(REGISTRY, registry)
  const seen = topology()
  if (seen.exit === 0) return
  for (const { remove } of seen.strays) if (remove !== undefined) sh(['bash', '-c', remove])
  for (const node of ['muse', 'pip']) sh(['netvm-node-up', node], { deadlineMs: 150_000 })
  browsers = identities('muse', 'pip')
})

/** Runs the command that is told to remove it, and looks until it is gone. */
async function removed(what: RegExp): Promise<Stray> {
  const found = topology().strays.find((s) => what.test(s.what))
  assert.ok(found, `${what} in ${JSON.stringify(topology().strays)}`)
  ok(['bash', '-c', found.remove ?? 'false'])
  await until(`${what} is gone`, () => !topology().strays.some((s) => what.test(s.what)), 30_000, 300)
  assert.deepEqual(identities('muse', 'pip'), browsers)
  return found
}

test('a clean fleet: every part ok, exit 0, and the screen for people says the same', () => {
  const seen = topology()
  assert.deepEqual(
    [seen.exit, seen.strays, seen.notes, seen.blind],
    [0, [], [], []],
    JSON.stringify(seen, null, 1),
  )
  for (const { node, parts } of seen.nodes) {
    assert.deepEqual(
      parts.map((m) => `${m.part} ${m.state}`),
      [
        'veth ok',
        'netns ok',
        'peer ok',
        'egress not-configured',
        'process ok',
        'cdp ok',
        'page ok',
        'relay ok',
      ],
      node,
    )
  }
  assert.match(
    ok(['netvm-topology']),
    /^muse\s+veth ✓ {2}netns ✓ {2}peer ✓ {2}egress - {2}process ✓ {2}cdp ✓ {2}page ✓ {2}relay ✓ /m,
  )
})

test('a relay on an unregistered port, and one on a wrong address', async () => {
  const { peer, port } = addresses('muse')
  await squat('warp-muse', peer, port + 1)
  await squat('warp-pip', addresses('pip').peer, port)
  assert.match((await removed(new RegExp(`${peer}:${port + 1} in warp-muse`))).remove ?? '', /^kill \d+$/)
  assert.match((await removed(/in warp-pip/)).why, /touches the row of muse/)
})

test('a relay unit that no row owns', async () => {
  ok(['ip', 'netns', 'add', 'warp-ghost'])
  ok(['ip', '-n', 'warp-ghost', 'link', 'set', 'lo', 'up'])
  ok([
    'systemd-run',
    '--unit=legacy-relay',
    '-p',
    'NetworkNamespacePath=/run/netns/warp-ghost',
    'node',
    '-e',
    "require('net').createServer(()=>{}).listen(9777,'0.0.0.0')",
  ])
  await until('it listens', () => topology().strays.some((s) => s.what.includes(':9777')), 30_000, 300)
  assert.equal((await removed(/:9777 in warp-ghost/)).remove, 'systemctl stop legacy-relay.service')
  assert.equal((await removed(/namespace warp-ghost/)).remove, 'ip netns del warp-ghost')
})

test('namespaces and veths of nobody, and a plain file in the place of one', async () => {
  ok(['ip', 'netns', 'add', 'warp-ghost'])
  ok(['ip', 'link', 'add', 've-0badcafe', 'type', 'veth', 'peer', 'name', 'vp-0badcafe'])
  ok(['ip', 'link', 'set', 'vp-0badcafe', 'netns', 'warp-ghost'])
  writeFileSync('/run/netns/warp-file', '')
  assert.equal(topology().exit, 1)
  await removed(/interface ve-0badcafe/)
  await removed(/namespace warp-ghost/)
  await removed(/warp-file/)
})

test('a browser that no row owns, and one outside the namespace of its node', async () => {
  // The executable makes a browser, so the stand-in has the name of one, which this lab does not take for a node's own.
  const program = '/var/lib/headless_shell'
  copyFileSync(process.execPath, program)
  for (const profile of ['ghost', 'muse']) {
    const argv = ['-e', 'setInterval(() => {}, 1000)', '--', `--user-data-dir=/var/lib/chromebox/${profile}`]
    ok(['systemd-run', `--unit=stray-${profile}`, program, ...argv])
  }
  await until('both are seen', () => topology().strays.length === 2, 30_000, 300)
  assert.equal((await removed(/profile ghost/)).remove, 'systemctl stop stray-ghost.service')
  assert.match((await removed(/profile muse/)).why, /not in warp-muse/)
})

test('what a refused or a foreign row owns is shown and never told to be removed', () => {
  const row = registry.split('\n').find((l) => /^\|\s*pip\s/.test(l)) ?? ''
  writeFileSync(REGISTRY, registry.replace(row, row.replace('10.201.87.2', '10.201.87.999')))
  const seen = topology()
  assert.deepEqual(seen.strays, [])
  assert.ok(seen.notes.length >= 3, JSON.stringify(seen.notes))
  for (const note of seen.notes) assert.match(note.why, /line \d+ was refused/)
  assert.deepEqual(
    seen.nodes.map((n) => n.node),
    ['muse'],
  )
  // A refused row without a readable name may own anything that nobody else does.
  writeFileSync(REGISTRY, registry)
  appendFileSync(REGISTRY, `${row.replace('pip', 'p p')}\n`)
  ok(['ip', 'netns', 'add', 'warp-ghost'])
  assert.deepEqual([topology().strays, topology().notes.map((n) => n.what)], [[], ['namespace warp-ghost']])
  ok(['ip', 'netns', 'del', 'warp-ghost'])
  writeFileSync(REGISTRY, registry)
  assert.equal(topology().exit, 0)
})

test('what is broken is shown at its own layer', () => {
  const { veth, gw } = addresses('muse')
  ok(['ip', 'addr', 'del', `${gw}/30`, 'dev', veth])
  relayDown('pip')
  const seen = topology()
  assert.equal(seen.exit, 1)
  assert.match(part(seen, 'muse', 'veth')?.note ?? '', /has no 10\.201\.35\.1\/30/)
  assert.deepEqual([part(seen, 'pip', 'relay')?.state, part(seen, 'pip', 'cdp')?.state], ['fail', 'ok'])
  ok(['ip', 'addr', 'add', `${gw}/30`, 'dev', veth])
  ok(['systemctl', 'start', 'cdp-relay@pip.socket'])
  assert.equal(topology().exit, 0)
})

test('a shell that cannot see says so and condemns nothing it cannot see', () => {
  const ran = sh(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', 'netvm-topology', '--json'])
  const seen = JSON.parse(ran.stdout) as Seen
  assert.deepEqual([ran.code, seen.strays], [2, []], ran.all)
  assert.ok(seen.blind.length > 0)
})
