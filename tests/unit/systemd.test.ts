import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  daemonReload,
  type Ended,
  howItEnded,
  parseShow,
  parseSpan,
  parseTimer,
  restart,
  show,
  start,
  stop,
  type UnitShow,
} from '../../lib/host/systemd.ts'
import { patience } from '../kit/unit.ts'

/** For a program that ends by itself: only a failing test waits so long. */
const LONG_MS = patience(30_000)

/** Puts a program called systemctl first on PATH; returns what it was called with, a line a call. */
function fakeSystemctl(t: TestContext, script: string): () => string {
  const dir = mkdtempSync(join(tmpdir(), 'systemctl-'))
  const path = process.env.PATH
  t.after(() => {
    process.env.PATH = path
    rmSync(dir, { recursive: true })
  })
  const head = `#!/bin/sh\necho "$@" >> ${dir}/calls\n`
  writeFileSync(join(dir, 'systemctl'), `${head}${script}\n`, { mode: 0o755 })
  process.env.PATH = `${dir}:${path}`
  return () => readFileSync(join(dir, 'calls'), 'utf8')
}

const TWO_UNITS = `Id=netvm-tunnel@n1.service
ActiveState=active
Environment=A=1 B=2

Id=chromebox-watchdog@n1.timer
ActiveState=active
TimersMonotonic={ OnUnitActiveUSec=2min ; next_elapse=1h 2min 3.5s }
TimersMonotonic={ OnActiveUSec=17s ; next_elapse=20s }
Description=
`

test('show: several units, values with =, empty values, repeated properties', () => {
  assert.deepEqual(parseShow(TWO_UNITS), [
    { Id: 'netvm-tunnel@n1.service', ActiveState: 'active', Environment: 'A=1 B=2' },
    {
      Id: 'chromebox-watchdog@n1.timer',
      ActiveState: 'active',
      TimersMonotonic:
        '{ OnUnitActiveUSec=2min ; next_elapse=1h 2min 3.5s }\n{ OnActiveUSec=17s ; next_elapse=20s }',
      Description: '',
    },
  ])
  assert.deepEqual(parseShow(''), [])
  assert.deepEqual(parseShow('\n\nId=a\n\n\n\nId=b\n\n'), [{ Id: 'a' }, { Id: 'b' }])
})

test('show: one call for all units, each under the name it was asked by', async (t) => {
  const calls = fakeSystemctl(t, `cat <<'E'\n${TWO_UNITS}E`)
  const look = await show(
    ['alias.service', 'chromebox-watchdog@n1.timer'],
    ['ActiveState', 'TimersMonotonic'],
  )
  assert.ok(look.seen, JSON.stringify(look))
  assert.deepEqual(Object.keys(look.value), ['alias.service', 'chromebox-watchdog@n1.timer'])
  assert.equal(look.value['alias.service']?.Id, 'netvm-tunnel@n1.service')
  const asked =
    'show --no-pager --no-ask-password --timestamp=us+utc --property=Id,ActiveState,TimersMonotonic'
  assert.equal(calls(), `${asked} -- alias.service chromebox-watchdog@n1.timer\n`)
  assert.deepEqual(await show([], ['Id']), { seen: true, value: {} })
  assert.equal(calls().split('\n').length, 2)
})

