import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type Paths, profileDir } from '../../lib/base/paths.ts'
import type { Look, Node } from '../../lib/base/types.ts'
import { cdpRequests, findMain, lookBrowser, readAnswers, settlePage } from '../../lib/browser/look.ts'
import type { MainProcess } from '../../lib/browser/types.ts'
import type { FetchResult } from '../../lib/host/curl.ts'
import { readStat } from '../../lib/host/proc.ts'
import { world } from '../kit/browser-host.ts'
import { type FakeProcess, fakeProc } from '../kit/fake-proc.ts'
import { row } from '../kit/row.ts'
import { tempPaths } from '../kit/temp.ts'
import { patience } from '../kit/unit.ts'

const node = (over: Partial<Node> = {}): Node => row({ chatTitle: 'Muse', ...over })

function table(t: TestContext, processes: readonly Partial<FakeProcess>[]): Paths {
  const fake = fakeProc({ uptime: 100 })
  t.after(fake.remove)
  const p = tempPaths(t, { proc: fake.proc })
  const argv = ['/usr/lib/chromium', `--user-data-dir=${profileDir(p, 'muse')}`]
  processes.forEach((process, i) => {
    fake.add({ pid: 100 + i, argv, netns: 7, ...process })
  })
  return p
}

test('the main process is the oldest one in the namespace; those elsewhere are told', (t) => {
  const p = table(t, [{ startTicks: 9000 }, { startTicks: 5000 }, { netns: 8, startTicks: 1 }])
  const { process, elsewhere } = findMain(p, node(), 7)
  assert.equal(process.seen && process.value?.pid, 101)
  assert.equal(process.seen && process.value?.ageMs, 50_000)
  assert.deepEqual(
    elsewhere.map((e) => e.pid),
    [102],
  )
})

test('none in the namespace is seen as none; a namespace that cannot be told is not', (t) => {
  const none = findMain(table(t, [{ netns: 8 }]), node(), 7)
  assert.deepEqual(none.process, { seen: true, value: undefined })
  assert.equal(none.elsewhere.length, 1)
  const noInode = findMain(table(t, [{}]), node(), undefined)
  assert.match(noInode.process.seen ? '' : noInode.process.why, /inode of the namespace/)
  const p = table(t, [{ netns: Number.NaN }])
  const untold = findMain(p, node(), 7)
  assert.match(untold.process.seen ? '' : untold.process.why, /cannot see the namespace of pid 100/)
})

const ID = 'ws://127.0.0.1:1/devtools/browser/f00'
const VERSION = JSON.stringify({ Browser: 'Chrome/1', webSocketDebuggerUrl: ID })
const page = (title: string, url: string): object => ({
  id: 'A',
  type: 'page',
  title,
  url,
  webSocketDebuggerUrl: 'ws://127.0.0.1:1/devtools/page/A',
})
const LIST = JSON.stringify([page('Muse', 'http://muse.example/')])

const answer = (body: string, over: Partial<FetchResult> = {}): FetchResult => ({
  url: '',
  exitCode: 0,
  httpCode: 200,
  body,
  timeMs: 1,
  error: '',
  ...over,
})
const seen = (...results: FetchResult[]): Look<readonly FetchResult[]> => ({ seen: true, value: results })

/** A port of this very process: its own listener, or somebody else's when `pid` is another. */
async function listening(t: TestContext): Promise<{ port: number; main: MainProcess; p: Paths }> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const startTicks = readStat('/proc', process.pid)?.startTicks ?? 0
  const main: MainProcess = { pid: process.pid, startTicks, ageMs: 1000, state: 'S' }
  return { port: (server.address() as AddressInfo).port, main, p: tempPaths(t, { proc: '/proc' }) }
}

test('the answer of the process that holds the port is proved by the socket, and named', async (t) => {
  const { port, main, p } = await listening(t)
  const got = readAnswers(p, node({ cdpPort: port }), main, seen(answer(VERSION), answer(LIST)))
  assert.deepEqual(got.cdp, {
    seen: true,
    value: { state: 'ok', browser: 'Chrome/1', identity: `${main.pid} ${main.startTicks} f00` },
  })
  assert.deepEqual(got.page, { seen: true, value: { state: 'ok', title: 'Muse' } })
  assert.equal(got.doubtful, undefined)
})

test('the identity of the last look needs no second proof; another one does', async (t) => {
  const { main, p } = await listening(t)
  // Nobody listens on 9410 here, so that a proof would fail.
  const results = seen(answer(VERSION), answer(LIST))
  const known = `${main.pid} ${main.startTicks} f00`
  const state = (identity?: string) => {
    const { cdp } = readAnswers(p, node({ cdpPort: 1 }), main, results, identity)
    return cdp?.seen && cdp.value.state
  }
  assert.equal(state(known), 'ok')
  for (const other of [undefined, `${main.pid} 1 f00`, `${main.pid} ${main.startTicks} f01`])
    assert.equal(state(other), 'squatted')
})

