import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { before, beforeEach, test } from 'node:test'
import {
  linesSince,
  logMark,
  mainPid,
  quietNode,
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
  logText,
  ok,
  receipt,
  said,
  setSite,
  sh,
  stopTimers,
  tick,
  until,
  untilTitled,
} from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

const MISSING = says('netns-missing', { netns: 'warp-n1' })

/** Longer than any run: a test ends it by writing another one. */
const NEVER = 86_400_000

before(() => quietNode('n1'))
let old: number
beforeEach(async () => {
  old = await wellAgain('n1')
})

/** Namespace and all made again by the command that the watchdog names; no timer may look meanwhile. */
function made(): void {
  ok(['netvm-node-up', 'n1'], { deadlineMs: 90_000 })
  stopTimers('n1')
}

const UNIT = 'chromebox-watchdog@n1.service'

test('the watchdog killed in the middle of a relaunch: the attempt counts, the browser stays, the lock is free', async () => {
  setSite('n1', { title: 'Chat', delayMs: NEVER })
  process.kill(old, 'SIGKILL')
  await until('recorded before acting', () => state('n1').attempts.at(-1)?.result === 'pending', 10_000)
  const fresh = await until('a new process', () => browser('n1')?.pid, 10_000)
  ok(['systemctl', 'kill', '--signal=KILL', UNIT])
  await untilIdle('n1')
  assert.equal(state('n1').failures, 1)
  assert.equal(state('n1').attempts.at(-1)?.result, 'pending')
  setSite('n1', { title: 'Chat' })
  await untilTitled('n1')
  // The relaunch that nobody saw to its end has helped: the next look closes it.
  assert.equal(tick('n1').status, '0')
  assert.equal(browser('n1')?.pid, fresh)
  assert.equal(state('n1').failures, 0)
  assert.match(ok(['chromebox-watchdog', 'n1', '--why']), rx`${says('no-process')} -> (relaunch )?cut short`)
})

test('killed in the middle of a relaunch that helps nothing: it counts, and the next run backs off', async () => {
  setSite('n1', { title: 'Chat', delayMs: NEVER })
  const mark = logMark()
  process.kill(old, 'SIGKILL')
  await until('a new process', () => ![undefined, old].includes(browser('n1')?.pid), 10_000)
  ok(['systemctl', 'kill', '--signal=KILL', UNIT])
  await untilIdle('n1')
  assert.equal(state('n1').failures, 1)
  await untilOlder('n1')
  assert.equal(tick('n1').status, '1')
  assert.match(
    linesSince(mark, 'n1').at(-1) ?? '',
    rx`${says('backoff', { failed: '1 failed relaunch' })}|${says('relaunch-failed')}`,
  )
})

test('the log’s file system full: it still acts, and the journal has the lines', async () => {
  ok(['mount', '-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', '/var/log/netvm'])
  sh(['bash', '-c', 'cat /dev/zero > /var/log/netvm/filler'])
  try {
    const from = cursor()
    process.kill(old, 'SIGKILL')
    const words = () => /\{relaunch-ok\}/.test(said(from, UNIT))
    await until('said in the journal', words, 30_000)
    await untilIdle('n1')
    assert.equal(logBytes('chromebox-watchdog'), 0)
    assert.match(
      said(from, UNIT),
      rx`FAIL \[n1\] ${says('no-process')}.*\(not in /var/log/netvm/chromebox-watchdog\.log: ENOSPC\)`,
    )
    assert.notEqual(browser('n1')?.pid, old)
    await untilTitled('n1')
  } finally {
    ok(['umount', '/var/log/netvm'])
  }
})

