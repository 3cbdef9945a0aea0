import assert from 'node:assert/strict'
import net from 'node:net'
import test from 'node:test'
import fc from 'fast-check'
import { httpGet, parseAnswer, parseHead } from '../../lib/host/http.ts'
import { patience, scaled } from '../kit/unit.ts'
import { blockFor, until } from '../kit/until.ts'

/** A server that does `talk` with every connection, on a port of its own. */
async function server(
  talk: (socket: net.Socket) => void,
): Promise<{ port: number; close: () => Promise<void> }> {
  const sockets = new Set<net.Socket>()
  const srv = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    talk(socket)
  })
  await new Promise<void>((resolve) => srv.listen(0, '127.0.0.1', resolve))
  return {
    port: (srv.address() as net.AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        srv.close(() => resolve())
      }),
  }
}

/** For an answer that comes: only a failing test waits so long. */
const LONG_MS = patience(30_000)
/** For one that never comes. What a server says before its silence has this time to arrive. */
const SHORT_MS = scaled(1000)
/** A test that only a kept deadline ends. */
const ENDS = { timeout: LONG_MS }

async function ask(talk: (socket: net.Socket) => void, deadlineMs = LONG_MS, maxBytes?: number) {
  const srv = await server(talk)
  try {
    return await httpGet({
      host: '127.0.0.1',
      port: srv.port,
      path: '/json/version',
      deadlineMs,
      ...(maxBytes === undefined ? {} : { maxBytes }),
    })
  } finally {
    await srv.close()
  }
}

const reply = (text: string) => (socket: net.Socket) => {
  socket.once('data', () => socket.write(text))
}

test('an answer is whole at its content length: a connection that stays open is not waited for', async () => {
  const answer = await ask(reply('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{"a"more'))
  assert.equal(answer.kind, 'answer')
  assert.equal(answer.kind === 'answer' && answer.body, '{"a"')
})

test('the request names the address that was dialled and asks for no keep-alive', async () => {
  let request = ''
  const answer = await ask((socket) => {
    socket.once('data', (chunk) => {
      request = chunk.toString()
      socket.end('HTTP/1.0 404 Not Found\r\n\r\nno')
    })
  })
  assert.match(
    request,
    /^GET \/json\/version HTTP\/1\.1\r\nHost: 127\.0\.0\.1:\d+\r\nConnection: close\r\n\r\n$/,
  )
  assert.deepEqual(answer.kind === 'answer' && [answer.status, answer.body], [404, 'no'])
})

