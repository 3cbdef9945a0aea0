import assert from 'node:assert/strict'
import net from 'node:net'
import test from 'node:test'
import fc from 'fast-check'
import { httpGet, parseAnswer, parseHead } from '../../lib/supervisors/cdp-relay-watchdog/http.ts'

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

async function ask(talk: (socket: net.Socket) => void, deadlineMs = 2000, maxBytes?: number) {
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
  const answer = await ask(reply('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{"a"more'), 1500)
  assert.equal(answer.kind, 'answer')
  assert.equal(answer.kind === 'answer' && answer.body, '{"a"')
  assert.ok(answer.ms < 1000)
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
  test(`a server that ${name}: ${kind} in ${stage}, on time`, async () => {
    const answer = await ask(talk, 300)
    assert.deepEqual([answer.kind, answer.kind !== 'answer' && answer.stage], [kind, stage])
    assert.ok(answer.ms < 1000, `took ${answer.ms} ms`)
  })
}

test('a trickle does not extend the deadline', async () => {
  const answer = await ask((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n')
    const drip = setInterval(() => socket.write('x'), 20)
    socket.on('close', () => clearInterval(drip))
  }, 250)
  assert.equal(answer.kind, 'timeout')
  assert.ok(answer.ms < 900, `took ${answer.ms} ms`)
})

test('a busy stretch of this process makes no healthy answer late', async () => {
  const srv = await server(reply('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
  // Busy from before the connection was made until long after the deadline.
  const asked = httpGet({ host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: 150 })
  const end = performance.now() + 400
  while (performance.now() < end);
  const answer = await asked
  await srv.close()
  assert.equal(answer.kind, 'answer')
})

test('a busy stretch gives back time once: a silent server is still given up on', async () => {
  const srv = await server(() => {})
  const asked = httpGet({ host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: 150 })
  const end = performance.now() + 400
  while (performance.now() < end);
  const answer = await asked
  await srv.close()
  assert.equal(answer.kind, 'timeout')
  assert.ok(answer.ms < 1500, `took ${answer.ms} ms`)
})

test('an endless body ends at the size bound, not at the deadline', async () => {
  const answer = await ask(reply(`HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(5000)}`), 3000, 4096)
  assert.deepEqual([answer.kind, answer.ms < 2000], ['bad', true])
})

test('a port that nobody listens on is refused at once', async () => {
  const srv = await server(() => {})
  await srv.close()
  const answer = await httpGet({ host: '127.0.0.1', port: srv.port, path: '/', deadlineMs: 2000 })
  assert.deepEqual([answer.kind, answer.kind !== 'answer' && answer.stage], ['refused', 'connect'])
})

test('two hundred at once, half of them silent, take one deadline', async () => {
  const well = await server(reply('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'))
  const silent = await server(() => {})
  const started = performance.now()
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, i) =>
      httpGet({ host: '127.0.0.1', port: i % 2 ? well.port : silent.port, path: '/', deadlineMs: 800 }),
    ),
  )
  const took = performance.now() - started
  await well.close()
  await silent.close()
  assert.equal(answers.filter((a) => a.kind === 'answer').length, 100)
  assert.equal(answers.filter((a) => a.kind === 'timeout').length, 100)
  assert.ok(took < 3000, `took ${took} ms`)
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
