import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DEFAULTS } from '../../lib/base/config.ts'
import { judgeEgress } from '../../lib/egress/judge.ts'
import { egressRequests } from '../../lib/egress/probes.ts'
import type { EgressFacts, EgressFault } from '../../lib/egress/types.ts'
import type { FetchResult } from '../../lib/host/curl.ts'
import { parseWgDump } from '../../lib/tunnel/wg-dump.ts'
import { textOf } from '../kit/says.ts'

const DAY = 86_400_000
/** The second in which the dumps below were taken. */
const AT = 1_764_475_040_000

function result(url: string, exitCode: number, httpCode: number, error = ''): FetchResult {
  return { url, exitCode, httpCode, body: '', timeMs: 5, error }
}
const OK = result('http://192.0.2.80/', 0, 200)
const BY_ADDRESS = result('http://192.0.2.80/', 28, 0, 'Connection timed out after 5001 milliseconds')
const NO_ROUTE = result('http://192.0.2.80/', 7, 0, 'Failed to connect to 192.0.2.80 port 80')
const NO_NAME = result('http://site.test/', 6, 0, 'Could not resolve host: site.test')
const SLOW_NAME = result('http://site.test/', 28, 0, 'Resolving timed out after 5000 milliseconds')

/** `wg show wg-x dump`, recorded; keys replaced. */
function dump(handshake: number, endpoint = '198.51.100.7:2408') {
  const head = `${'A'.repeat(42)}E=\t${'B'.repeat(42)}A=\t40123\toff\n`
  return parseWgDump(
    `${head}${'C'.repeat(42)}k=\t(none)\t${endpoint}\t0.0.0.0/0,::/0\t${handshake}\t3412\t9120\toff\n`,
  )
}
const HANDSHAKE_40_S_AGO = dump(1_764_475_000)

const failing: EgressFacts = {
  node: 'n1',
  configured: true,
  wg: 'wg-x',
  probes: { seen: true, value: [BY_ADDRESS, NO_NAME] },
  dump: { seen: true, value: HANDSHAKE_40_S_AGO },
  rxGrew: false,
  unit: { seen: true, value: { active: 'active', detail: '' } },
  endpoints: { seen: true, value: ['198.51.100.7:2408'] },
  wallMs: AT,
}

const MISSING = { seen: true, value: undefined } as const
const DEAD = { seen: true, value: { active: 'failed', detail: 'signal KILL' } } as const

const DOWN: readonly [
  what: string,
  change: Partial<EgressFacts>,
  code: EgressFault,
  values: Readonly<Record<string, string | number>>,
  repair: boolean,
][] = [
  ['interface deleted', { dump: MISSING }, 'egress-interface-missing', { wg: 'wg-x', more: '' }, true],
  [
    'wireguard-go killed',
    { dump: MISSING, unit: DEAD },
    'egress-interface-missing',
    { wg: 'wg-x', more: ', netvm-tunnel@n1 is failed (signal KILL)' },
    true,
  ],
  [
    'the endpoint did not resolve at start',
    {
      dump: MISSING,
      unit: DEAD,
      endpoints: { seen: false, why: 'endpoint a.example does not resolve on the host (ENOTFOUND)' },
    },
    'egress-interface-missing',
    {
      wg: 'wg-x',
      more: ', netvm-tunnel@n1 is failed (signal KILL), endpoint a.example does not resolve on the host (ENOTFOUND)',
    },
    true,
  ],
  [
    'unit ended cleanly, somebody else’s interface',
    { unit: { seen: true, value: { active: 'inactive', detail: 'exit code 0' } } },
    'egress-unit-inactive',
    { unit: 'netvm-tunnel@n1', state: 'inactive (exit code 0)' },
    true,
  ],
  [
    'no peers',
    { dump: { seen: true, value: { listenPort: 1, peers: [] } } },
    'egress-no-peers',
    { wg: 'wg-x' },
    true,
  ],
  ['never a handshake', { dump: { seen: true, value: dump(0) } }, 'egress-no-handshake', { moved: '' }, true],
  [
    'never a handshake, and the name leads elsewhere',
    { dump: { seen: true, value: dump(0) }, endpoints: { seen: true, value: ['203.0.113.9:2408'] } },
    'egress-no-handshake',
    { moved: ', endpoint moved' },
    true,
  ],
  [
    'endpoint moved',
    { endpoints: { seen: true, value: ['203.0.113.9:2408', '203.0.113.10:2408'] } },
    'egress-endpoint-moved',
    { age: 40 },
    true,
  ],
  [
    'one of several addresses is still the right one',
    { endpoints: { seen: true, value: ['203.0.113.9:2408', '198.51.100.7:2408'] } },
    'egress-peer-silent',
    { age: 40 },
    true,
  ],
  [
    'the name does not resolve now',
    { endpoints: { seen: false, why: 'no answer' } },
    'egress-peer-silent',
    { age: 40 },
    true,
  ],
  ['server gone', {}, 'egress-peer-silent', { age: 40 }, true],
  [
    'server gone, only names asked',
    { probes: { seen: true, value: [NO_NAME, SLOW_NAME] } },
    'egress-peer-silent',
    { age: 40 },
    true,
  ],
  [
    'DNS dead',
    { probes: { seen: true, value: [NO_NAME, SLOW_NAME] }, rxGrew: true },
    'egress-dns',
    { age: 40 },
    true,
  ],
  [
    'DNS dead after a restart',
    { probes: { seen: true, value: [SLOW_NAME] }, afterRestart: true },
    'egress-dns',
    { age: 40 },
    true,
  ],
  ['the peer is there, nothing behind it', { rxGrew: true }, 'egress-behind-peer', { age: 40 }, true],
  [
    'wg cannot be asked',
    { dump: { seen: false, why: 'Operation not permitted' } },
    'egress-no-answer',
    {},
    true,
  ],
  ['wg was not asked', { dump: undefined as never }, 'egress-no-answer', {}, true],
  ['clock went back a day', { wallMs: AT - DAY }, 'egress-clock', { seconds: 86360 }, false],
  [
    'clock went back across a reboot',
    { dump: { seen: true, value: dump(0) }, keptHandshakeMs: AT + DAY },
    'egress-clock',
    { seconds: 86400 },
    false,
  ],
  ['clock went forward a day', { wallMs: AT + DAY }, 'egress-peer-silent', { age: 86440 }, true],
  ['a handshake a moment ahead is no step', { wallMs: AT - 44_000 }, 'egress-peer-silent', { age: 0 }, true],
  [
    'a kept handshake of the future that a later one has overtaken',
    { keptHandshakeMs: AT + DAY },
    'egress-peer-silent',
    { age: 40 },
    true,
  ],
  [
    'configuration refused',
    { dump: MISSING, unit: DEAD, confProblem: 'line 3: PostUp is refused' },
    'egress-config',
    { why: 'line 3: PostUp is refused' },
    false,
  ],
  [
    'no route at all',
    { probes: { seen: true, value: [NO_ROUTE] }, dump: MISSING },
    'egress-interface-missing',
    { wg: 'wg-x', more: '' },
    true,
  ],
]
for (const [what, change, code, values, repair] of DOWN) {
  test(`down: ${what}`, () => {
    const verdict = judgeEgress({ ...failing, ...change })
    assert.deepEqual(
      { state: verdict.state, code: verdict.code, reason: verdict.reason, repair: verdict.repair },
      { state: 'unhealthy', code, reason: textOf(code, values), repair },
    )
    assert.ok(verdict.evidence.length > 0)
  })
}

