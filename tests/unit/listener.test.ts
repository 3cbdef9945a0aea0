import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { holdsListener, listenersIn } from '../../lib/host/listeners.ts'
import { lookNetns } from '../../lib/host/netns.ts'
import { namespaceOf } from '../../lib/host/proc.ts'
import { parseTcpTable } from '../../lib/host/tcp-table.ts'
import { type FakeProc, fakeProc, TCP_HEAD } from '../kit/fake-proc.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { inside, ownNetns } from '../kit/own-netns.ts'

/** A row as the kernel prints it; 24C2 is port 9410. */
const row = (address: string, inode: number, port = '24C2', state = '0A'): string => {
  const remote = '0'.repeat(address.length)
  return `   0: ${address}:${port} ${remote}:0000 ${state} 00000000:00000000 00:00000000 00000000   999        0 ${inode} 1 0000 100 0 0 10 0`
}
const tcp = (...rows: string[]): string => `${[TCP_HEAD, ...rows].join('\n')}\n`
const ANY4 = '00000000'
const LO4 = '0100007F'
const GW4 = '0123C90A'
const ANY6 = '0'.repeat(32)
const LO6 = '00000000000000000000000001000000'
const MAPPED = '0000000000000000FFFF00000100007F'

const addresses: [string, string][] = [
  [LO4, '127.0.0.1'],
  [ANY4, '0.0.0.0'],
  [GW4, '10.201.35.1'],
  [ANY6, '::'],
  [LO6, '::1'],
  [MAPPED, '::ffff:127.0.0.1'],
  ['B80D0120000000000000000001000000', '2001:db8::1'],
  ['000080FE00000000FF005450ADDE0000', 'fe80::5054:ff:0:dead'],
  ['B80D0120000000000000010001000000', '2001:db8::1:0:0:1'],
  ['B80D0120010000000000000001000000', '2001:db8:0:1::1'],
]
for (const [hex, text] of addresses) {
  test(`table: ${hex} is ${text}`, () => {
    assert.deepEqual(parseTcpTable(tcp(row(hex, 7))), [{ address: text, port: 9410, inode: 7 }])
  })
}

test('table: only listening sockets; odd lines are skipped', () => {
  const table = tcp(
    row(LO4, 1, '24C2', '01'),
    row(LO4, 2, '24C2', '06'),
    '',
    'x y z',
    row('01', 4),
    row(LO4, 3),
  )
  assert.deepEqual(parseTcpTable(table), [{ address: '127.0.0.1', port: 9410, inode: 3 }])
})

function browserWith(t: TestContext, tables: { tcp?: string; tcp6?: string }, sockets: number[]): FakeProc {
  const fake = fakeProc()
  t.after(fake.remove)
  fake.add({ pid: 100, argv: ['chromium'], netns: 7, tcp: tcp(), ...tables, sockets })
  return fake
}

const held: [string, { tcp?: string; tcp6?: string }, number[], boolean][] = [
  ['its own, 127.0.0.1', { tcp: tcp(row(LO4, 5)) }, [4, 5], true],
  ['its own, 0.0.0.0', { tcp: tcp(row(ANY4, 5)) }, [5], true],
  // Case 45: what is dialled is 127.0.0.1.
  ['its own, ::1', { tcp6: tcp(row(LO6, 5)) }, [5], false],
  [
    '45: its own on ::1, a squatter on 127.0.0.1',
    { tcp: tcp(row(LO4, 6)), tcp6: tcp(row(LO6, 5)) },
    [5],
    false,
  ],
  ['45: its own on ::1, a squatter on any', { tcp6: tcp(row(ANY6, 6), row(LO6, 5)) }, [5], false],
  ['45: its own, beside one on any address', { tcp: tcp(row(ANY4, 6), row(LO4, 5)) }, [5], true],
  [
    '45: any address of IPv4 before both protocols',
    { tcp: tcp(row(ANY4, 6)), tcp6: tcp(row(ANY6, 5)) },
    [5],
    false,
  ],
  ['its own, ::', { tcp6: tcp(row(ANY6, 5)) }, [5], true],
  ['its own, mapped', { tcp6: tcp(row(MAPPED, 5)) }, [5], true],
  ['a squatter', { tcp: tcp(row(LO4, 6)) }, [5], false],
  ['a squatter on any address', { tcp6: tcp(row(ANY6, 6)) }, [5], false],
  ['both, on two addresses', { tcp: tcp(row(LO4, 5)), tcp6: tcp(row(LO6, 6)) }, [5], true],
  ['the relay on the peer address', { tcp: tcp(row(GW4, 6)) }, [5], false],
  ['another port', { tcp: tcp(row(LO4, 5, '24C3')) }, [5], false],
  ['a connection only', { tcp: tcp(row(LO4, 5, '24C2', '01')) }, [5], false],
  ['nobody', {}, [5], false],
]
for (const [name, tables, sockets, holds] of held) {
  test(`port held by ${name}`, (t) => {
    const fake = browserWith(t, tables, sockets)
    assert.deepEqual(holdsListener(fake, 100, 9410), { seen: true, value: holds })
  })
}

