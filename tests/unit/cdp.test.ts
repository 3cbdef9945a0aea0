import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  mayBeErrorPage,
  type PageVerdict,
  pageVerdict,
  parseTargets,
  parseVersion,
  rewriteAuthority,
} from '../../lib/cdp/targets.ts'

const WS = 'ws://127.0.0.1:9410/devtools/browser/0b5e6b1c'
const version = (over: object): string =>
  JSON.stringify({ Browser: 'Chrome/156.0.1', 'Protocol-Version': '1.3', webSocketDebuggerUrl: WS, ...over })

const versions: [string, string, { browser: string; wsUrl: string } | undefined][] = [
  ['a browser', version({}), { browser: 'Chrome/156.0.1', wsUrl: WS }],
  ['headless', version({ Browser: 'HeadlessChrome/156' }), { browser: 'HeadlessChrome/156', wsUrl: WS }],
  ['HTML with status 200', '<!doctype html><title>Welcome</title>', undefined],
  ['nothing', '', undefined],
  ['cut in the middle', version({}).slice(0, 60), undefined],
  ['JSON of another program', '{"status":"ok","version":"2.1"}', undefined],
  ['null', 'null', undefined],
  ['a number', '156', undefined],
  ['an array', `[${version({})}]`, undefined],
  ['a text', '"Browser"', undefined],
  ["Node's inspector", '{"Browser":"node.js/v20.20.2","Protocol-Version":"1.1"}', undefined],
  ['a browser that is a number', version({ Browser: 156 }), undefined],
  ['an empty browser', version({ Browser: '' }), undefined],
  ['no WebSocket', version({ webSocketDebuggerUrl: undefined }), undefined],
  ['a WebSocket elsewhere', version({ webSocketDebuggerUrl: 'ws://127.0.0.1:9229/8d0e' }), undefined],
  ['a page as browser', version({ webSocketDebuggerUrl: 'ws://h/devtools/page/1' }), undefined],
  ['another scheme', version({ webSocketDebuggerUrl: 'file:///devtools/browser/1' }), undefined],
  ['a line break in the URL', version({ webSocketDebuggerUrl: `${WS}\r\nX: y` }), undefined],
]
for (const [name, body, want] of versions) {
  test(`version: ${name}`, () => assert.deepEqual(parseVersion(body), want))
}

const page = (over: object = {}): object => ({
  id: 'P1',
  type: 'page',
  title: 'Muse chat',
  url: 'https://chat.example/c/1',
  webSocketDebuggerUrl: 'ws://127.0.0.1:9410/devtools/page/P1',
  ...over,
})
const worker = { id: 'W', type: 'service_worker', title: 'Muse chat', url: 'https://chat.example/sw.js' }
const frame = { id: 'F', type: 'iframe', title: 'Muse chat', url: 'https://ads.example' }
const omnibox = {
  id: 'O',
  type: 'browser_ui',
  title: 'Omnibox Popup',
  url: 'chrome://omnibox-popup.top-chrome/',
}
const typeless = { id: 'T', title: 'Muse chat', url: 'https://chat.example' }
const blank = page({ id: 'B', title: '', url: 'about:blank' })
const failed = page({ id: 'E', title: 'chat.example', url: 'chrome-error://chromewebdata/' })

const verdicts: [string, object[], string, PageVerdict['kind'], string?][] = [
  ['the page', [page()], 'Muse', 'ok', 'P1'],
  ['the page behind a worker', [worker, page()], 'Muse chat', 'ok', 'P1'],
  ['the page behind everything', [omnibox, typeless, frame, blank, failed, page()], 'Muse', 'ok', 'P1'],
  ['only a worker with the title', [worker], 'Muse', 'noPages'],
  ['only an iframe with the title', [frame], 'Muse', 'noPages'],
  ['only a target without a type', [typeless], 'Muse', 'noPages'],
  ['only the omnibox', [omnibox], '', 'noPages'],
  ['no targets', [], '', 'noPages'],
  ['about:blank with an empty title', [blank], 'Muse', 'missing'],
  ['about:blank when any page will do', [blank], '', 'ok', 'B'],
  ['a title that is empty', [page({ title: '' })], 'Muse', 'missing'],
  ['no title at all', [page({ title: undefined })], 'Muse', 'missing'],
  ['another title', [page({ title: 'Sign in' })], 'Muse', 'missing'],
  ['another case', [page({ title: 'muse chat' })], 'Muse', 'missing'],
  ['an error page', [failed], 'Muse', 'errorPage', 'E'],
  ['an error page titled as the page', [failed], 'chat.example', 'errorPage', 'E'],
  ['an error page when any page will do', [failed], '', 'errorPage', 'E'],
  ['an error page beside another', [page({ title: 'Sign in' }), failed], 'Muse', 'errorPage', 'E'],
]
for (const [name, targets, title, kind, id] of verdicts) {
  test(`page: ${name} → ${kind}`, () => {
    const parsed = parseTargets(JSON.stringify(targets))
    assert.ok(parsed)
    const verdict = pageVerdict(parsed, title)
    assert.equal(verdict.kind, kind)
    assert.equal('page' in verdict ? verdict.page.id : undefined, id)
  })
}

