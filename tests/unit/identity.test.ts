import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { closeBrowser } from '../../lib/browser/close.ts'
import { findMain, lookBrowser, portTaker, readAnswers } from '../../lib/browser/look.ts'
import { stopBrowser } from '../../lib/browser/stop.ts'
import type { CdpFinding } from '../../lib/browser/types.ts'
import type { FetchResult } from '../../lib/host/curl.ts'
import { readStat } from '../../lib/host/proc.ts'
import { parseTcpTable } from '../../lib/host/tcp-table.ts'
import { askInside, askRelay } from '../../lib/relay/look.ts'
import { writeReceipt } from '../../lib/store/receipts.ts'
import { type World, world } from '../kit/browser-host.ts'
import { fakeProc } from '../kit/fake-proc.ts'
import { row } from '../kit/row.ts'
import { tempPaths } from '../kit/temp.ts'
import { receipt } from '../kit/truth-model.ts'
import { patience } from '../kit/unit.ts'

// Whose port, whose process: what is dialled must be the node's own.

const VERSION = (id: string) =>
  JSON.stringify({ Browser: 'Chrome/1', webSocketDebuggerUrl: `ws://127.0.0.1:1/devtools/browser/${id}` })

/** A program of its own that listens, says nothing or what it is given, and is seen in the host's process table. */
async function stranger(t: TestContext, address: string, port = 0, body?: string, w?: World) {
  const make =
    body === undefined
      ? "require('net').createServer()"
      : `require('http').createServer((_, r) => r.end('${body}'))`
  const script = `const s = ${make}.listen(${port}, '${address}', () => console.log(s.address().port))`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [said] = await once(child.stdout, 'data')
  const pid = child.pid ?? 0
  if (w !== undefined) symlinkSync(`/proc/${pid}`, join(w.host.dir, 'proc', String(pid)))
  return { pid, port: Number(said), child }
}

/** This process as the browser, which has to do with `::1` because somebody has 127.0.0.1. */
async function beside(t: TestContext, address = '127.0.0.1') {
  const other = await stranger(t, address)
  const server = createServer()
  if (address !== '::') await new Promise<void>((done) => server.listen(other.port, '::1', done))
  t.after(() => server.close())
  const startTicks = readStat('/proc', process.pid)?.startTicks ?? 0
  const main = { pid: process.pid, startTicks, ageMs: 1000, state: 'S' }
  return { ...other, main, p: tempPaths(t, { proc: '/proc' }), node: row({ cdpPort: other.port }) }
}

const got = (body: string, over: Partial<FetchResult> = {}): FetchResult => ({
  ...{ url: '', exitCode: 0, httpCode: 200, body, timeMs: 1, error: '' },
  ...over,
})
const read = (at: Awaited<ReturnType<typeof beside>>, version: FetchResult): CdpFinding | undefined => {
  const { cdp } = readAnswers(at.p, at.node, at.main, { seen: true, value: [version, got('[]')] })
  return cdp?.seen ? cdp.value : undefined
}

const ANSWERS: readonly (readonly [string, FetchResult])[] = [
  ['a browser', got(VERSION('x'))],
  ['{"ok":true}', got('{"ok":true}')],
  ['HTTP 500 and a sentence', got('Host header is specified', { httpCode: 500 })],
  ['nothing', got('', { exitCode: 28, error: 'timed out' })],
  ['a connection that ends', got('', { exitCode: 52, error: 'empty reply' })],
]
for (const [what, version] of ANSWERS)
  for (const address of ['127.0.0.1', '0.0.0.0', '::'])
    test(`45: somebody else on ${address} gives ${what}: squatted, and named`, async (t) => {
      const at = await beside(t, address)
      const found = read(at, version)
      assert.equal(found?.state, 'squatted')
      assert.match(
        found?.state === 'squatted' ? found.detail : '',
        new RegExp(`, from pid ${at.pid} \\(node -e\\)$`),
      )
    })

test('45: nobody has the port and nobody answers: that is no squatter', async (t) => {
  const at = await beside(t)
  at.child.kill('SIGKILL')
  await once(at.child, 'exit')
  assert.equal(read(at, got('', { exitCode: 7, error: 'refused' }))?.state, 'unreachable')
})

test('45: a stranger is not asked to close, nor anybody whose socket cannot be seen', async (t) => {
  const at = await beside(t)
  assert.match((await closeBrowser('/proc', process.pid, at.port)) ?? '', /is not held by pid/)
  const fake = fakeProc()
  t.after(fake.remove)
  assert.match((await closeBrowser(fake.proc, 77, at.port)) ?? '', /cannot be seen/)
})

