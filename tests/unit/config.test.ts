import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { CONFIG_KEYS, type Config, DEFAULTS, loadConfig, parseConfig } from '../../lib/base/config.ts'
import { ConfigError } from '../../lib/base/errors.ts'
import { tempPaths } from '../kit/temp.ts'

const F = '/etc/netvm/netvm.env'

test('defaults are those of the contract, in milliseconds', () => {
  const { registry, egressUrls, relaunchChecks, holdAfter, apiStrikes, futileLimit, ...durations } = DEFAULTS
  assert.equal(registry, '/etc/netvm/NODES.md')
  assert.equal(egressUrls.length, 2)
  assert.deepEqual([relaunchChecks, holdAfter, apiStrikes, futileLimit], [4, 5, 2, 3])
  const seconds = Object.fromEntries(Object.entries(durations).map(([k, v]) => [k, v / 1000]))
  assert.deepEqual(seconds, {
    freshBrowserMs: 120,
    probeDeadlineMs: 5,
    innerDeadlineMs: 2,
    confirmDelayMs: 3,
    relaunchIntervalMs: 15,
    stopGraceMs: 10,
    backoffBaseMs: 120,
    backoffMaxMs: 1800,
    halfOpenMs: 1800,
    tunnelVerifyMs: 20,
    apiDeadlineMs: 10,
    circuitCooldownMs: 1800,
    pageRepeatMs: 14_400,
  })
  assert.equal(CONFIG_KEYS.length, Object.keys(DEFAULTS).length)
})

const GOOD: [string, string, Partial<Config>][] = [
  ['empty', '', {}],
  ['comments and blank lines', '\n# NETVM_X=1\n; y\n   \n', {}],
  ['seconds become milliseconds', 'NETVM_FRESH_BROWSER=90', { freshBrowserMs: 90_000 }],
  ['fractions of a second', 'NETVM_PROBE_DEADLINE=2.5', { probeDeadlineMs: 2500 }],
  ['spaces around', '  NETVM_HOLD_AFTER = 7  ', { holdAfter: 7 }],
  ['double quotes', 'NETVM_REGISTRY="/srv/my nodes.md"', { registry: '/srv/my nodes.md' }],
  ['single quotes', "NETVM_API_STRIKES='3'", { apiStrikes: 3 }],
  ['CRLF', 'NETVM_API_STRIKES=3\r\nNETVM_FUTILE_LIMIT=4\r\n', { apiStrikes: 3, futileLimit: 4 }],
  ['a byte order mark', '\uFEFFNETVM_API_STRIKES=3', { apiStrikes: 3 }],
  [
    'a URL with = and #',
    'NETVM_EGRESS_URLS=https://x.test/?a=b#c',
    { egressUrls: ['https://x.test/?a=b#c'] },
  ],
  [
    'two URLs',
    'NETVM_EGRESS_URLS="http://a.test/ http://b.test/"',
    { egressUrls: ['http://a.test/', 'http://b.test/'] },
  ],
  [
    'commas between URLs',
    'NETVM_EGRESS_URLS=http://a.test/,http://b.test/',
    { egressUrls: ['http://a.test/', 'http://b.test/'] },
  ],
  ['no egress check at all', 'NETVM_EGRESS_URLS=', { egressUrls: [] }],
  ['zero where it means: do not wait', 'NETVM_CONFIRM_DELAY=0', { confirmDelayMs: 0 }],
  [
    'a short probe deadline takes the inner one along',
    'NETVM_PROBE_DEADLINE=1',
    { probeDeadlineMs: 1000, innerDeadlineMs: 1000 },
  ],
  [
    'a long back-off takes its maximum along',
    'NETVM_BACKOFF_BASE=3600',
    { backoffBaseMs: 3_600_000, backoffMaxMs: 3_600_000 },
  ],
]
for (const [what, text, expected] of GOOD) {
  test(`good: ${what}`, () => assert.deepEqual(parseConfig(text, F), { ...DEFAULTS, ...expected }))
}

