import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import test, { type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { closeBrowser } from '../../lib/browser/close.ts'
import { patience } from '../kit/unit.ts'

/** Without a deadline of its own, a wait for one that never answers has no other end. */
const ENDS = { timeout: patience(30_000) }

/** A stand-in for a browser: answers /json/version and does as told when it is asked to close. */
const BROWSER = `
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
const { WebSocketServer } = createRequire(process.argv[1])('ws')
const how = process.argv[2]
const server = createServer((request, response) => {
  if (how === 'mute') return
  if (how === 'other') return response.end('<html>hello</html>')
  const port = server.address().port
  response.end(JSON.stringify({ Browser: 'Chrome/1', webSocketDebuggerUrl: 'ws://elsewhere:1/devtools/browser/x' }))
})
new WebSocketServer({ server }).on('connection', (socket) => {
  socket.on('message', (data) => {
    if (JSON.parse(data).method !== 'Browser.close') return
    if (how === 'abrupt') process.exit(0)
    socket.send('{"id":1,"result":{}}')
    setTimeout(() => process.exit(0), 150)
  })
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
`

async function stub(t: TestContext, how: string) {
  const anchor = fileURLToPath(import.meta.url)
  const child = spawn(process.execPath, ['--input-type=module', '-e', BROWSER, anchor, how])
  t.after(() => child.kill('SIGKILL'))
  child.stderr.on('data', (text) => t.diagnostic(String(text)))
  const [port] = await once(child.stdout, 'data')
  return { pid: child.pid ?? 0, port: Number(port), child }
}

for (const how of ['flush', 'abrupt']) {
  test(`a browser that closes (${how}) is waited for`, async (t) => {
    const { pid, port, child } = await stub(t, how)
    const ended = once(child, 'exit')
    assert.equal(await closeBrowser('/proc', pid, port), undefined)
    assert.deepEqual(await ended, [0, null])
  })
}

test('one that never answers is left to TERM: the wait for it ends', ENDS, async (t) => {
  const { pid, port, child } = await stub(t, 'mute')
  assert.match((await closeBrowser('/proc', pid, port)) ?? '', /no answer of a browser/)
  assert.equal(child.exitCode, null)
})

test('another program on the port is not told to close', async (t) => {
  const { port, child } = await stub(t, 'flush')
  assert.match((await closeBrowser('/proc', process.pid, port)) ?? '', /is not held by pid/)
  assert.equal(child.exitCode, null)
  const other = await stub(t, 'other')
  assert.match((await closeBrowser('/proc', other.pid, other.port)) ?? '', /no answer of a browser/)
})

test('a port that nobody has', async () => {
  assert.notEqual(await closeBrowser('/proc', process.pid, 1), undefined)
})