test('who does not hold the port does not answer for it', async (t) => {
  const { port, main, p } = await listening(t)
  const init = { ...main, pid: process.ppid }
  const { cdp, page: none } = readAnswers(
    p,
    node({ cdpPort: port }),
    init,
    seen(answer(VERSION), answer(LIST)),
  )
  assert.ok(cdp?.seen && cdp.value.state === 'squatted')
  assert.match(cdp.value.detail, new RegExp(`^Chrome/1, from pid ${process.pid} \\(`))
  assert.equal(none, undefined)
})

test('another program on our own port is no browser; silence is unreachable', async (t) => {
  const { port, main, p } = await listening(t)
  const detail = (...results: FetchResult[]) => {
    const { cdp } = readAnswers(p, node({ cdpPort: port }), main, seen(...results))
    return cdp?.seen && cdp.value.state === 'unreachable' ? cdp.value.detail : undefined
  }
  assert.equal(detail(answer('<html>', { httpCode: 404 }), answer(LIST)), "HTTP 404, not a browser's answer")
  assert.equal(
    detail(answer('', { exitCode: 7, error: 'connection refused' }), answer(LIST)),
    'connection refused',
  )
  assert.equal(
    detail(answer(VERSION), answer('', { exitCode: 28, error: 'timed out' })),
    '/json/list: timed out',
  )
  assert.equal(detail(), 'not asked')
})

test('curl that could not run says nothing of CDP or page', async (t) => {
  const { main, p } = await listening(t)
  const unseen = { seen: false, why: 'the program curl is missing' } as const
  assert.deepEqual(readAnswers(p, node(), main, unseen), { cdp: unseen })
})

const PAGES: readonly (readonly [string, string, object])[] = [
  ['no list', '<html>', { state: 'missing', detail: '/json/list is not a target list' }],
  [
    'other titles',
    JSON.stringify([page('News', 'http://a/'), page('x\u001b[2J', 'http://b/')]),
    { state: 'missing' },
  ],
  ['nothing', '[]', { state: 'no-pages', detail: 'no page at all' }],
  [
    'a worker',
    JSON.stringify([{ id: 'W', type: 'worker' }]),
    { state: 'no-pages', detail: 'no page at all, only worker' },
  ],
  [
    'an error page by its URL',
    JSON.stringify([page('muse', 'chrome-error://chromewebdata/')]),
    { state: 'error-page', detail: 'error page: muse' },
  ],
]
for (const [what, list, want] of PAGES) {
  test(`the list: ${what}`, async (t) => {
    const { port, main, p } = await listening(t)
    const got = readAnswers(p, node({ cdpPort: port }), main, seen(answer(VERSION), answer(list)))
    assert.ok(got.page?.seen)
    assert.deepEqual({ ...got.page.value, ...want }, got.page.value)
    assert.doesNotMatch(JSON.stringify(got.page.value), /\\u001b/)
    assert.equal(got.doubtful, undefined)
  })
}

test('a page titled with its host name is in doubt until it was asked', async (t) => {
  const { port, main, p } = await listening(t)
  const asked = node({ cdpPort: port, chatTitle: 'muse' })
  const list = JSON.stringify([page('muse.example', 'http://muse.example/')])
  const got = readAnswers(p, asked, main, seen(answer(VERSION), answer(list)))
  assert.equal(got.page?.seen && got.page.value.state, 'doubtful')
  assert.equal(got.doubtful?.length, 1)
  // Nobody has the peer's port: the doubt stays, with its reason.
  const settled = await settlePage({ ...asked, peer: '127.0.0.1', cdpPort: 1 }, got, patience(30_000))
  assert.ok(settled.page?.seen && settled.page.value.state === 'doubtful')
  assert.match(settled.page.value.detail, /ECONNREFUSED/)
})

test('a look that is in no doubt comes back as it is', async (t) => {
  const { port, main, p } = await listening(t)
  const got = readAnswers(p, node({ cdpPort: port }), main, seen(answer(VERSION), answer(LIST)))
  assert.equal(await settlePage(node(), got, 0), got)
})

test('two requests, in the order in which they are read', () => {
  assert.deepEqual(
    cdpRequests(node(), 50).map((r) => r.url),
    ['http://127.0.0.1:9410/json/version', 'http://127.0.0.1:9410/json/list'],
  )
})

test('the whole look: one child process with a browser, none without', async (t) => {
  const w = await world(t)
  assert.equal((await lookBrowser(w.ctx, w.node)).verdict.code, 'no-process')
  assert.deepEqual(w.host.calls(), [])
  await w.host.browser()
  w.host.calls()
  assert.equal((await lookBrowser(w.ctx, w.node)).verdict.state, 'healthy')
  assert.deepEqual(w.host.calls(), ['ip curl'])
})