test('chunked bodies are joined, multi-byte text cut anywhere survives', async () => {
  const body = Buffer.from('{"Browser":"Chrome/156 é"}')
  const head = Buffer.from(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n`)
  const whole = Buffer.concat([
    head,
    Buffer.from('5\r\n'),
    body.subarray(0, 5),
    Buffer.from(`\r\n${(body.length - 5).toString(16)}\r\n`),
    body.subarray(5),
    Buffer.from('\r\n0\r\n\r\n'),
  ])
  const answer = await ask((socket) => {
    socket.setNoDelay(true)
    socket.once('data', () => {
      for (const byte of whole) socket.write(Buffer.from([byte]))
    })
  })
  assert.equal(answer.kind === 'answer' && answer.body, body.toString())
})

const failures: [string, (socket: net.Socket) => void, string, string][] = [
  ['accepts and never answers', () => {}, 'timeout', 'headers'],
  ['stalls in the headers', reply('HTTP/1.1 200 OK\r\nContent-'), 'timeout', 'headers'],
  ['stalls in the body', reply('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{'), 'timeout', 'body'],
  ['hangs up at once', (s) => s.once('data', () => s.end()), 'closed', 'headers'],
  ['resets', (s) => s.once('data', () => s.resetAndDestroy()), 'closed', 'headers'],
  [
    'hangs up in the body',
    (s) => s.once('data', () => s.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{')),
    'closed',
    'body',
  ],
  ['speaks another protocol', reply('SSH-2.0-OpenSSH_9.2\r\n'), 'bad', 'headers'],
  ['claims a length of nonsense', reply('HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n'), 'bad', 'headers'],
]
for (const [name, talk, kind, stage] of failures) {
  test(`a server that ${name}: ${kind} in ${stage}`, ENDS, async () => {
    const answer = await ask(talk, kind === 'timeout' ? SHORT_MS : LONG_MS)
    assert.deepEqual([answer.kind, answer.kind !== 'answer' && answer.stage], [kind, stage])
  })
}

test('a trickle does not extend the deadline', ENDS, async () => {
  const answer = await ask((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n')
    const drip = setInterval(() => socket.write('x'), 20)
    socket.on('close', () => clearInterval(drip))
  }, SHORT_MS)
  assert.equal(answer.kind, 'timeout')
})

test('a busy stretch of this process makes no healthy answer late', async () => {
  const srv = await server(reply('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
  // Busy from before the connection was made until long after the deadline.
  const asked = httpGet({ host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: SHORT_MS })
  blockFor(2 * SHORT_MS)
  const answer = await asked
  await srv.close()
  assert.equal(answer.kind, 'answer')
})

test('busy stretches give back time once: a silent server is still given up on', ENDS, async (t) => {
  const srv = await server(() => {})
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let given: string | undefined
  const asked = httpGet({ host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: 150 }).then((answer) => {
    given = answer.kind
  })
  // Our timers are the test's; that this process was busy meanwhile is real.
  const busy = async () => {
    blockFor(400)
    t.mock.timers.tick(150)
    for (let i = 0; i < 3; i++) await new Promise((r) => setImmediate(r))
  }
  await busy()
  assert.equal(given, undefined, 'the time lost by us is given back')
  await busy()
  assert.equal(given, 'timeout')
  await asked
  await srv.close()
})

test('an endless body ends at the size bound, not at the deadline', async () => {
  const answer = await ask(reply(`HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(5000)}`), LONG_MS, 4096)
  assert.equal(answer.kind, 'bad')
})

test('a port that nobody listens on is refused', async () => {
  const srv = await server(() => {})
  await srv.close()
  const answer = await httpGet({ host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: LONG_MS })
  assert.deepEqual([answer.kind, answer.kind !== 'answer' && answer.stage], ['refused', 'connect'])
})

test('two hundred at once: every connection is open before the first has its answer', async () => {
  const asking = new Set<net.Socket>()
  let most = 0
  const srv = await server((socket) =>
    socket.once('data', () => {
      asking.add(socket)
      most = Math.max(most, asking.size)
      // Asked one after the other, or in bunches, they would wait for ever here.
      if (asking.size === 200)
        for (const s of asking) s.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
    }),
  )
  const one = { host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: LONG_MS }
  const answers = await Promise.all(Array.from({ length: 200 }, () => httpGet(one)))
  await srv.close()
  assert.equal(most, 200)
  assert.equal(answers.filter((a) => a.kind === 'answer').length, 200)
})

test('silent ones cost the others nothing: each has its own deadline', ENDS, async () => {
  const well = await server(reply('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
  let connected = 0
  const silent = await server(() => connected++)
  const get = (port: number, deadlineMs: number) =>
    httpGet({ host: '127.0.0.1', port, path: '/', deadlineMs })
  const given: string[] = []
  const waiting = Array.from({ length: 100 }, async () => {
    given.push((await get(silent.port, 4 * SHORT_MS)).kind)
  })
  await until('the silent ones are waited for', () => connected === 100)
  const answers = await Promise.all(Array.from({ length: 100 }, () => get(well.port, LONG_MS)))
  await Promise.all(waiting)
  await well.close()
  await silent.close()
  assert.deepEqual(new Set(answers.map((a) => a.kind)), new Set(['answer']))
  assert.deepEqual([given.length, ...new Set(given)], [100, 'timeout'])
})

test('whatever arrives, in whatever pieces, parses without a throw, and a prefix is never more than the whole', () => {
  const pieces = fc.array(
    fc.oneof(
      fc.constantFrom(
        'HTTP/1.1 200 OK\r\n',
        '\r\n',
        'Content-Length: 3\r\n',
        'Transfer-Encoding: chunked\r\n',
        '3\r\nabc\r\n',
        '0\r\n\r\n',
      ),
      fc.string({ unit: 'binary', maxLength: 12 }),
    ),
    { maxLength: 12 },
  )
  fc.assert(
    fc.property(pieces, fc.nat(200), (parts, cut) => {
      const raw = parts.join('')
      const whole = parseAnswer(raw, false)
      const prefix = parseAnswer(raw.slice(0, cut), false)
      // Once an answer (or a refusal) is decided, more bytes do not change it.
      if (prefix !== undefined) assert.deepEqual(whole, prefix)
    }),
  )
  assert.equal(parseHead('HTT'), undefined)
})