test('the state’s file system full: a dead browser is brought back all the same, and it is said', async () => {
  // An empty file system over the state hides the attempt before this one, which a full disk would not; a run that
  // found the browser well since leaves no doubt about it.
  assert.equal(tick('n1').status, '0')
  ok(['mount', '-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', '/var/lib/netvm'])
  sh(['bash', '-c', 'cat /dev/zero > /var/lib/netvm/filler'])
  try {
    const mark = logMark()
    process.kill(old, 'SIGKILL')
    await untilLine('n1', mark, /\{relaunch-ok\}/)
    await untilIdle('n1')
    assert.match(
      linesSince(mark, 'n1').join('\n'),
      /WARN \[n1\] cannot write .* \{state-not-kept\}; next: df /,
    )
  } finally {
    ok(['umount', '/var/lib/netvm'])
  }
})

test('the veth loses its host address: told and paged once by the owner of the relay, not by the browser’s', async () => {
  const names = ok(['netvm-names', 'n1'])
  const name = (key: string) => new RegExp(`\\b${key}=(\\S+)`).exec(names)?.[1] ?? ''
  const mark = logMark()
  const relayMark = logText('cdp-relay-watchdog').length
  ok(['ip', 'addr', 'flush', 'dev', name('VETH')])
  try {
    for (let i = 0; i < 2; i++) {
      assert.equal(tick('n1').status, '0')
      sh(['systemctl', 'start', 'cdp-relay-watchdog.service'])
    }
  } finally {
    ok(['ip', 'addr', 'add', `${name('GW')}/30`, 'dev', name('VETH')])
  }
  const paged = linesSince(mark, 'n1').filter((l) => l.includes(' PAGE '))
  assert.deepEqual(paged, [])
  const relay = logText('cdp-relay-watchdog').slice(relayMark).split('\n')
  assert.match(
    relay[0] ?? '',
    rx`FAIL_LOUD \[n1\] ${says('veth-no-address', { gw: /10\.201\.\d+\.1/ })} \{veth-no-address\}; next: ip addr add `,
  )
  assert.equal(relay.filter((l) => l.includes(' PAGE ')).length, 1)
  assert.equal(receipt('chromebox-watchdog', 'n1')?.verdict.state, 'healthy')
  assert.equal(mainPid('n1'), old)
})

test('the namespace deleted under a living browser: loud, paged once, the browser untouched, node-up mends it', async (t) => {
  const [mark, from] = [logMark(), cursor()]
  t.after(made)
  ok(['ip', 'netns', 'del', 'warp-n1'])
  for (let i = 0; i < 3; i++) assert.equal(tick('n1').status, '1')
  const lines = linesSince(mark, 'n1')
  assert.match(lines[0] ?? '', rx`FAIL_LOUD \[n1\] ${MISSING} \{netns-missing\}; next: netvm-node-up n1$`)
  assert.equal(lines.filter((l) => l.includes(' PAGE ')).length, 1)
  assert.match(lines.join('\n'), rx`PAGE \[n1\] netns-fault: ${MISSING}`)
  assert.equal(browser('n1')?.pid, old)
  assert.equal(receipt('chromebox-watchdog', 'n1')?.verdict.code, 'netns-missing')
  const paged = entries(from, UNIT).filter((e) => e.PRIORITY === '2')
  assert.equal(paged.length, 1)
  made()
  await until('well', () => tick('n1').status === '0', 20_000)
  assert.notEqual(browser('n1')?.pid, old)
})

test('a plain file where the namespace was: loud, no restart loop', (t) => {
  const before = state('n1').attempts.length
  ok(['ip', 'netns', 'del', 'warp-n1'])
  ok(['touch', '/run/netns/warp-n1'])
  t.after(() => {
    rmSync('/run/netns/warp-n1')
    made()
  })
  const mark = logMark()
  assert.equal(tick('n1').status, '1')
  assert.match(
    linesSince(mark, 'n1')[0] ?? '',
    rx`FAIL_LOUD \[n1\] ${MISSING} \(.* is no namespace\) \{netns-missing\}; next: `,
  )
  assert.equal(state('n1').attempts.length, before)
})
