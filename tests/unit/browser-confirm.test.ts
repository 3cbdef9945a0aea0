import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { WebSocketServer } from 'ws'
import { confirmPage, WHERE } from '../../lib/browser/confirm.ts'
import type { Target } from '../../lib/cdp/targets.ts'
import { patience, scaled } from '../kit/unit.ts'

/** For pages that answer: only a failing test waits so long. */
const LONG_MS = patience(30_000)

/** What `location.href` says in each page; a number is an HTTP status, `silent` no answer, an object a strange one. */
type Hrefs = Readonly<Record<string, string | number | { readonly value: unknown }>>

async function browser(t: TestContext, hrefs: Hrefs) {
  const asked: string[] = []
  const href = (url = '') => hrefs[url.split('/').at(-1) ?? '']
  const server = new WebSocketServer({
    port: 0,
    host: '127.0.0.1',
    verifyClient: ({ req }: { req: IncomingMessage }, done: (ok: boolean, code?: number) => void) => {
      const at = href(req.url)
      if (typeof at === 'number') done(false, at)
      else done(true)
    },
  })
  await once(server, 'listening')
  t.after(() => {
    for (const client of server.clients) client.terminate()
    server.close()
  })
  server.on('connection', (socket, request) => {
    asked.push(request.url ?? '')
    const at = href(request.url)
    socket.on('error', () => {})
    socket.on('message', (data) => {
      const { id, params } = JSON.parse(String(data))
      assert.equal(params.expression, WHERE)
      if (at === 'silent') return
      const value = typeof at === 'object' ? at.value : [at, at === ERROR ? CODE : '']
      socket.send(JSON.stringify({ id, result: { result: { value } } }))
    })
  })
  return { port: (server.address() as AddressInfo).port, asked }
}

const ERROR = 'chrome-error://chromewebdata/'
const CODE = 'ERR_TIMED_OUT'
const URL_OF = 'http://muse.example/'
const target = (id: string, title = 'muse.example', url = URL_OF): Target => ({
  id,
  type: 'page',
  title,
  url,
  wsUrl: `ws://elsewhere:1/devtools/page/${id}`,
})

async function confirm(t: TestContext, targets: readonly Target[], hrefs: Hrefs, chatTitle = 'muse') {
  const { port, asked } = await browser(t, hrefs)
  const silent = Object.values(hrefs).includes('silent')
  const deadlineMs = silent ? scaled(1500) : LONG_MS
  const got = await confirmPage({ peer: '127.0.0.1', cdpPort: port, chatTitle }, targets, deadlineMs)
  return { got, asked }
}

test('the page itself is there: well', async (t) => {
  const { got, asked } = await confirm(t, [target('A')], { A: URL_OF })
  assert.deepEqual(got, { state: 'ok', title: 'muse.example' })
  assert.deepEqual(asked, ['/devtools/page/A'])
})

test('a title in letters of its own is the host name that the page gives in ASCII', async (t) => {
  const url = 'http://xn--mller-kva.example/'
  const { got } = await confirm(t, [target('A', 'müller.example', url)], { A: url }, 'müller')
  assert.deepEqual(got, { state: 'ok', title: 'müller.example' })
})

test('the browser’s error page: told as one, with its title', async (t) => {
  const { got } = await confirm(t, [target('A')], { A: ERROR })
  assert.deepEqual(got, { state: 'error-page', detail: 'error page: muse.example, ERR_TIMED_OUT' })
})

test('what the error page says is cleaned, and may be missing', async (t) => {
  const detail = async (value: unknown) => {
    const { got } = await confirm(t, [target('A')], { A: { value } })
    return got.state === 'error-page' ? got.detail : got
  }
  assert.equal(await detail([ERROR]), 'error page: muse.example')
  assert.match(
    String(await detail([ERROR, `\u001b[2J${'x'.repeat(500)}`])),
    /^error page: muse\.example, \P{Cc}{1,70}$/u,
  )
})

test('without a title to look for, an error page is one all the same', async (t) => {
  assert.equal((await confirm(t, [target('A')], { A: ERROR }, '')).got.state, 'error-page')
})

test('a page behind it that is plainly right needs no question', async (t) => {
  const { got, asked } = await confirm(t, [target('A'), target('B', 'Chat of muse')], { A: ERROR })
  assert.deepEqual(got, { state: 'ok', title: 'Chat of muse' })
  assert.deepEqual(asked, [])
})

test('an error page and a page, both titled with the host: the page counts, in either order', async (t) => {
  for (const [A, B] of [
    [ERROR, URL_OF],
    [URL_OF, ERROR],
    ['silent', URL_OF],
  ] as const) {
    assert.equal((await confirm(t, [target('A'), target('B')], { A, B })).got.state, 'ok')
  }
})

test('pages of another title, workers and pages past the third are not asked', async (t) => {
  const worker = { ...target('W'), type: 'worker' }
  const other = target('O', 'news.example', 'http://news.example/')
  const { got, asked } = await confirm(
    t,
    [worker, other, target('A'), target('B'), target('C'), target('D')],
    { A: ERROR, B: ERROR, C: ERROR, D: URL_OF },
  )
  assert.equal(got.state, 'error-page')
  assert.deepEqual(asked.sort(), ['/devtools/page/A', '/devtools/page/B', '/devtools/page/C'])
})

const DOUBT: readonly (readonly [string, Hrefs, RegExp])[] = [
  ['a renderer that hangs', { A: 'silent' }, /over the relay: the page does not answer in time/],
  ['a target that is gone', { A: 404 }, /over the relay: HTTP 404/],
  ['a tab that is not there yet', { A: 'about:blank' }, /it is at about:blank/],
  ['a page of another host', { A: 'http://elsewhere.example/' }, /it is at http:\/\/elsewhere\.example\//],
  ['an answer of no use', { A: { value: 7 } }, /it is at no address/],
  ['no value at all', { A: { value: undefined } }, /it is at no address/],
  ['a list of nonsense', { A: { value: [null, {}] } }, /it is at null/],
  ['terminal codes', { A: 'about:blank#\u001b[2J' }, /^it is at about:blank#\P{Cc}*$/u],
]
for (const [what, hrefs, why] of DOUBT) {
  test(`${what}: in doubt, neither well nor an error`, async (t) => {
    const { got } = await confirm(t, [target('A')], hrefs)
    assert.equal(got.state, 'doubtful')
    assert.match(got.state === 'doubtful' ? got.detail : '', why)
  })
}

test('one in doubt beside an error page: in doubt', async (t) => {
  const { got } = await confirm(t, [target('A'), target('B')], { A: ERROR, B: 404 })
  assert.equal(got.state, 'doubtful')
})

test('no relay, and a target without a socket: in doubt', async (t) => {
  const { port } = await browser(t, {})
  const node = { peer: '127.0.0.1', cdpPort: port, chatTitle: 'muse' }
  const { wsUrl: _, ...taken } = target('A')
  const none = await confirmPage(node, [taken], LONG_MS)
  assert.deepEqual(none, { state: 'doubtful', detail: 'it offers no socket' })
  const closed = await confirmPage({ ...node, cdpPort: 1 }, [target('A')], LONG_MS)
  assert.match(closed.state === 'doubtful' ? closed.detail : '', /over the relay: connect ECONNREFUSED/)
})
