import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { inNetns, lookInterfaces, lookNetns, parseInterfaces } from '../../lib/host/netns.ts'
import { namespaceOf } from '../../lib/host/proc.ts'
import { linkWith } from '../../lib/relay/look.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { inside, ownNetns } from '../kit/own-netns.ts'
import { patience } from '../kit/unit.ts'

function temp(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'netns-'))
  t.after(() => rmSync(dir, { recursive: true }))
  return dir
}

test('look: nothing there, and no directory for namespaces at all', (t) => {
  const missing = { seen: true, value: { exists: false, isNamespace: false } }
  assert.deepEqual(lookNetns({ netnsDir: temp(t) }, 'warp-n1'), missing)
  assert.deepEqual(lookNetns({ netnsDir: '/nonexistent' }, 'warp-n1'), missing)
})

test('look: a plain file, a directory and a dangling link are no namespace', (t) => {
  const netnsDir = temp(t)
  writeFileSync(join(netnsDir, 'warp-file'), '')
  execFileSync('mkdir', [join(netnsDir, 'warp-dir')])
  symlinkSync('/nonexistent', join(netnsDir, 'warp-link'))
  for (const [name, exists] of [
    ['warp-file', true],
    ['warp-dir', true],
    ['warp-link', false],
  ] as const) {
    assert.deepEqual(lookNetns({ netnsDir }, name), { seen: true, value: { exists, isNamespace: false } })
  }
})

test('look: a namespace, with the inode its processes show', (t) => {
  const netnsDir = temp(t)
  symlinkSync('/proc/self/ns/net', join(netnsDir, 'warp-here'))
  const own = namespaceOf('/proc', process.pid)
  assert.ok(own !== undefined)
  assert.deepEqual(lookNetns({ netnsDir }, 'warp-here'), {
    seen: true,
    value: { exists: true, isNamespace: true, inode: own },
  })
})

test('look: not allowed to look is not "missing"', { skip: needsRoot('gives up root for a moment') }, (t) => {
  const netnsDir = temp(t)
  writeFileSync(join(netnsDir, 'warp-n1'), '')
  chmodSync(netnsDir, 0o700)
  t.after(() => process.seteuid?.(0))
  process.seteuid?.(65534)
  const look = lookNetns({ netnsDir }, 'warp-n1')
  process.seteuid?.(0)
  assert.match(look.seen ? 'seen' : look.why, /EACCES/)
})

test('the argument vector never goes through a shell', () => {
  assert.deepEqual(inNetns('warp-n1', ['curl', '-q', '$(x)']), [
    'ip',
    'netns',
    'exec',
    'warp-n1',
    'curl',
    '-q',
    '$(x)',
  ])
})

const link = (over: object = {}): object => ({
  ifname: 've-1',
  flags: ['BROADCAST', 'UP', 'LOWER_UP'],
  addr_info: [{ family: 'inet', local: '10.201.35.1', prefixlen: 30 }],
  ...over,
})
const veths: [string, object[], { exists: boolean; up: boolean; hasAddress: boolean }][] = [
  ['all well', [link()], { exists: true, up: true, hasAddress: true }],
  ['no interface', [link({ ifname: 've-2' })], { exists: false, up: false, hasAddress: false }],
  ['empty entries', [{}, {}], { exists: false, up: false, hasAddress: false }],
  ['address stripped', [link({ addr_info: [] })], { exists: true, up: true, hasAddress: false }],
  ['no list of addresses', [link({ addr_info: undefined })], { exists: true, up: true, hasAddress: false }],
  ['down', [link({ flags: ['BROADCAST'] })], { exists: true, up: false, hasAddress: true }],
  [
    'another prefix',
    [link({ addr_info: [{ family: 'inet', local: '10.201.35.1', prefixlen: 32 }] })],
    { exists: true, up: true, hasAddress: false },
  ],
  [
    'another address, one that begins the same',
    [link({ addr_info: [{ family: 'inet', local: '10.201.35.10', prefixlen: 30 }] })],
    { exists: true, up: true, hasAddress: false },
  ],
  [
    'second address',
    [link({ addr_info: [{ family: 'inet6', local: 'fe80::1', prefixlen: 64 }, null, ...addressOf(link())] })],
    { exists: true, up: true, hasAddress: true },
  ],
]
function addressOf(entry: object): object[] {
  return (entry as { addr_info: object[] }).addr_info
}
for (const [name, entries, want] of veths) {
  test(`veth: ${name}`, () => {
    const interfaces = parseInterfaces(JSON.stringify(entries))
    assert.ok(interfaces)
    // No name begins so: it is found by its own.
    const link = linkWith(interfaces, '10.201.35.1', 'no-', () => 've-1')
    assert.deepEqual(link, { name: 've-1', ...want })
  })
}

