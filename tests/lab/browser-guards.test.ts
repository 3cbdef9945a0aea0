import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { before, beforeEach, test } from 'node:test'
import {
  linesSince,
  logMark,
  quietNode,
  SHORT,
  STATE,
  state,
  untilIdle,
  untilLine,
  untilOlder,
  wellAgain,
} from '../kit/lab/browser.ts'
import {
  browser,
  cursor,
  entries,
  logBytes,
  ok,
  receipt,
  said,
  setSite,
  sh,
  tick,
  until,
  writeConfig,
} from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

before(() => quietNode('n1'))

let pid: number
beforeEach(async () => {
  pid = await wellAgain('n1')
})

test('many healthy ticks: no byte of log, no line in the journal but systemd’s own, one browser', () => {
  const [bytes, from] = [logBytes('chromebox-watchdog'), cursor()]
  const before = receipt('chromebox-watchdog', 'n1')?.at.bootMs ?? 0
  for (let i = 0; i < 40; i++) assert.deepEqual(tick('n1'), { result: 'success', status: '0' })
  assert.equal(logBytes('chromebox-watchdog') - bytes, 0)
  assert.equal(said(from, 'chromebox-watchdog@n1.service'), '')
  assert.ok(!entries(from).some((e) => e.SYSLOG_IDENTIFIER === 'chromebox-watchdog'))
  assert.equal(browser('n1')?.pid, pid)
  const last = receipt('chromebox-watchdog', 'n1')
  assert.ok((last?.at.bootMs ?? 0) > before)
  assert.equal(last?.verdict.state, 'healthy')
})

test('both cores busy: not one false kill', () => {
  // The policy's own deadlines: a lab's short ones would be another promise.
  writeConfig({ ...SHORT, NETVM_PROBE_DEADLINE: 5, NETVM_INNER_DEADLINE: 2, NETVM_CONFIRM_DELAY: 3 })
  const spin = () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
  const load = [spin(), spin(), spin()]
  try {
    const mark = logMark()
    for (let i = 0; i < 40; i++) tick('n1')
    assert.equal(browser('n1')?.pid, pid)
    assert.deepEqual(linesSince(mark, 'n1'), [])
  } finally {
    for (const l of load) l.kill('SIGKILL')
  }
})