test('listeners: filtered by address, with the process that holds each', (t) => {
  const fake = browserWith(
    t,
    { tcp: tcp(row(LO4, 5), row(GW4, 6), row(GW4, 8, '24C3')), tcp6: tcp(row(LO6, 9)) },
    [5],
  )
  // systemd holds a relay's socket from its own namespace.
  fake.add({ pid: 3, argv: ['/lib/systemd/systemd', '--user'], netns: 1, sockets: [6] })
  assert.deepEqual(listenersIn(fake, 100, 9410), {
    seen: true,
    value: [
      { address: '127.0.0.1', port: 9410, inode: 5, pid: 100 },
      { address: '10.201.35.1', port: 9410, inode: 6, pid: 3 },
      { address: '::1', port: 9410, inode: 9 },
    ],
  })
  const one = listenersIn(fake, 100, 9410, '10.201.35.1')
  assert.deepEqual(one.seen && one.value.map((l) => l.pid), [3])
  assert.deepEqual(listenersIn(fake, 100, 1), { seen: true, value: [] })
})

test('cannot look: the process is gone, there is no process table, descriptors are hidden', (t) => {
  const fake = browserWith(t, { tcp: tcp(row(LO4, 5)) }, [5])
  fake.add({ pid: 101, argv: ['chromium'], netns: 7, tcp: tcp(row(LO4, 5)) })
  rmSync(join(fake.proc, '101/fd'), { recursive: true })
  for (const look of [
    holdsListener(fake, 999, 9410),
    holdsListener(fake, 101, 9410),
    listenersIn(fake, 999, 9410),
    listenersIn({ proc: '/nonexistent' }, 100, 9410),
  ]) {
    assert.equal(look.seen, false, JSON.stringify(look))
  }
})

test('real: this process holds its own port, IPv4 and IPv6, and nobody else does', async (t) => {
  for (const host of ['127.0.0.1', '0.0.0.0', '::']) {
    const server = createServer().listen(0, host)
    await once(server, 'listening')
    t.after(() => server.close())
    const { port } = server.address() as AddressInfo
    assert.deepEqual(holdsListener({ proc: '/proc' }, process.pid, port), { seen: true, value: true })
    const found = listenersIn({ proc: '/proc' }, process.pid, port)
    assert.deepEqual(found.seen && found.value.map((l) => [l.address, l.pid]), [[host, process.pid]])
  }
})

test('real: a listener inside a namespace, looked at by name and by process', {
  skip: needsRoot('ip netns add'),
}, async (t) => {
  const netns = ownNetns(t, 'listen')
  const script =
    'const s=require("net").createServer().listen(0,"127.0.0.1",()=>console.log(s.address().port))'
  const { pid, line } = await inside(t, netns, script)
  const port = Number(line)
  const look = lookNetns({ netnsDir: '/run/netns' }, netns)
  const inode = (look.seen && look.value.inode) || 0
  assert.equal(namespaceOf('/proc', pid), inode)
  for (const where of [pid, netns]) {
    const found = listenersIn({ proc: '/proc' }, where, port)
    assert.deepEqual(found.seen && found.value.map((l) => [l.address, l.pid]), [['127.0.0.1', pid]])
  }
  assert.deepEqual(listenersIn({ proc: '/proc' }, process.pid, port), { seen: true, value: [] })
  const other = listenersIn({ proc: '/proc' }, `${netns}-other`, port)
  assert.match(other.seen ? 'seen' : other.why, /cannot look into/)
})

test('real: a named namespace nobody is in can be looked at', { skip: needsRoot('ip netns add') }, (t) => {
  const netns = ownNetns(t, 'empty')
  assert.deepEqual(listenersIn({ proc: '/proc' }, netns, 9410), { seen: true, value: [] })
})
