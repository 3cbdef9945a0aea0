import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fetchInNetns } from '../../lib/host/curl.ts'
import {
  ask,
  ENDS,
  fetchAll,
  fetchOne,
  httpServer,
  LONG_MS,
  SHORT_MS,
  tcpServer,
} from '../kit/curl-servers.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { inside, ownNetns } from '../kit/own-netns.ts'

test('an answer: status, body and time', async (t) => {
  const url = await httpServer(t, (_, response) => response.end('hello\nworld é'))
  const { timeMs, ms, ...rest } = await fetchOne(ask(`${url}/json/version`))
  const want = { url: `${url}/json/version`, exitCode: 0, httpCode: 200, body: 'hello\nworld é', error: '' }
  assert.deepEqual(rest, want)
  assert.ok(timeMs <= ms)
})

for (const status of [204, 302, 404, 500]) {
  test(`status ${status} is an answer; a redirect is not followed`, async (t) => {
    const url = await httpServer(t, (request, response) => {
      response.writeHead(status, { location: '/elsewhere' }).end(status === 204 ? undefined : request.url)
    })
    const got = await fetchOne(ask(`${url}/x`))
    assert.equal(got.exitCode, 0)
    assert.equal(got.httpCode, status)
    assert.equal(got.body, status === 204 ? '' : '/x')
  })
}

test('a body that is not wanted is not kept', async (t) => {
  const url = await httpServer(t, (_, response) => response.end('hello'))
  const got = await fetchOne(ask(url, { wantBody: false }))
  assert.equal(got.httpCode, 200)
  assert.equal(got.body, '')
})

const slow: [string, (socket: Socket) => void, number][] = [
  ['accepts and never answers', () => {}, 0],
  ['stalls in the headers', (s) => s.write('HTTP/1.1 200 OK\r\nContent-'), 200],
  ['stalls in the body', (s) => s.write('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"Browser"'), 200],
  ['sends a header line now and then, for ever', (s) => trickle(s, 'HTTP/1.1 200 OK\r\n', 'X-A: b\r\n'), 200],
  ['sends a byte of body now and then, for ever', (s) => trickle(s, 'HTTP/1.1 200 OK\r\n\r\n', 'x'), 200],
]
function trickle(socket: Socket, head: string, more: string): void {
  socket.write(head)
  const timer = setInterval(() => socket.write(more), 30)
  socket.on('close', () => clearInterval(timer))
}
for (const [name, onSocket, httpCode] of slow) {
  test(`one deadline: a server that ${name}`, ENDS, async (t) => {
    const got = await fetchOne(ask(await tcpServer(t, onSocket), { deadlineMs: SHORT_MS }))
    assert.equal(got.exitCode, 28)
    assert.equal(got.httpCode, httpCode)
    assert.match(got.error, /timed out/i)
    assert.ok(got.timeMs >= 0.95 * SHORT_MS, `${got.timeMs} ms`)
  })
}

test('side by side: all are asked before one has its answer', async (t) => {
  const waiting: ServerResponse[] = []
  const url = await httpServer(t, (_, response) => {
    waiting.push(response)
    if (waiting.length === 3) for (const [i, one] of waiting.entries()) one.end(`${i}`)
  })
  const { results } = await fetchAll([ask(`${url}/a`), ask(`${url}/b`), ask(`${url}/c`)])
  assert.deepEqual(results.map((r) => r.body).sort(), ['0', '1', '2'])
})

test('each has its own deadline: two that never answer beside one that does', ENDS, async (t) => {
  const silent = await tcpServer(t, () => {})
  const good = await httpServer(t, (_, response) => response.end('ok'))
  const { results } = await fetchAll([
    ask(`${silent}/a`, { deadlineMs: 300 }),
    ask(good),
    ask(`${silent}/b`, { deadlineMs: 1600 }),
  ])
  assert.deepEqual(
    results.map((r) => [r.exitCode, r.httpCode, r.body]),
    [
      [28, 0, ''],
      [0, 200, 'ok'],
      [28, 0, ''],
    ],
  )
  assert.ok((results[2]?.timeMs ?? 0) >= 1580, `${results[2]?.timeMs} ms`)
})

