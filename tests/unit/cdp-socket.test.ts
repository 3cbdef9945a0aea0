import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type WebSocket, WebSocketServer } from 'ws'
import { type EvalResult, evaluate } from '../../lib/cdp/evaluate.ts'
import { deferred } from '../kit/deferred.ts'
import { patience } from '../kit/unit.ts'

type Question = { id: number; method: string; params: Record<string, unknown> }

/** A DevTools endpoint whose answers are `behave`'s. */
async function devtools(
  t: TestContext,
  behave: (socket: WebSocket, question: Question, request: IncomingMessage) => void,
): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  t.after(() => {
    for (const client of server.clients) client.terminate()
    server.close()
  })
  server.on('connection', (socket, request) => {
    socket.on('error', () => {})
    socket.on('message', (data) => behave(socket, JSON.parse(String(data)), request))
  })
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/devtools/page/1`
}

const send = (socket: WebSocket, message: unknown): void => socket.send(JSON.stringify(message))
const value = (id: number, v: unknown): object => ({ id, result: { result: { type: 'string', value: v } } })

/** For an answer that comes: only a failing test waits so long. */
const LONG_MS = patience(30_000)
/** A test that only a kept deadline ends. */
const ENDS = { timeout: LONG_MS }

test('value: asked by value, promises awaited, without an Origin', async (t) => {
  let asked: Question | undefined
  let origin: string | undefined = 'not asked'
  const url = await devtools(t, (socket, question, request) => {
    asked = question
    origin = request.headers.origin
    send(socket, value(question.id, 'Muse'))
  })
  assert.deepEqual(await evaluate(url, 'document.title', LONG_MS), { kind: 'value', value: 'Muse' })
  assert.equal(asked?.method, 'Runtime.evaluate')
  assert.deepEqual(asked?.params, { expression: 'document.title', returnByValue: true, awaitPromise: true })
  assert.equal(origin, undefined)
})

test('value: undefined is a value', async (t) => {
  const url = await devtools(t, (s, q) => send(s, { id: q.id, result: { result: { type: 'undefined' } } }))
  assert.deepEqual(await evaluate(url, 'void 0', LONG_MS), { kind: 'value', value: undefined })
})

test('noise: events, an answer to somebody else, and no JSON at all are not the answer', async (t) => {
  const url = await devtools(t, (socket, question) => {
    send(socket, { method: 'Page.javascriptDialogOpening', params: { type: 'alert', message: 'x' } })
    send(socket, value(question.id + 1, 'another'))
    send(socket, value(String(question.id) as unknown as number, 'a text as id'))
    socket.send('no JSON')
    socket.send('null')
    socket.send(Buffer.from([0, 1, 2]))
    send(socket, value(question.id, 'ours'))
  })
  assert.deepEqual(await evaluate(url, '1', LONG_MS), { kind: 'value', value: 'ours' })
})

const answers: [string, object, EvalResult][] = [
  [
    'an Error',
    {
      result: { exceptionDetails: { text: 'Uncaught', exception: { description: 'Error: no\nat <a>:1' } } },
    },
    { kind: 'exception', text: 'Error: no at <a>:1' },
  ],
  [
    'a thrown text',
    { result: { exceptionDetails: { text: 'Uncaught', exception: { type: 'string', value: 'bad' } } } },
    { kind: 'exception', text: 'bad' },
  ],
  [
    'no details',
    { result: { exceptionDetails: { text: 'Uncaught' } } },
    { kind: 'exception', text: 'Uncaught' },
  ],
  [
    'refused',
    { error: { code: -32000, message: 'Not\u001b[31m now' } },
    { kind: 'exception', text: 'refused: Not now' },
  ],
]
for (const [name, answer, want] of answers) {
  test(`exception: ${name}`, async (t) => {
    const url = await devtools(t, (socket, question) => send(socket, { id: question.id, ...answer }))
    assert.deepEqual(await evaluate(url, '1', LONG_MS), want)
  })
}

test('timeout: connected, but the renderer never answers; the connection is dropped', ENDS, async (t) => {
  const seen = deferred<WebSocket>()
  const url = await devtools(t, (socket) => {
    send(socket, { method: 'Page.javascriptDialogOpening', params: {} })
    seen.resolve(socket)
  })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const result = evaluate(url, '1', 300)
  const closed = once(await seen.promise, 'close')
  t.mock.timers.tick(300)
  assert.deepEqual(await result, { kind: 'timeout', connected: true })
  await closed
})

test('timeout: the port accepts and never speaks', ENDS, async (t) => {
  const server = createTcpServer(() => {}).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const result = await evaluate(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/x`, '1', 300)
  assert.deepEqual(result, { kind: 'timeout', connected: false })
})