const blind: [string, string, RegExp][] = [
  [
    'no bus',
    'echo "Failed to connect to bus: No such file or directory" >&2; exit 1',
    /^Failed to connect to bus/,
  ],
  [
    'no systemd',
    'echo "System has not been booted with systemd as init system (PID 1)." >&2; exit 1',
    /not been booted/,
  ],
  ['a wordless failure', 'exit 4', /exit code 4/],
  ['stuck', 'exec sleep 600', /no answer in 300 ms/],
  ['too few units', 'echo Id=a.service', /1 of 2 units/],
  ['too many units', 'printf "Id=a\\n\\nId=b\\n\\nId=c\\n"', /3 of 2 units/],
  ['nothing at all', 'exit 0', /0 of 2 units/],
  ['escapes in its words', 'printf "no\\033[31m bus\\n" >&2; exit 1', /^no bus$/],
]
for (const [name, script, why] of blind) {
  test(`show: ${name} is "could not look"`, { timeout: LONG_MS }, async (t) => {
    fakeSystemctl(t, script)
    // One that ends by itself ends when it does; only the stuck one is ended by us.
    const look = await show(['a.service', 'b.service'], ['ActiveState'], name === 'stuck' ? 300 : LONG_MS)
    assert.match(look.seen ? 'seen' : look.why, why)
  })
}

test('show and start: systemctl missing', async (t) => {
  const path = process.env.PATH
  t.after(() => {
    process.env.PATH = path
  })
  process.env.PATH = '/nonexistent'
  const look = await show(['a.service'], ['Id'])
  assert.match(look.seen ? 'seen' : look.why, /systemctl is missing/)
  const job = await start('a.service', 300)
  assert.equal(job.ok, false)
  assert.match(job.detail, /systemctl is missing/)
})

test('jobs: each is one call with its unit', async (t) => {
  const calls = fakeSystemctl(t, 'exit 0')
  for (const job of [
    await start('a.service', LONG_MS),
    await stop('b.service', LONG_MS),
    await restart('c.service', LONG_MS),
    await daemonReload(LONG_MS),
  ]) {
    assert.equal(job.ok, true)
    assert.equal(job.detail, '')
  }
  const n = '--no-ask-password'
  assert.equal(
    calls(),
    `${n} start -- a.service\n${n} stop -- b.service\n${n} restart -- c.service\n${n} daemon-reload\n`,
  )
})

test('jobs: a failure and a passed deadline say what was asked and what was said', async (t) => {
  fakeSystemctl(
    t,
    'case "$*" in *slow*) exec sleep 600;; *) echo "Unit x.service not found." >&2; exit 5;; esac',
  )
  const failed = await start('x.service', LONG_MS)
  assert.deepEqual([failed.ok, failed.code], [false, 5])
  assert.equal(failed.detail, 'systemctl start x.service: Unit x.service not found.')
  const slow = await stop('slow.service', 300)
  assert.deepEqual([slow.ok, slow.timedOut], [false, true])
  assert.equal(slow.detail, 'systemctl stop slow.service: not done in 300 ms')
})

const ended = (result: string, code: number, status: number, over: UnitShow = {}): UnitShow => ({
  Result: result,
  ExecMainCode: String(code),
  ExecMainStatus: String(status),
  ExecMainExitTimestampMonotonic: '123456789',
  ExecMainPID: '4711',
  ...over,
})
const NEVER = { ExecMainExitTimestampMonotonic: '0' }
const endings: [string, UnitShow, Ended['how'], RegExp][] = [
  ['exit 0', ended('success', 1, 0), 'clean', /exit code 0/],
  ['a code that the unit counts as success', ended('success', 1, 75), 'exit-code', /exit code 75/],
  ['exit 0 too early for the unit', ended('protocol', 1, 0), 'clean', /exit code 0/],
  ['stopped by TERM', ended('success', 2, 15), 'clean', /signal TERM/],
  ['Singleton of another host', ended('exit-code', 1, 21), 'exit-code', /exit code 21/],
  ['no program', ended('exit-code', 1, 203), 'exit-code', /^exit code 203: .*cannot be executed$/],
  ['no resolv.conf to bind', ended('exit-code', 1, 226), 'exit-code', /^exit code 226: .*netvm-node-up/],
  ['SIGKILL', ended('signal', 2, 9), 'signal', /signal KILL/],
  ['an unusual signal', ended('signal', 2, 40), 'signal', /signal 40/],
  ['killed after the stop timeout', ended('timeout', 2, 9), 'signal', /KILL after a timeout/],
  ['SIGSEGV with a core', ended('core-dump', 3, 11), 'core-dump', /signal SEGV/],
  ['out of memory', ended('oom-kill', 2, 9), 'oom-kill', /memory/],
  ['start limit after an exit code', ended('start-limit-hit', 1, 1), 'exit-code', /exit code 1/],
  [
    'never ran, though Result=success',
    ended('success', 0, 0, { ...NEVER, ExecMainPID: '0' }),
    'unknown',
    /never ran/,
  ],
  ['runs now', ended('success', 0, 0, NEVER), 'unknown', /still running/],
  ['no properties', {}, 'unknown', /never ran/],
  [
    'an exit time that is none',
    ended('success', 1, 0, { ExecMainExitTimestampMonotonic: 'n/a' }),
    'unknown',
    /./,
  ],
  ['resources', ended('resources', 0, 0), 'unknown', /result resources/],
]
for (const [name, unit, how, detail] of endings) {
  test(`how it ended: ${name} → ${how}`, () => {
    const got = howItEnded(unit)
    assert.equal(got.how, how)
    assert.match(got.detail, detail)
    assert.equal(got.status, how === 'unknown' ? undefined : Number(unit.ExecMainStatus))
  })
}