const BAD: [string, string, RegExp][] = [
  ['unknown key', '\nNETVM_FRESH_BROWSR=90', /: line 2: unknown key NETVM_FRESH_BROWSR$/],
  ['a key of Object.prototype', 'constructor=1', /line 1: unknown key constructor/],
  ['export', 'export NETVM_HOLD_AFTER=1', /line 1: unknown key export NETVM_HOLD_AFTER/],
  ['no equals sign', 'hello there', /line 1: "hello there" is not KEY=VALUE/],
  [
    'duplicate key',
    'NETVM_HOLD_AFTER=5\n#\nNETVM_HOLD_AFTER=6',
    /line 3: duplicate key NETVM_HOLD_AFTER \(also on line 1\)/,
  ],
  ['a word for a number', 'NETVM_HOLD_AFTER=five', /line 1: NETVM_HOLD_AFTER=five: must be 1 to 1000$/],
  ['a unit', 'NETVM_FRESH_BROWSER=2min', /NETVM_FRESH_BROWSER=2min: must be 0 to 3600 seconds/],
  ['milliseconds by mistake', 'NETVM_FRESH_BROWSER=120000', /must be 0 to 3600 seconds/],
  ['negative', 'NETVM_STOP_GRACE=-1', /NETVM_STOP_GRACE=-1: must be/],
  ['a fraction of a count', 'NETVM_API_STRIKES=1.5', /must be 1 to 1000/],
  ['zero strikes', 'NETVM_API_STRIKES=0', /must be 1 to 1000/],
  ['exponent', 'NETVM_STOP_GRACE=1e1', /must be 0 to 60 seconds/],
  ['empty number', 'NETVM_STOP_GRACE=', /NETVM_STOP_GRACE=: must be/],
  ['open quote', 'NETVM_REGISTRY="/x', /NETVM_REGISTRY: the quotes do not match/],
  ['quote inside', 'NETVM_REGISTRY=/x"y', /the quotes do not match/],
  ['text after the quote', 'NETVM_REGISTRY="/x" y', /the quotes do not match/],
  ['a lone quote', 'NETVM_REGISTRY="', /the quotes do not match/],
  ['relative path', 'NETVM_REGISTRY=NODES.md', /must be an absolute path/],
  ['control character', 'NETVM_REGISTRY=/x\u0007y', /control character/],
  ['continuation line', 'NETVM_REGISTRY=/x\\', /continuation line/],
  ['not a URL', 'NETVM_EGRESS_URLS=http://a.test/ ftp://b', /"ftp:\/\/b" is not an http or https URL/],
  [
    'both of a pair',
    'NETVM_PROBE_DEADLINE=1\nNETVM_INNER_DEADLINE=2',
    /line 2: NETVM_INNER_DEADLINE is longer than NETVM_PROBE_DEADLINE/,
  ],
]
for (const [what, text, expected] of BAD) {
  test(`bad: ${what}`, () => {
    assert.throws(
      () => parseConfig(text, F),
      (e: ConfigError) => {
        assert.ok(e instanceof ConfigError)
        assert.ok(e.message.startsWith(`${F}: line `), e.message)
        assert.match(e.message, expected)
        assert.equal(e.exitCode, 78)
        return true
      },
    )
  })
}

test('all problems are in one message', () => {
  assert.throws(() => parseConfig('A=1\nNETVM_HOLD_AFTER=x\nB', F), /line 1: .*; line 2: .*; line 3: /)
})

test('any text is parsed or refused with a ConfigError', () => {
  const word = fc.oneof(
    fc.constantFrom(...CONFIG_KEYS, '=', '"', "'", '\n', '#', '5', '/x', 'http://a.test/'),
    fc.string(),
  )
  fc.assert(
    fc.property(
      fc.array(word).map((a) => a.join('')),
      (text) => {
        try {
          parseConfig(text, F)
        } catch (e) {
          assert.ok(e instanceof ConfigError)
        }
      },
    ),
  )
})

test('loadConfig: no file gives the defaults, and the environment does not count', (t) => {
  const p = tempPaths(t)
  process.env.NETVM_HOLD_AFTER = '99'
  t.after(() => delete process.env.NETVM_HOLD_AFTER)
  assert.deepEqual(loadConfig(p), { ...DEFAULTS, registry: `${p.root}/etc/netvm/NODES.md` })
  assert.equal(loadConfig({ ...p, root: '' }).registry, '/etc/netvm/NODES.md')
})

test('loadConfig: reads the file; defaults are not shared between callers', (t) => {
  const p = tempPaths(t)
  mkdirSync(p.etc, { recursive: true })
  writeFileSync(p.configFile, 'NETVM_HOLD_AFTER=2\n')
  const config = loadConfig(p)
  assert.equal(config.holdAfter, 2)
  config.egressUrls.push('x')
  assert.equal(loadConfig(p).egressUrls.length, 2)
})

test('loadConfig: a file that is there and cannot be read is an error, not "defaults"', (t) => {
  const p = tempPaths(t)
  mkdirSync(p.configFile, { recursive: true })
  assert.throws(
    () => loadConfig(p),
    (e: ConfigError) => {
      assert.ok(e instanceof ConfigError)
      assert.match(e.message, /cannot read .*netvm\.env: EISDIR/)
      assert.equal(e.next, `ls -ld ${p.configFile}`)
      return true
    },
  )
  if (process.geteuid?.() === 0) return // Root reads everything.
  const q = tempPaths(t)
  mkdirSync(q.etc, { recursive: true })
  writeFileSync(q.configFile, '')
  chmodSync(q.configFile, 0)
  assert.throws(() => loadConfig(q), /cannot read .*: EACCES/)
})