test('an endless body ends at the deadline, and only the wanted bytes of it are kept', ENDS, async (t) => {
  let sent = 0
  const url = await httpServer(t, (_, response) => {
    const chunk = Buffer.alloc(65_536, 120)
    const pour = (): void => {
      do sent += chunk.length
      while (response.write(chunk))
    }
    response.on('drain', pour)
    pour()
  })
  const got = await fetchOne(ask(url, { deadlineMs: 700, maxBytes: 10_000 }))
  assert.equal(got.exitCode, 28)
  assert.equal(got.body.length, 10_000)
  // 4 MiB a second for as long as it took, what the socket buffers hold, and what curl takes before it knows its rate:
  // the busier the machine, the more. Without the limit it is several times that on a quick one.
  const most = (80 + (4 * got.ms) / 1000) * 1024 * 1024
  assert.ok(sent < most, `${sent} bytes were sent in ${got.ms} ms`)
})

test('a body over the limit is an error, one at the limit is not', async (t) => {
  const url = await httpServer(t, (_, response) => response.end('x'.repeat(1000)))
  const over = await fetchOne(ask(url, { maxBytes: 999 }))
  assert.equal(over.exitCode, 63)
  assert.equal(over.body.length, 999)
  assert.match(over.error, /larger than 999 bytes/)
  assert.equal((await fetchOne(ask(url, { maxBytes: 1000 }))).exitCode, 0)
})

const broken: [string, (socket: Socket) => void, number][] = [
  ['does not speak HTTP', (s) => s.end('SSH-2.0-OpenSSH_9.2\r\n'), 1],
  ['closes without a word', (s) => s.destroy(), 52],
  ['closes within the body', (s) => s.end('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc'), 18],
]
for (const [name, onSocket, exitCode] of broken) {
  test(`a server that ${name}: curl's code ${exitCode}`, async (t) => {
    const got = await fetchOne(ask(await tcpServer(t, (s) => s.once('data', () => onSocket(s)))))
    assert.equal(got.exitCode, exitCode)
    assert.notEqual(got.error, '')
  })
}

test('refused beside an answer: each has its own result, in the order asked', async (t) => {
  const good = await httpServer(t, (request, response) => response.end(request.url))
  const { results } = await fetchAll([ask('http://127.0.0.1:1/'), ask(`${good}/1`), ask(`${good}/2`)])
  assert.deepEqual(
    results.map((r) => [r.exitCode, r.httpCode, r.body]),
    [
      [7, 0, ''],
      [0, 200, '/1'],
      [0, 200, '/2'],
    ],
  )
})

test('a URL that is none fails alone; one that looks like an option or a pattern is only a URL', async (t) => {
  const good = await httpServer(t, (request, response) => response.end(request.url))
  const urls = ['', '--version', 'file:///etc/passwd', 'http://[bad', 'http://', `${good}/{a,b}[1-3]`]
  const { results } = await fetchAll(urls.map((url) => ask(url)))
  assert.deepEqual(
    results.map((r) => r.exitCode),
    [3, 3, 3, 3, 3, 0],
  )
  assert.equal(results[5]?.body, '/{a,b}[1-3]')
  assert.deepEqual(await fetchInNetns(undefined, []), { seen: true, value: [] })
})

test('neither a proxy nor a .curlrc of the environment changes a probe', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'curl-home-'))
  const saved = { ...process.env }
  t.after(() => {
    process.env = saved
    rmSync(home, { recursive: true })
  })
  writeFileSync(join(home, '.curlrc'), 'header = "X-Bad: 1"\nuser-agent = bad\n')
  process.env.HOME = home
  process.env.CURL_HOME = home
  process.env.http_proxy = 'http://127.0.0.1:1'
  process.env.ALL_PROXY = 'http://127.0.0.1:1'
  const url = await httpServer(t, (request, response) => response.end(JSON.stringify(request.headers)))
  const got = await fetchOne(ask(url))
  assert.equal(got.exitCode, 0)
  assert.doesNotMatch(got.body, /bad/i)
})