for (const [span, ms] of [
  ['2min', 120_000],
  ['1h 2min 3.5s', 3_723_500],
  ['1month 1w 1d', 2_629_800_000 + 604_800_000 + 86_400_000],
  ['1y', 31_557_600_000],
  ['15ms', 15],
  ['250us', 0.25],
  ['0', 0],
  ['infinity', Number.POSITIVE_INFINITY],
  ['', undefined],
  ['soon', undefined],
  ['3fortnight', undefined],
  ['5', undefined],
  ['5 min', undefined],
  ['Mon 2026-11-30 04:00:54 UTC', undefined],
] as const) {
  test(`span ${JSON.stringify(span)} is ${ms} ms`, () => assert.equal(parseSpan(span), ms))
}

const timer = (over: UnitShow = {}): UnitShow => ({
  LoadState: 'loaded',
  UnitFileState: 'enabled',
  ActiveState: 'active',
  SubState: 'waiting',
  Result: 'success',
  TimersMonotonic: '{ OnUnitActiveUSec=2min ; next_elapse=10min }\n{ OnActiveUSec=17s ; next_elapse=1min }',
  NextElapseUSecMonotonic: '10min',
  LastTriggerUSecMonotonic: '8min 0.5s',
  ...over,
})
const armed = {
  loaded: true,
  enabled: true,
  active: true,
  sub: 'waiting',
  result: 'success',
  periodMs: 120_000,
  nextElapseMs: 600_000,
  lastTriggerMs: 480_500,
}
test('timer: armed, with period, next elapse and last trigger', () =>
  assert.deepEqual(parseTimer(timer()), armed))

test('timer: never triggered, nothing scheduled, not there', () => {
  const { lastTriggerMs: _, ...never } = armed
  assert.deepEqual(parseTimer(timer({ LastTriggerUSecMonotonic: '0' })), never)
  for (const next of ['infinity', '', '0']) {
    assert.equal(parseTimer(timer({ NextElapseUSecMonotonic: next })).nextElapseMs, Number.POSITIVE_INFINITY)
  }
  assert.deepEqual(parseTimer({ LoadState: 'not-found' }), {
    loaded: false,
    enabled: false,
    active: false,
    sub: '',
    result: '',
    nextElapseMs: Number.POSITIVE_INFINITY,
  })
  assert.equal(parseTimer(timer({ UnitFileState: 'disabled' })).enabled, false)
  assert.equal(
    parseTimer(timer({ TimersMonotonic: '{ OnActiveUSec=17s ; next_elapse=1min }' })).periodMs,
    undefined,
  )
})