for (const [title, url, want] of [
  ['127.0.0.1', 'http://127.0.0.1:1/', true],
  ['chat.example', 'https://chat.example/c/1', true],
  ['müse.example', 'http://m\u00fcse.example/', true],
  ['xn--mse-hoa.example', 'http://xn--mse-hoa.example/', true],
  ['chat.example', 'chrome-error://chromewebdata/', true],
  ['Muse chat', 'https://chat.example/c/1', false],
  ['', 'about:blank', false],
  ['x', 'no URL', false],
  ['127.0.0.1:8080', 'http://127.0.0.1:8080/', true],
  ['127.0.0.1:8080/chat?x=1', 'http://127.0.0.1:8080/chat?x=1', true],
  ['127.0.0.1:8080', 'http://127.0.0.1/', false],
] as const) {
  test(`a page titled "${title}" at ${url} ${want ? 'may be' : 'is not'} an error page`, () => {
    assert.equal(mayBeErrorPage({ id: 'P', type: 'page', title, url }), want)
  })
}

test('page: what is there instead is named', () => {
  const parsed = parseTargets(JSON.stringify([worker, omnibox, typeless, worker])) ?? []
  assert.deepEqual(pageVerdict(parsed, ''), { kind: 'noPages', types: ['service_worker', 'browser_ui', '?'] })
  const other = parseTargets(JSON.stringify([page({ title: 'a' }), page({ title: 'b' })])) ?? []
  assert.deepEqual(pageVerdict(other, 'Muse'), { kind: 'missing', titles: ['a', 'b'] })
})

for (const [name, body, want] of [
  ['HTML', '<html></html>', undefined],
  ['nothing', '', undefined],
  ['an object', '{"targets":[]}', undefined],
  ['an array of numbers', '[1,2]', undefined],
  ['an array of other objects', '[{"name":"x"}]', undefined],
  ['a browser without targets', '[]', 0],
  ['odd entries between', JSON.stringify([null, 3, page(), [], { id: 7 }]), 1],
] as const) {
  test(`targets: ${name}`, () => assert.equal(parseTargets(body)?.length, want))
}

test('targets: fields of a wrong kind become empty, a WebSocket that is none is left out', () => {
  const odd = { id: 'X', type: 1, title: null, url: {}, webSocketDebuggerUrl: 'javascript:1' }
  assert.deepEqual(parseTargets(JSON.stringify([odd])), [{ id: 'X', type: '', title: '', url: '' }])
  assert.deepEqual(parseTargets(JSON.stringify([page()])), [
    {
      id: 'P1',
      type: 'page',
      title: 'Muse chat',
      url: 'https://chat.example/c/1',
      wsUrl: 'ws://127.0.0.1:9410/devtools/page/P1',
    },
  ])
})

for (const [url, host, port, want] of [
  [WS, '10.201.35.2', 9410, 'ws://10.201.35.2:9410/devtools/browser/0b5e6b1c'],
  ['ws://localhost/devtools/page/A', '127.0.0.1', 1, 'ws://127.0.0.1:1/devtools/page/A'],
  ['wss://[::1]:9/devtools/page/A', '::1', 9, 'ws://[::1]:9/devtools/page/A'],
  ['ws://evil.example:80/devtools/page/A@b', '10.0.0.1', 9, 'ws://10.0.0.1:9/devtools/page/A@b'],
] as const) {
  test(`authority of ${url} becomes ${host}:${port}`, () =>
    assert.equal(rewriteAuthority(url, host, port), want))
}

test('authority: what no parser here returns is refused', () => {
  for (const url of ['', 'http://x/devtools/page/1', 'ws://x/other', 'ws:///devtools/page/1'])
    assert.throws(() => rewriteAuthority(url, 'h', 1), TypeError)
})

test('any JSON value as an answer: no crash, and the WebSocket always leads to what was dialled', () => {
  fc.assert(
    fc.property(fc.json(), fc.string(), (body, title) => {
      const got = parseVersion(body)
      if (got !== undefined)
        assert.match(rewriteAuthority(got.wsUrl, '10.0.0.1', 1), /^ws:\/\/10\.0\.0\.1:1\//)
      pageVerdict(parseTargets(body) ?? [], title)
    }),
  )
})
