import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { WebSocketServer } from 'ws'
import { type Paths, paths } from '../../lib/base/paths.ts'
import type { Node } from '../../lib/base/types.ts'
import { lookLive } from '../../lib/evidence/live.ts'
import { inUnit, lookForBrowsers } from '../../lib/evidence/process.ts'
import type { Sight } from '../../lib/evidence/sight.ts'
import { fakeProc } from '../kit/fake-proc.ts'
import { tempPaths } from '../kit/temp.ts'

const yes = { seen: true, value: true } as const
const sighted: Sight = { processes: yes, absenceCounts: true, network: () => yes, blind: [] }
const node = (port: number, over: Partial<Node> = {}): Node => ({
  name: 'muse',
  agent: 'muse',
  netns: 'warp-muse',
  cdpPort: port,
  gw: '10.201.35.1',
  peer: '127.0.0.1',
  relayTarget: `127.0.0.1:${port}`,
  status: 'active',
  chatUrl: '',
  chatTitle: '',
  apiCheck: '',
  host: '',
  line: 1,
  ...over,
})
const shell = { firstUserNs: true, all: yes, addresses: new Set(['10.201.35.1']) }

const VERSION = '{"Browser":"Chrome/156","webSocketDebuggerUrl":"ws://x/devtools/browser/1"}'
const page = (title: string, type = 'page') =>
  `[{"id":"1","type":"${type}","title":"${title}","url":"http://x/"}]`