test('46: the own browser answers HTTP 500 with a sentence: it refuses, in its words', async (t) => {
  const server = createServer()
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  t.after(() => server.close())
  const at = await beside(t)
  const node = row({ cdpPort: (server.address() as { port: number }).port })
  const says = 'Host header is specified and is not an IP address or localhost.'
  const error = (body: string, httpCode = 500) => read({ ...at, node }, got(body, { httpCode }))
  assert.deepEqual(error(`${says}\r\n`), { state: 'refuses', detail: `HTTP 500 "${says}"` })
  for (const body of ['', '<html>', '{}', '[1]']) assert.equal(error(body)?.state, 'unreachable', body)
  assert.equal(error(says, 404)?.state, 'unreachable')
})

const MS = patience(30_000)

/** A relay on 127.0.0.2 in this process, whose socket systemd holds as the host's process table has it. */
async function relay(t: TestContext, w: World) {
  const server = createServer((from) => {
    const to = connect(w.host.port, '127.0.0.1')
    for (const socket of [from, to]) socket.on('error', () => {})
    from.pipe(to).pipe(from)
  })
  await new Promise<void>((done) => server.listen(w.host.port, '127.0.0.2', done))
  t.after(() => server.close())
  const rows = parseTcpTable(readFileSync('/proc/self/net/tcp', 'latin1'))
  const inode = rows.find((r) => r.address === '127.0.0.2' && r.port === w.host.port)?.inode
  mkdirSync(join(w.host.dir, 'proc/1/fd'), { recursive: true })
  symlinkSync(`socket:[${inode}]`, join(w.host.dir, 'proc/1/fd/9'))
  return { ...w.node, peer: '127.0.0.2' }
}

test('45: over the relay the answer of the node’s own browser is one, by the two sockets', async (t) => {
  const w = await world(t)
  await w.host.browser()
  const node = await relay(t, w)
  assert.equal((await askRelay(w.ctx.p, node, MS)).browser, 'Fake/1')
  const inside = await askInside(w.ctx.p, w.node, w.ctx.config)
  assert.deepEqual(inside, { seen: true, value: { browser: 'answers', detail: 'Fake/1', id: '1' } })
})

test('45: another browser at the relay’s address is not the node’s, unless the watchdog proved its id', async (t) => {
  const w = await world(t)
  await w.host.browser()
  const node = { ...w.node, peer: '127.0.0.2' }
  await stranger(t, '127.0.0.2', w.host.port, VERSION('other'), w)
  const asked = await askRelay(w.ctx.p, node, MS)
  assert.deepEqual([asked.browser, asked.id], [undefined, 'other'])
  const pid = Number(w.host.read('main.pid'))
  const ticks = readStat(w.ctx.p.proc, pid)?.startTicks ?? 0
  const proved = (id: string, startTicks = ticks) => {
    const extra = { browserIdentity: `${pid} ${startTicks} ${id}` }
    writeReceipt(w.ctx.p, receipt('chromebox-watchdog', undefined, { extra }))
  }
  proved('another')
  assert.equal((await askRelay(w.ctx.p, node, MS)).browser, undefined)
  // Its process has ended, and somebody repeats its id.
  proved('other', ticks + 1)
  assert.equal((await askRelay(w.ctx.p, node, MS)).browser, undefined)
  proved('other')
  assert.equal((await askRelay(w.ctx.p, node, MS)).browser, 'Chrome/1')
  assert.deepEqual(portTaker(w.ctx.p, node, { pid, startTicks: 1, ageMs: 1, state: 'S' }), {
    seen: true,
    value: { is: 'own', who: '' },
  })
})

test('45: without a browser of the node’s whoever answers on its port is another', async (t) => {
  const w = await world(t)
  const { pid } = await stranger(t, '127.0.0.1', w.host.port, VERSION('other'), w)
  const asked = await askRelay(w.ctx.p, { ...w.node, peer: '127.0.0.1' }, MS)
  assert.deepEqual([asked.browser, asked.id], [undefined, 'other'])
  const inside = await askInside(w.ctx.p, w.node, w.ctx.config)
  assert.ok(inside.seen)
  assert.deepEqual(inside.value, { browser: 'squatted', detail: `Chrome/1, from pid ${pid} (node -e)` })
})

test('84: a program with the profile flag that is no browser is not found, and not ended', async (t) => {
  const w = await world(t)
  const flag = `--user-data-dir=${w.host.dir}/var/lib/chromebox/muse`
  // Perl is what this host has besides its browser, which is node.
  const child = spawn('perl', ['-e', '$| = 1; print 1; sleep 1e6', '--', flag], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.after(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  symlinkSync(`/proc/${child.pid}`, join(w.host.dir, 'proc', String(child.pid)))
  assert.equal((await lookBrowser(w.ctx, w.node)).verdict.code, 'no-process')
  assert.deepEqual(findMain(w.ctx.p, w.node, 1).elsewhere, [])
  assert.deepEqual((await stopBrowser(w.ctx, w.node)).notes, [])
  assert.equal(child.exitCode ?? child.signalCode, null)
})