test('interfaces: names, flags and addresses, both families', () => {
  const text = JSON.stringify([
    {},
    {
      ifname: 'lo',
      flags: ['LOOPBACK', 'UP'],
      addr_info: [{ family: 'inet', local: '127.0.0.1', prefixlen: 8 }],
    },
    {
      ifname: 'vp-1',
      flags: ['BROADCAST'],
      addr_info: [{ family: 'inet6', local: 'fe80::1', prefixlen: 64 }],
    },
  ])
  assert.deepEqual(parseInterfaces(text), [
    { name: 'lo', up: true, ipv4: ['127.0.0.1/8'], ipv6: false },
    { name: 'vp-1', up: false, ipv4: [], ipv6: true },
  ])
})

test('interfaces: what is not the JSON of ip is not an empty host', () => {
  assert.equal(parseInterfaces('Device does not exist'), undefined)
  assert.equal(parseInterfaces('{}'), undefined)
  assert.deepEqual(parseInterfaces(''), [])
  assert.deepEqual(parseInterfaces('[{}]'), [])
})

test('interfaces: the real host has a loopback', async () => {
  const look = await lookInterfaces()
  assert.ok(look.seen, JSON.stringify(look))
  const lo = look.value.find((l) => l.name === 'lo')
  assert.deepEqual([lo?.up, lo?.ipv4.includes('127.0.0.1/8')], [true, true])
})

test('interfaces: ip missing, failing, stuck or saying something else is "could not look"', async (t) => {
  const dir = temp(t)
  const path = process.env.PATH
  t.after(() => {
    process.env.PATH = path
  })
  process.env.PATH = dir
  const look = async (deadlineMs = patience(30_000)): Promise<string> => {
    const got = await lookInterfaces(undefined, deadlineMs)
    return got.seen ? 'seen' : got.why
  }
  assert.match(await look(), /missing/)
  for (const [script, why] of [
    ['echo "RTNETLINK answers: no" >&2; exit 2', /RTNETLINK answers: no/],
    ['echo hello', /something else than JSON/],
    ['echo "[]"', /listed no interface/],
    ['exec /bin/sleep 600', /no answer in 300 ms/],
  ] as const) {
    writeFileSync(join(dir, 'ip'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    // One that answers does so when it does; only the stuck one is ended by us.
    assert.match(await look(script.includes('sleep') ? 300 : undefined), why)
  }
})

test('a real namespace: seen, entered, and gone', { skip: needsRoot('ip netns add') }, async (t) => {
  const netns = ownNetns(t, 'look')
  const look = lookNetns({ netnsDir: '/run/netns' }, netns)
  assert.equal(look.seen && look.value.isNamespace, true)
  assert.equal(look.seen && look.value.inode, statSync(`/run/netns/${netns}`).ino)
  const { pid } = await inside(t, netns, 'console.log(1); setInterval(() => {}, 1e6)')
  const ns = namespaceOf('/proc', pid)
  assert.equal(ns, look.seen && look.value.inode)
  const interfaces = await lookInterfaces(netns)
  assert.deepEqual(interfaces.seen && interfaces.value.map((i) => i.name), ['lo'])
  const other = await lookInterfaces(`${netns}-other`)
  assert.match(other.seen ? 'seen' : other.why, /other/)
})