const http = (body: string, status = '200 OK') =>
  `HTTP/1.1 ${status}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

/** A server that does with each connection's request what it is told. */
async function serve(t: TestContext, answer: (path: string, socket: Socket) => void): Promise<number> {
  const open = new Set<Socket>()
  const server: Server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.once('data', (d) => answer(/^GET (\S+)/.exec(String(d))?.[1] ?? '', socket))
  })
  t.after(() => {
    for (const s of open) s.destroy()
    server.close()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as { port: number }).port
}

const emptyProc = (t: TestContext) => {
  const fake = fakeProc()
  t.after(fake.remove)
  return { ...paths(''), proc: fake.proc, netnsDir: '/nonexistent' }
}

async function ask(t: TestContext, port: number, over: Partial<Node> = {}) {
  const live = await lookLive(emptyProc(t), [node(port, over)], shell, sighted, 300)
  const facts = live.get('muse')
  assert.ok(facts?.cdp.seen)
  return { cdp: facts.cdp.value, page: facts.page, facts }
}

describe('the answer on the relay’s address', () => {
  const answers = (list: string) => (path: string, s: Socket) =>
    s.end(http(path === '/json/version' ? VERSION : list))

  it('a browser with its page', async (t) => {
    const { cdp, page: found } = await ask(t, await serve(t, answers(page('Chat with muse'))), {
      chatTitle: 'Chat',
    })
    assert.deepEqual(cdp, { kind: 'browser', found: { state: 'ok', browser: 'Chrome/156' } })
    assert.deepEqual(found, { seen: true, value: { state: 'ok', title: 'Chat with muse' } })
  })
  it('a browser with another page', async (t) => {
    const { page: found } = await ask(t, await serve(t, answers(page('Login'))), { chatTitle: 'Chat' })
    assert.deepEqual(found, { seen: true, value: { state: 'missing', detail: 'titles: Login' } })
  })
  it('a browser with a worker only', async (t) => {
    const { page: found } = await ask(t, await serve(t, answers(page('Chat', 'service_worker'))))
    assert.ok(found.seen)
    assert.equal(found.value.state, 'no-pages')
  })

  const lists: [string, (s: Socket) => void, string, boolean][] = [
    ['never comes', () => {}, 'unreachable', false],
    ['is taken and closed', (s) => s.end(), 'unreachable', false],
    ['is no list', (s) => s.end(http('<html>')), 'ok', false],
    ['is an empty list', (s) => s.end(http('[]')), 'ok', true],
  ]
  for (const [name, list, state, listed] of lists)
    it(`a browser whose list ${name}: CDP ${state}`, async (t) => {
      const port = await serve(t, (path, s) => (path === '/json/version' ? s.end(http(VERSION)) : list(s)))
      const { cdp, facts } = await ask(t, port, { chatTitle: 'Chat' })
      assert.equal(cdp.kind === 'browser' ? cdp.found.state : '', state)
      assert.equal(facts.listed, listed)
      assert.ok(!facts.page.seen || facts.page.value.state !== 'ok')
    })

  const others: [string, (path: string, s: Socket) => void, string][] = [
    ['a web server', (_, s) => s.end(http('<html>hello</html>')), 'not-a-browser'],
    ['another program’s JSON', (_, s) => s.end(http('{"ok":true}')), 'not-a-browser'],
    ['a 404', (_, s) => s.end(http('', '404 Not Found')), 'not-a-browser'],
    ['no HTTP at all', (_, s) => s.end('SSH-2.0-OpenSSH_9\r\n'), 'not-a-browser'],
    ['taken and closed', (_, s) => s.end(), 'closed'],
    ['reset', (_, s) => s.resetAndDestroy(), 'closed'],
    ['silence', () => {}, 'timeout'],
    ['headers, then silence', (_, s) => s.write('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{'), 'timeout'],
    [
      'half a body',
      (_, s) => s.end('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"Browser"'),
      'not-a-browser',
    ],
  ]
  for (const [name, answer, kind] of others)
    it(`${name}: ${kind}`, async (t) => assert.equal((await ask(t, await serve(t, answer))).cdp.kind, kind))

  it('nobody listens: refused', async (t) => {
    const port = await serve(t, () => {})
    const other = port === 65535 ? port - 1 : port + 1
    assert.equal((await ask(t, other)).cdp.kind, 'refused')
  })

  it('a namespace without a name is missing, as far as the directory is the host’s', async (t) => {
    const port = await serve(t, answers(page('Chat')))
    const look = async (p: Paths, absenceCounts: boolean) =>
      (await lookLive(p, [node(port)], shell, { ...sighted, absenceCounts }, 300)).get('muse')?.netns.look
    const unseen = { seen: false, why: "the names of namespaces here may not be the host's" }
    const there = (exists: boolean) => ({ seen: true, value: { exists, isNamespace: false } })
    const p = { ...tempPaths(t), proc: emptyProc(t).proc }
    mkdirSync(p.run, { recursive: true })
    assert.deepEqual(await look(p, true), unseen)
    mkdirSync(p.netnsDir)
    assert.deepEqual(await look(p, true), there(false))
    assert.deepEqual(await look(p, false), unseen)
    assert.deepEqual(await look({ ...p, netnsDir: '/proc/self/fd' }, true), unseen)
    writeFileSync(`${p.netnsDir}/warp-muse`, '')
    assert.deepEqual(await look(p, true), there(true))
  })

  it('many silent nodes take one deadline, not one each', async (t) => {
    const port = await serve(t, () => {})
    const nodes = Array.from({ length: 50 }, (_, i) => node(port, { name: `n${i}` }))
    const started = performance.now()
    await lookLive(emptyProc(t), nodes, shell, sighted, 300)
    assert.ok(performance.now() - started < 3000)
  })

  it('a shell that cannot see the network asks nobody', async (t) => {
    let asked = 0
    const port = await serve(t, () => asked++)
    const no = { seen: false, why: 'own network namespace' } as const
    const live = await lookLive(emptyProc(t), [node(port)], shell, { ...sighted, network: () => no }, 300)
    assert.deepEqual(live.get('muse')?.cdp, no)
    assert.deepEqual(live.get('muse')?.gateway, no)
    assert.equal(asked, 0)
  })
})

describe('a page titled with the host name of its URL', () => {
  /** A browser with these pages; asked over its socket, a page says `href`, or nothing when there is none. */
  async function browser(
    t: TestContext,
    pages: { title: string; url: string; href?: string; taken?: true }[],
  ) {
    let asked = 0
    const list = (port: number) =>
      pages.map(({ title, url, taken }, i) => ({
        id: `${i}`,
        type: 'page',
        title,
        url,
        ...(taken ? {} : { webSocketDebuggerUrl: `ws://other:${port}/devtools/page/${i}` }),
      }))
    const server = createHttp((req, res) =>
      res.end(req.url === '/json/version' ? VERSION : JSON.stringify(list(port))),
    )
    const sockets = new WebSocketServer({ server })
    sockets.on('connection', (socket, req) => {
      asked++
      const { href } = pages[Number(req.url?.split('/').at(-1))] ?? {}
      socket.on('message', (m) => {
        const { id } = JSON.parse(String(m))
        if (href !== undefined) socket.send(JSON.stringify({ id, result: { result: { value: [href, ''] } } }))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    t.after(() => {
      for (const c of sockets.clients) c.terminate()
      server.closeAllConnections()
      server.close()
    })
    const found = await ask(t, port, { chatTitle: 'muse' })
    assert.ok(found.page.seen)
    return { page: found.page.value, asked }
  }
  const failed = { title: 'muse.example', url: 'https://muse.example/chat' }
  const error = { ...failed, href: 'chrome-error://chromewebdata/' }
  const real = { ...failed, href: 'https://muse.example/chat' }

  it('shows the browser’s error page', async (t) => {
    const { page } = await browser(t, [error])
    assert.deepEqual(page, { state: 'error-page', detail: 'error page: muse.example' })
  })
  it('is the page: a site may be titled so', async (t) => {
    assert.deepEqual((await browser(t, [real])).page, { state: 'ok', title: 'muse.example' })
  })
  it('is not asked when another of the title cannot be one', async (t) => {
    const other = { title: 'Chat with muse', url: 'https://muse.example/' }
    assert.deepEqual(await browser(t, [error, other]), {
      page: { state: 'ok', title: other.title },
      asked: 0,
    })
  })
  it('beside one that is the page', async (t) => {
    assert.equal((await browser(t, [error, { ...failed }, real])).page.state, 'ok')
  })
  it('does not answer: nobody can tell', async (t) => {
    const { page } = await browser(t, [failed, error])
    assert.deepEqual(page, {
      state: 'doubtful',
      detail: 'over the relay: the page does not answer in time',
    })
  })
  it('is held by another client: nobody can tell', async (t) => {
    assert.equal((await browser(t, [{ ...failed, taken: true }])).page.state, 'doubtful')
  })
})

describe('the browser in the process table', () => {
  const argv = ['/usr/bin/chromium', '--user-data-dir=/var/lib/chromebox/muse']
  const cgroup = '0::/system.slice/system-chromebox.slice/chromebox@muse.service\n'
  const look = (t: TestContext, add: (fake: ReturnType<typeof fakeProc>) => void, absenceCounts = true) => {
    const fake = fakeProc({ uptime: 100 })
    t.after(fake.remove)
    add(fake)
    const p = { ...paths(''), proc: fake.proc, netnsDir: '/nonexistent' }
    return lookForBrowsers(p, [node(1)], { processes: yes, absenceCounts }).get('muse')
  }
  const process =
    (over: object, group = cgroup) =>
    (fake: ReturnType<typeof fakeProc>) => {
      fake.add({ pid: 77, argv, startTicks: 9000, ...over })
      writeFileSync(`${fake.proc}/77/cgroup`, group)
    }
  const absent = { seen: true, value: undefined }

  it('is found in its unit', (t) => {
    assert.deepEqual(look(t, process({})), {
      seen: true,
      value: { pid: 77, startTicks: 9000, ageMs: 10_000, state: 'S' },
    })
  })
  const not: [string, (fake: ReturnType<typeof fakeProc>) => void][] = [
    ['a zombie', process({ state: 'Z' })],
    ['a child', process({ argv: [...argv, '--type=renderer'] })],
    ['of another node', process({ argv: ['chromium', '--user-data-dir=/var/lib/chromebox/muse2'] })],
    ['with the path in another argument', process({ argv: ['vim', '/var/lib/chromebox/muse'] })],
    ['a user’s in his session', process({}, '0::/user.slice/user-1000.slice/session-1.scope\n')],
    [
      'a user’s in a unit of that name',
      process({}, '0::/user.slice/user-1000.slice/user@1000.service/system.slice/chromebox@muse.service\n'),
    ],
    ['in another unit', process({}, '0::/system.slice/ssh.service\n')],
  ]
  for (const [name, add] of not) it(`is not ${name}`, (t) => assert.deepEqual(look(t, add), absent))

  it('that is not there is not gone, unless this is surely the host', (t) => {
    assert.equal(look(t, () => {}, false)?.seen, false)
  })

  it('a v1 hierarchy names the unit as well', () => {
    assert.ok(
      inUnit(
        '3:pids:/\n1:name=systemd:/system.slice/system-chromebox.slice/chromebox@a.service\n',
        'chromebox@a.service',
      ),
    )
    assert.ok(!inUnit('1:name=systemd:/chromebox@a.service\n', 'chromebox@a.service'))
  })
})
