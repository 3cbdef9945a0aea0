import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import {
  describeProcess,
  listenersEverywhere,
  ownersOf,
  parseEverywhere,
  socketsOf,
  unitOfCgroup,
} from '../../lib/host/listeners.ts'
import { parseTcpTable } from '../../lib/host/tcp-table.ts'
import { removeListener } from '../../lib/relay/repair.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { inside, ownNetns } from '../kit/own-netns.ts'
import { tempDir } from '../kit/temp.ts'

const p = { proc: '/proc' }

/** A child that listens on a port of its own; what `code` adds runs first. */
async function listening(
  t: TestContext,
  code = '',
): Promise<{ child: ChildProcess; port: number; inode: number }> {
  const script = `${code};const s=require('net').createServer(()=>{}).listen(0,'127.0.0.1',()=>console.log(s.address().port))`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [data] = await once(child.stdout, 'data')
  const port = Number(String(data))
  const table = parseTcpTable(readFileSync('/proc/net/tcp', 'latin1'))
  const inode = table.find((l) => l.port === port)?.inode ?? 0
  return { child, port, inode }
}

async function removal(t: TestContext, code = '') {
  const { child, port, inode } = await listening(t, code)
  const [owner] = ownersOf(p, new Set([inode])).get(inode) ?? []
  assert.ok(owner)
  assert.equal(owner.pid, child.pid)
  assert.match(owner.program, /^node /)
  const listener = { netns: 'warp-x', address: '127.0.0.1', port, inode, owners: [owner] }
  return { child, action: { kind: 'remove-listener', owner, listener } as const }
}

test('a listener is found with its holder and ended by TERM', async (t) => {
  const { child, action } = await removal(t)
  const done = await removeListener(p, action)
  assert.deepEqual([done.ok, /SIGTERM/.test(done.detail)], [true, true])
  if (child.signalCode === null) await once(child, 'exit')
  assert.equal(child.signalCode, 'SIGTERM')
})

test('one that ignores TERM is killed', async (t) => {
  const { child, action } = await removal(t, "process.on('SIGTERM',()=>{})")
  const done = await removeListener(p, action)
  assert.deepEqual([done.ok, /SIGKILL/.test(done.detail)], [true, true])
  if (child.signalCode === null) await once(child, 'exit')
  assert.equal(child.signalCode, 'SIGKILL')
})

test('a pid that is another process now, or that let the socket go, is not signalled', async (t) => {
  const { child, action } = await removal(
    t,
    "process.on('SIGTERM',()=>process.exit(9));process.stdin.once('data',()=>s.close())",
  )
  const reused = { ...action, owner: { ...action.owner, startTicks: action.owner.startTicks - 1 } }
  assert.match((await removeListener(p, reused)).detail, /gone already/)
  const other = { ...action, listener: { ...action.listener, inode: action.listener.inode + 1_000_000 } }
  assert.match((await removeListener(p, other)).detail, /gone already/)
  child.stdin?.write('x')
  while (socketsOf(p, child.pid ?? 0).has(action.listener.inode)) await new Promise((r) => setTimeout(r, 5))
  assert.match((await removeListener(p, action)).detail, /gone already/)
  assert.deepEqual([child.exitCode, child.signalCode], [null, null])
})

test('pid 1 is never signalled, whatever is said of it', async () => {
  const owner = { pid: 1, startTicks: 1, program: 'systemd', unit: '', browser: false }
  const listener = { netns: 'n', address: '127.0.0.1', port: 1, inode: 1, owners: [owner] }
  assert.match((await removeListener(p, { kind: 'remove-listener', owner, listener })).detail, /gone already/)
})

const cgroups: readonly [string, string][] = [
  ['0::/system.slice/system-cdp\\x2drelay.slice/cdp-relay@muse.service\n', 'cdp-relay@muse.service'],
  ['12:pids:/x.service\n1:name=systemd:/lab-7/user.slice/session-3.scope\n', 'session-3.scope'],
  ['0::/init.scope\n', 'init.scope'],
  ['0::/docker/abc\n', ''],
  ['', ''],
]
for (const [text, unit] of cgroups) {
  test(`unit of cgroup ${JSON.stringify(text)}`, () => assert.equal(unitOfCgroup(text), unit))
}

test('what ip -all prints: sections, mapped addresses, a namespace printed twice', () => {
  const row = (address: string, inode: number) =>
    `   0: ${address}:24C2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 ${inode} 1 0 100 0 0 10 0`
  const text = `\nnetns: warp-b\n\nnetns: warp-a\n${row('0100007F', 7)}\n   1: 0000000000000000FFFF000002230A0A:24C2 0:0 0A 0:0 0:0 0 0 0 8 1\n\nnetns: warp-b\n${row('00000000', 9)}\n`
  assert.deepEqual(parseEverywhere(text), [
    { netns: 'warp-b', address: '0.0.0.0', port: 9410, inode: 9 },
    { netns: 'warp-a', address: '127.0.0.1', port: 9410, inode: 7 },
    { netns: 'warp-a', address: '10.10.35.2', port: 9410, inode: 8 },
  ])
  assert.deepEqual(parseEverywhere(''), [])
})

test('listeners of a namespace, also with a plain file beside it', {
  skip: needsRoot('network namespaces'),
}, async (t) => {
  const netns = ownNetns(t, 'lis')
  const { pid, line } = await inside(
    t,
    netns,
    "const s=require('net').createServer().listen(0,'127.0.0.1',()=>console.log(s.address().port))",
  )
  const here = async () => {
    const look = await listenersEverywhere({ netnsDir: '/run/netns' })
    assert.ok(look.seen, look.seen ? '' : look.why)
    return look.value.filter((l) => l.netns === netns)
  }
  const [found] = await here()
  assert.deepEqual([found?.address, found?.port], ['127.0.0.1', Number(line)])
  assert.equal(ownersOf(p, new Set([found?.inode ?? 0])).get(found?.inode ?? 0)?.[0]?.pid, pid)
  const plain = join('/run/netns', `${netns}-file`)
  writeFileSync(plain, '')
  t.after(() => import('node:fs').then((fs) => fs.rmSync(plain, { force: true })))
  assert.deepEqual(await here(), [found])
})

test('a namespace directory that is not there has no listeners; a process that is gone has no description', async (t) => {
  assert.deepEqual(await listenersEverywhere({ netnsDir: join(tempDir(t), 'none') }), {
    seen: true,
    value: [],
  })
  assert.equal(describeProcess(p, 4_194_303), undefined)
})