const WELL: readonly [string, Partial<EgressFacts>][] = [
  ['all answer', { probes: { seen: true, value: [OK, OK] } }],
  ['one probe URL is down and one up', { probes: { seen: true, value: [BY_ADDRESS, OK] } }],
  ['any status counts', { probes: { seen: true, value: [result('http://a/', 0, 503), BY_ADDRESS] } }],
  [
    'a status line and a body that stalls',
    { probes: { seen: true, value: [result('http://a/', 28, 200, 'timed out')] } },
  ],
  [
    'idle tunnel with an old handshake',
    { probes: { seen: true, value: [OK] }, dump: { seen: true, value: dump(1_764_000_000) } },
  ],
  ['clock a day back', { probes: { seen: true, value: [OK] }, wallMs: AT - DAY }],
  ['clock a day ahead', { probes: { seen: true, value: [OK] }, wallMs: AT + DAY }],
  ['nobody asked wg', { probes: { seen: true, value: [OK] }, dump: undefined as never }],
]
for (const [what, change] of WELL) {
  test(`healthy: ${what}`, () => assert.equal(judgeEgress({ ...failing, ...change }).state, 'healthy'))
}

test('healthy, but a name that does not resolve is remarked', () => {
  const verdict = judgeEgress({ ...failing, probes: { seen: true, value: [OK, NO_NAME] } })
  assert.equal(verdict.note, 'an address answers, but names do not resolve through the tunnel')
})

test('no curl, or nothing to ask: unknown, never an action', () => {
  for (const probes of [
    { seen: false, why: 'the program curl is missing' } as const,
    { seen: true, value: [] } as const,
  ]) {
    const verdict = judgeEgress({ ...failing, probes })
    assert.equal(verdict.state, 'unknown')
    assert.equal(verdict.repair, false)
  }
})

test('no configuration: not configured, whatever else was seen', () => {
  assert.equal(judgeEgress({ ...failing, configured: false }).state, 'not-configured')
})

test('an answer settles it, and only the clock finding depends on the clock', () => {
  const probe = fc.constantFrom(OK, BY_ADDRESS, NO_NAME, SLOW_NAME, NO_ROUTE)
  const wallMs = fc.integer({ min: AT - 3 * DAY, max: AT + 3 * DAY })
  fc.assert(
    fc.property(
      fc.array(probe, { minLength: 1, maxLength: 3 }),
      wallMs,
      fc.boolean(),
      (probes, at, rxGrew) => {
        const verdict = judgeEgress({ ...failing, probes: { seen: true, value: probes }, wallMs: at, rxGrew })
        assert.equal(verdict.state === 'healthy', probes.includes(OK))
        if (verdict.state === 'healthy') return
        const here = judgeEgress({ ...failing, probes: { seen: true, value: probes }, rxGrew })
        assert.equal(verdict.code, at < AT - 45_000 ? 'egress-clock' : here.code)
      },
    ),
  )
})

test('the probes of a tick: every URL, the whole deadline, no body', () => {
  const config = { ...DEFAULTS, egressUrls: ['http://a.test/', 'http://b.test/'], probeDeadlineMs: 4321 }
  assert.deepEqual(egressRequests(config), [
    { url: 'http://a.test/', deadlineMs: 4321, wantBody: false },
    { url: 'http://b.test/', deadlineMs: 4321, wantBody: false },
  ])
})