test('younger than the guard: left alone, and both texts name the wait', async () => {
  writeConfig({ ...SHORT, NETVM_FRESH_BROWSER: 3600 })
  const mark = logMark()
  process.kill(pid, 'SIGSTOP')
  try {
    assert.equal(tick('n1').status, '1')
    assert.match(
      linesSince(mark, 'n1').join('\n'),
      rx`FAIL \[n1\] ${says('cdp-unreachable')}.*; ${says('fresh', { seconds: /\d+/ })} \{cdp-unreachable\}; next: `,
    )
    const dry = sh(['chromebox-watchdog', 'n1', '--dry-run'])
    assert.match(dry.stdout, /would relaunch; browser \d+ s old, eligible in \d+ s/)
    assert.equal(browser('n1')?.pid, pid)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await until('well by itself', () => tick('n1').status === '0', 20_000)
  assert.equal(browser('n1')?.pid, pid)
})

test('two runs at once, and a third by OnFailure: one relaunch', async () => {
  const attempts = state('n1').attempts.length
  const mark = logMark()
  process.kill(pid, 'SIGKILL')
  const runs = [1, 2].map(
    () =>
      new Promise<number | null>((resolve) => {
        spawn('chromebox-watchdog', ['n1'], { stdio: 'ignore' }).on('close', resolve)
      }),
  )
  assert.deepEqual(await Promise.all(runs), [0, 0])
  await untilIdle('n1')
  const lines = linesSince(mark, 'n1')
  assert.equal(lines.filter((l) => /\{relaunch-ok\}/.test(l)).length, 1, lines.join('\n'))
  assert.equal(state('n1').attempts.length, Math.min(5, attempts + 1))
})

test('a browser that never gets healthy: back-off, HELD DOWN and paged, one half-open attempt, release', async () => {
  // Each wait is so long that it is still on when it is looked at, and is made short when it is to be over.
  const long = { NETVM_BACKOFF_BASE: 3600, NETVM_BACKOFF_MAX: 3600, NETVM_HALF_OPEN: 3600 }
  const failing = { ...SHORT, NETVM_RELAUNCH_INTERVAL: 0.5, ...long }
  writeConfig(failing)
  setSite('n1', { title: 'Elsewhere' })
  const mark = logMark()
  process.kill(pid, 'SIGKILL')
  await untilLine('n1', mark, /\{relaunch-failed\}/)
  await untilIdle('n1')
  await untilOlder('n1')
  assert.equal(tick('n1').status, '1')
  await untilLine('n1', mark, rx`${says('backoff', { failed: '1 failed relaunch', wait: /[^;]+/ })}; next: `)
  writeConfig({ ...failing, NETVM_BACKOFF_BASE: 0.5, NETVM_BACKOFF_MAX: 0.5 })
  const held = () => {
    tick('n1')
    return linesSince(mark, 'n1').some((l) => / PAGE .*\{held-down\}/.test(l))
  }
  await until('held', held, 120_000, 500)
  const atHold = linesSince(mark, 'n1')
  assert.equal(atHold.filter((l) => /FAIL .*; (half-open attempt: )?relaunching/.test(l)).length, 5)
  assert.ok(atHold.some((l) => rx` PAGE .*browser-fault: ${says('held-down', { failures: 5 })}`.test(l)))
  assert.ok(state('n1').held)

  const later = logMark()
  await untilOlder('n1')
  for (let i = 0; i < 5; i++) assert.equal(tick('n1').status, '1')
  const waiting = linesSince(later, 'n1')
  assert.ok(waiting.every((l) => !l.includes('relaunching')))
  assert.match(
    waiting.at(-1) ?? '',
    rx`${says('held', { failures: 5, wait: /[^;]+/ })}; next: chromebox-watchdog release n1$`,
  )

  const attempts = () => linesSince(later, 'n1').filter((l) => l.includes('half-open attempt')).length
  writeConfig({ ...failing, NETVM_HALF_OPEN: 1 })
  await until('the half-open attempt', () => tick('n1') && attempts() > 0, 40_000, 500)
  writeConfig(failing)
  for (let i = 0; i < 5; i++) tick('n1')
  assert.equal(attempts(), 1)

  writeConfig(SHORT)
  setSite('n1', { title: 'Chat' })
  const released = sh(['chromebox-watchdog', 'release', 'n1'])
  assert.match(released.stdout, /released \(.*6 failed relaunches\)/)
  await untilOlder('n1')
  assert.equal(tick('n1').status, '0')
  assert.equal(state('n1').held, undefined)
  assert.match(linesSince(later, 'n1').join('\n'), rx`${says('released')} \{released\}`)
})

for (const [name, text] of [
  ['empty', ''],
  ['torn', '{"version":1,"bootId":"ab'],
  ['full of NULs', '\0'.repeat(200)],
] as const) {
  test(`a state file that is ${name}: kept and said, a dead browser waits, release lets it go`, async () => {
    const mark = logMark()
    writeFileSync(STATE('n1'), text)
    process.kill(pid, 'SIGKILL')
    await untilLine('n1', mark, rx`${says('no-process')}; ${says('cautious', { wait: /\d+s/ })}`)
    await untilIdle('n1')
    assert.match(
      linesSince(mark, 'n1')[0] ?? '',
      rx`WARN \[n1\] ${says('state-corrupt')} \{state-corrupt\}; next: chromebox-watchdog release n1$`,
    )
    assert.ok(readdirSync('/var/lib/netvm/chromebox-watchdog').some((f) => f.startsWith('n1.json.corrupt-')))
    assert.equal(browser('n1'), undefined)
    assert.match(ok(['chromebox-watchdog', 'release', 'n1']), /its state file was corrupt/)
    assert.equal(tick('n1').status, '0')
    assert.notEqual(browser('n1')?.pid, undefined)
  })
}
