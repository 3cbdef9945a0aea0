import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import {
  apiTimeout,
  fetchExpression,
  judgeAnswer,
  judgeStatus,
  parsePageAnswer,
  rendererDead,
} from '../../lib/api/judge.ts'
import { text } from '../../lib/report/codes.ts'
import { patience } from '../kit/unit.ts'

describe('agent-health: findings', () => {
  it('2xx is well, everything else names its code', () => {
    for (const s of [200, 204, 299]) assert.equal(judgeStatus(s).kind, 'ok')
    for (const s of [0, 199, 300, 401, 403, 500]) {
      const f = judgeStatus(s)
      assert.equal(f.kind === 'failure' && f.reason, text('api-http', { status: s }))
      assert.equal(f.kind === 'failure' && f.egressInDoubt, false)
    }
    assert.equal(apiTimeout.kind === 'failure' && apiTimeout.egressInDoubt, true)
    assert.equal(rendererDead.kind === 'failure' && rendererDead.reason, text('renderer-silent'))
  })

  it('what a page returns is not trusted', () => {
    assert.deepEqual(parsePageAnswer({ status: 200 }), { status: 200 })
    assert.deepEqual(parsePageAnswer({ timeout: true }), { timeout: true })
    for (const bad of [
      null,
      7,
      'ok',
      {},
      { status: '200' },
      { status: 1.5 },
      { status: -1 },
      { timeout: 1 },
    ]) {
      assert.equal(parsePageAnswer(bad), undefined, JSON.stringify(bad))
    }
    const f = judgeAnswer({ error: 'Failed to fetch' })
    assert.equal(f.kind === 'failure' && f.reason, text('api-unreachable', { why: 'Failed to fetch' }))
  })

  const redirects: [string, string, string, number, string][] = [
    [
      'a login page',
      'https://x.example/api',
      'https://x.example/login?next=/api&t=1',
      200,
      '3xx (redirected to https://x.example/login)',
    ],
    [
      'another origin',
      'https://x.example/api',
      'https://y.example/api',
      200,
      '3xx (redirected to https://y.example/api)',
    ],
    [
      'another port',
      'http://x.example:1/api',
      'http://x.example:2/api',
      200,
      '3xx (redirected to http://x.example:2/api)',
    ],
    [
      'https to http',
      'https://x.example/api',
      'http://x.example/api',
      200,
      '3xx (redirected to http://x.example/api)',
    ],
    [
      'the same path with another query',
      'https://x.example/',
      'https://x.example/?login',
      200,
      '3xx (redirected to https://x.example/)',
    ],
    ['no URL', 'https://x.example/', '', 200, '3xx (redirected to somewhere)'],
    [
      'a failure',
      'https://x.example/api',
      'https://x.example/v2',
      401,
      '401 (redirected to https://x.example/v2)',
    ],
    ['a slash', 'https://x.example/api', 'https://x.example/api/', 200, ''],
    ['a slash, failing', 'https://x.example/api', 'https://x.example/api/', 500, '500'],
    ['http to https', 'http://x.example/api', 'https://x.example/api', 204, ''],
  ]
  for (const [name, asked, url, status, expected] of redirects)
    it(`a redirect to ${name}: ${expected || 'well'}`, () => {
      const answer = parsePageAnswer({ status, redirected: true, asked, url })
      assert.ok(answer)
      const f = judgeAnswer(answer)
      assert.equal(f.kind === 'failure' ? f.reason : '', expected && text('api-http', { status: expected }))
      if (f.kind === 'failure') assert.equal(f.egressInDoubt, false)
    })

  it('a redirect that the page cannot follow', () => {
    const f = judgeAnswer({ redirectHidden: true })
    assert.equal(f.kind === 'failure' && f.reason, text('api-http', { status: '3xx (redirected)' }))
    assert.equal(parsePageAnswer({ status: 200, redirected: true }), undefined)
  })

  it('the expression tells of a redirect that a real server made', async (t) => {
    const server = createServer((req, res) => {
      if (req.url === '/api') res.writeHead(302, { location: '/login' }).end()
      else res.end('<form>')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => {
      server.closeAllConnections()
      server.close()
    })
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const run = (path: string) =>
      new Function('location', `return ${fetchExpression(path, patience(30_000))}`)({
        origin,
      }) as Promise<unknown>
    const there = parsePageAnswer(await run('/api'))
    assert.ok(there)
    const f = judgeAnswer(there)
    assert.equal(
      f.kind === 'failure' && f.reason,
      text('api-http', { status: `3xx (redirected to ${origin}/login)` }),
    )
    assert.deepEqual(parsePageAnswer(await run('/other')), { status: 200 })
  })

  it('the API check is data in the expression, whatever it holds', () => {
    const evil = '/x"), alert(1), ("\u2028'
    assert.ok(fetchExpression(evil, 10).includes(JSON.stringify(evil)))
    assert.doesNotThrow(() => new Function(`return ${fetchExpression(evil, 10)}`))
  })
})
