import assert from 'node:assert/strict'
import { test } from 'node:test'
import { text } from '../../lib/report/codes.ts'
import { decide } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import type { Observation } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { at, gone, look, memory, policy, seen, silent, squatted } from '../kit/chromebox-fixtures.ts'
import { says } from '../kit/says.ts'

const OLD = 500
const down = {
  state: 'unhealthy',
  code: 'egress-no-handshake',
  reason: 'egress down: no handshake',
  evidence: [],
  repair: true,
} as const
const noNetns = { netns: { seen: true, value: { exists: false, isNamespace: false } } } as const

interface Row {
  name: string
  o: Observation
  state: string
  code: string
  reason: string | RegExp
  /** `relaunch`, `tunnel`, or the guard's code, or `-`. */
  does: string
}

const rows: Row[] = [
  { name: 'healthy', o: seen(look(OLD)), state: 'healthy', code: 'ok', reason: '', does: '-' },
  {
    name: 'paused wins over everything',
    o: seen(look(undefined), { ...noNetns, paused: { reason: 'update', by: 'ann' } }),
    state: 'unknown',
    code: 'paused',
    reason: text('paused', { by: 'ann', reason: 'update' }),
    does: '-',
  },
  {
    name: 'netns missing',
    o: seen(look(undefined), noNetns),
    state: 'unhealthy',
    code: 'netns-missing',
    reason: text('netns-missing', { netns: 'warp-muse' }),
    does: '-',
  },
  {
    name: 'a plain file in /run/netns',
    o: seen(look(undefined), { netns: { seen: true, value: { exists: true, isNamespace: false } } }),
    state: 'unhealthy',
    code: 'netns-missing',
    reason: text('netns-missing', { netns: 'warp-muse' }),
    does: '-',
  },
  {
    name: 'netns could not be looked at',
    o: seen(look(undefined), { netns: { seen: false, why: 'EACCES' } }),
    state: 'unknown',
    code: 'netns-unseen',
    reason: /EACCES/,
    does: '-',
  },
  {
    name: 'egress down below a dead browser: the tunnel, not the browser',
    o: seen(look(undefined), { egress: down }),
    state: 'unhealthy',
    code: 'egress-no-handshake',
    reason: 'egress down: no handshake',
    does: 'tunnel',
  },
  {
    name: 'egress still down after the one restart',
    o: seen(look(undefined), { egress: down, tunnelTried: true }),
    state: 'unhealthy',
    code: 'egress-no-handshake',
    reason: 'egress down: no handshake',
    does: '-',
  },
  {
    name: 'uplink down restarts nothing',
    o: seen(look(undefined), {
      egress: {
        state: 'unhealthy',
        code: 'uplink-down',
        reason: 'uplink down',
        evidence: [],
        repair: false,
      },
    }),
    state: 'unhealthy',
    code: 'uplink-down',
    reason: 'uplink down',
    does: '-',
  },
  {
    name: 'egress unknown below a dead browser',
    o: seen(look(undefined), {
      egress: {
        state: 'unknown',
        code: 'egress-unseen',
        reason: 'curl missing',
        evidence: [],
        repair: false,
      },
    }),
    state: 'unknown',
    code: 'egress-unseen',
    reason: 'curl missing',
    does: '-',
  },
  {
    name: 'no process',
    o: seen(look(undefined)),
    state: 'unhealthy',
    code: 'no-process',
    reason: text('no-process'),
    does: 'relaunch',
  },
  {
    name: 'processes invisible',
    o: seen({ process: { seen: false, why: 'hidepid' }, elsewhere: [] }),
    state: 'unknown',
    code: 'process-unseen',
    reason: /hidepid/,
    does: '-',
  },
  {
    name: 'CDP silent',
    o: seen(look(OLD, silent)),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: text('cdp-unreachable', { port: 9410 }),
    does: 'relaunch',
  },
  {
    name: 'CDP silent, browser 87 s old',
    o: seen(look(87, silent)),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: text('cdp-unreachable', { port: 9410 }),
    does: 'fresh',
  },
  {
    name: 'the guard ends at 120 s exactly',
    o: seen(look(120, silent)),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: text('cdp-unreachable', { port: 9410 }),
    does: 'relaunch',
  },
  {
    name: 'CDP could not be asked',
    o: seen({ ...look(OLD), cdp: { seen: false, why: 'curl missing' } }),
    state: 'unknown',
    code: 'cdp-unseen',
    reason: /curl missing/,
    does: '-',
  },
  {
    name: 'port squatted',
    o: seen(look(OLD, squatted)),
    state: 'unhealthy',
    code: 'port-squatted',
    reason: text('port-squatted', { port: 9410 }),
    does: 'squatted',
  },
  {
    name: '46: CDP refuses, in words of its own',
    o: seen(look(OLD, { state: 'refuses', detail: 'HTTP 500 "Host header is specified"' })),
    state: 'unhealthy',
    code: 'cdp-refuses',
    reason: text('cdp-refuses', { port: 9410, why: 'HTTP 500 "Host header is specified"' }),
    does: 'refuses',
  },
  {
    name: 'another port in the row than in the unit',
    o: seen(look(OLD, silent), { notApplied: 'the row says port 9410, its unit is still set to 9411' }),
    state: 'unhealthy',
    code: 'cdp-unreachable',
    reason: text('cdp-unreachable', { port: 9410 }),
    does: 'not-applied',
  },
  {
    name: 'page gone',
    o: seen(look(OLD, undefined, gone)),
    state: 'unhealthy',
    code: 'page-missing',
    reason: text('page-missing', { title: 'Muse' }),
    does: 'relaunch',
  },
  {
    name: 'no page at all',
    o: seen(look(OLD, undefined, { state: 'no-pages', detail: 'no page target' })),
    state: 'unhealthy',
    code: 'no-pages',
    reason: text('no-pages', { title: 'Muse' }),
    does: 'relaunch',
  },
  {
    name: 'page gone from a young browser',
    o: seen(look(3, undefined, gone)),
    state: 'unhealthy',
    code: 'page-missing',
    reason: text('page-missing', { title: 'Muse' }),
    does: 'fresh',
  },
]