test('timeout: one deadline covers a late handshake and a late answer together', ENDS, async (t) => {
  const server = createServer()
  const sockets = new WebSocketServer({ noServer: true })
  const asked = deferred()
  const dialled = deferred<() => void>()
  server.on('upgrade', (request, socket, head) => {
    const accept = (ws: WebSocket) => ws.on('error', () => {}).on('message', () => asked.resolve())
    dialled.resolve(() => sockets.handleUpgrade(request, socket, head, accept))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const result = evaluate(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/x`, '1', 400)
  const shakeHands = await dialled.promise
  t.mock.timers.tick(250)
  shakeHands()
  await asked.promise
  // A deadline that began anew with the connection would have 250 ms left.
  t.mock.timers.tick(150)
  assert.deepEqual(await result, { kind: 'timeout', connected: true })
})

test('closed: the browser dies in the middle of its answer', async (t) => {
  const url = await devtools(t, (socket) => {
    const raw = (
      socket as unknown as { _socket: { write(b: Buffer, done: () => void): void; destroy(): void } }
    )._socket
    // A frame that promises 100 bytes and brings 3.
    raw.write(Buffer.from([0x81, 100, 0x7b, 0x22, 0x69]), () => raw.destroy())
  })
  assert.equal((await evaluate(url, '1', LONG_MS)).kind, 'closed')
})

test('closed: the browser closes without an answer', async (t) => {
  const url = await devtools(t, (socket) => socket.close(1001))
  assert.deepEqual(await evaluate(url, '1', LONG_MS), {
    kind: 'closed',
    why: 'closed by the browser (code 1001)',
    connected: true,
  })
})

test('closed: an answer that is too large is not read to its end', async (t) => {
  const url = await devtools(t, (s, q) => send(s, value(q.id, 'x'.repeat(2 * 1024 * 1024))))
  const result = await evaluate(url, '1', LONG_MS)
  assert.equal(result.kind, 'closed')
  assert.match(result.kind === 'closed' ? result.why : '', /payload/i)
})

test('closed: nobody listens; a URL that is none', async () => {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const refused = await evaluate(`ws://127.0.0.1:${port}/x`, '1', LONG_MS)
  assert.match(refused.kind === 'closed' ? refused.why : '', /ECONNREFUSED/)
  assert.equal((await evaluate('not a URL', '1', LONG_MS)).kind, 'closed')
})

for (const status of [403, 404, 302]) {
  test(`refused: the handshake is answered with ${status}`, async (t) => {
    const server = createServer((_, response) => response.end())
    server.on('upgrade', (_, socket) => {
      socket.end(`HTTP/1.1 ${status} No\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 2\r\n\r\nno`)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/devtools/page/1`
    assert.deepEqual(await evaluate(url, '1', LONG_MS), { kind: 'refused', status })
  })
}

test('nothing is left behind: the process can end right after each kind of answer', async (t) => {
  const url = await devtools(t, () => {})
  await evaluate(url, '1', 50)
  const open = process.getActiveResourcesInfo().filter((name) => name === 'Timeout')
  assert.deepEqual(open, [])
})