test('curl missing is "could not look", not a dead browser', async (t) => {
  const path = process.env.PATH
  t.after(() => {
    process.env.PATH = path
  })
  process.env.PATH = '/nonexistent'
  for (const netns of [undefined, 'any']) {
    const look = await fetchInNetns(netns, [ask('http://127.0.0.1:1/')])
    assert.equal(look.seen, false)
    assert.match(look.seen ? '' : look.why, netns === undefined ? /curl is missing/ : /ip is missing/)
  }
})

for (const [name, script, why] of [
  ['ends without a report', 'exit 3', /cannot run curl: exit code 3/],
  ['reports only one of two', 'echo "0 0 200 0.1 "', /cannot run curl/],
  ['is stuck', 'exec sleep 60', /did not report/],
] as const) {
  test(`a curl that ${name} is "could not look"`, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'fake-curl-'))
    const path = process.env.PATH
    t.after(() => {
      process.env.PATH = path
      rmSync(dir, { recursive: true })
    })
    writeFileSync(join(dir, 'curl'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    process.env.PATH = `${dir}:${path}`
    const requests = [
      ask('http://127.0.0.1:1/a', { deadlineMs: 100 }),
      ask('http://127.0.0.1:1/b', { deadlineMs: 100 }),
    ]
    // One that ends by itself ends when it does; only the stuck one is ended by us.
    const slackMs = name === 'is stuck' ? 200 : LONG_MS
    const look = await fetchInNetns(undefined, requests, { slackMs })
    assert.match(look.seen ? 'seen' : look.why, why)
  })
}

test('one curl process for all, and no descriptor is left open', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'count-curl-'))
  const path = process.env.PATH ?? ''
  t.after(() => {
    process.env.PATH = path
    rmSync(dir, { recursive: true })
  })
  const script = `#!/bin/sh\necho "$1" >> ${dir}/calls\nPATH=${path} exec curl "$@"\n`
  writeFileSync(join(dir, 'curl'), script, { mode: 0o755 })
  process.env.PATH = `${dir}:${path}`
  const url = await httpServer(t, (_, response) => response.end('ok'))
  await fetchAll([ask(url), ask(url), ask(url, { wantBody: false })])
  assert.equal(readFileSync(join(dir, 'calls'), 'utf8'), '-q\n')
  const scratch = readdirSync('/proc/self/fd').filter((fd) => isScratch(fd))
  assert.deepEqual(scratch, [])
})

function isScratch(fd: string): boolean {
  try {
    return /\/dev\/shm\/.*deleted/.test(readlinkSync(`/proc/self/fd/${fd}`))
  } catch {
    return false
  }
}

test('inside a namespace: its loopback answers there and not here', {
  skip: needsRoot('ip netns add'),
}, async (t) => {
  const netns = ownNetns(t, 'curl')
  const { line } = await inside(
    t,
    netns,
    'const s=require("http").createServer((q,r)=>r.end("in there")).listen(0,"127.0.0.1",()=>console.log(s.address().port))',
  )
  const url = `http://127.0.0.1:${line}/`
  const { results } = await fetchAll([ask(url), ask('http://127.0.0.1:1/')], netns)
  assert.deepEqual(
    results.map((r) => [r.exitCode, r.body]),
    [
      [0, 'in there'],
      [7, ''],
    ],
  )
  const here = await fetchOne(ask(url))
  assert.equal(here.exitCode, 7)
})

test('inside a namespace that is not there: could not look', {
  skip: needsRoot('ip netns exec'),
}, async () => {
  const look = await fetchInNetns('nvt-not-there', [ask('http://127.0.0.1:1/')])
  assert.equal(look.seen, false)
  assert.match(look.seen ? '' : look.why, /nvt-not-there/)
})