for (const row of rows) {
  test(`decide: ${row.name}`, () => {
    const d = decide(row.o, memory(), at(1_000_000), policy)
    assert.equal(d.verdict.state, row.state)
    assert.equal(d.verdict.code, row.code)
    if (typeof row.reason === 'string') assert.equal(d.verdict.reason, row.reason)
    else assert.match(d.verdict.reason, row.reason)
    const action = d.actions[0]?.kind
    const words: Record<string, string> = { 'relaunch-browser': 'relaunch', 'restart-tunnel': 'tunnel' }
    const does = words[action ?? ''] ?? d.guard?.code
    assert.equal(does ?? '-', row.does)
    assert.deepEqual(
      d.marks.map((l) => l.layer),
      ['netns', 'egress', 'process', 'cdp', 'page'],
    )
    for (const line of d.lines) {
      if (line.level !== 'INFO') assert.ok(line.next, `${line.text} names no next command`)
    }
  })
}

test('the guard is told in its own words and names the wait', () => {
  const d = decide(seen(look(87, silent)), memory(), at(0), policy)
  assert.equal(d.guard?.text, text('fresh', { seconds: 87 }))
  assert.equal(d.guard?.eligibleInMs, 33_000)
  const told = `^${says('cdp-unreachable', { port: 9410 })} .*; ${says('fresh', { seconds: 87 })}$`
  assert.match(d.lines[0]?.text ?? '', new RegExp(told))
})

test('a dead process is confirmed at once, a silent one after the delay', () => {
  const confirm = (o: Observation) => decide(o, memory(), at(0), policy).confirm
  assert.equal(confirm(seen(look(undefined))), 'at-once')
  assert.equal(confirm(seen(look(OLD, silent))), 'after-delay')
})
