import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { before, beforeEach, test } from 'node:test'
import {
  FAILING,
  inPage,
  linesSince,
  logMark,
  mainPid,
  port,
  quietNode,
  state,
  untilIdle,
  untilLine,
  untilOlder,
  wellAgain,
} from '../kit/lab/browser.ts'
import {
  browser,
  cadence,
  cursor,
  entries,
  ok,
  receipt,
  setSite,
  sh,
  stopTimers,
  tick,
  titles,
  until,
  untilTitled,
  writeConfig,
} from '../kit/lab.ts'
import { rx, says, textOf } from '../kit/says.ts'

const OK = says('relaunch-ok', { seconds: /\d+/ })
const MISSING = says('page-missing', { title: 'Chat' })

before(() => quietNode('n1'))
let old: number
beforeEach(async () => {
  old = await wellAgain('n1')
})

/** What every fault ends in: another process, a titled page, a receipt that says healthy. */
async function recovered(node: string, oldPid: number, mark: number): Promise<number> {
  await untilLine(node, mark, rx`INFO .* ${OK}`)
  await untilIdle(node)
  const now = browser(node)
  assert.ok(now && now.pid !== oldPid)
  await untilTitled(node)
  const left = receipt('chromebox-watchdog', node)
  assert.equal(left?.verdict.state, 'healthy')
  assert.equal(state(node).attempts.at(-1)?.result, 'ok')
  assert.equal(state(node).failures, 0)
  return now.pid
}

test('SIGKILL: its end calls the owner, without waiting for a timer, who brings it back', async () => {
  const [mark, from] = [logMark(), cursor()]
  process.kill(old, 'SIGKILL')
  await recovered('n1', old, mark)
  assert.match(
    linesSince(mark, 'n1')[0] ?? '',
    rx`FAIL \[n1\] ${says('no-process')}; relaunching \{no-process\}; next: `,
  )
  assert.match(linesSince(mark, 'n1')[1] ?? '', /the previous one ended: signal KILL/)
  assert.notEqual(sh(['systemctl', 'is-active', 'chromebox-watchdog@n1.timer']).code, 0)
  const said = entries(from)
  const fail = said.find((e) => e.MESSAGE?.startsWith('FAIL [n1] ') && e.NETVM_CODE === 'no-process')
  assert.equal(fail?.PRIORITY, '3')
  assert.ok(fail?.MESSAGE?.includes(textOf('no-process')), fail?.MESSAGE)
  assert.match(ok(['journalctl', '-u', 'chromebox-watchdog@n1', '-o', 'cat']), rx`INFO \[n1\] ${OK}`)
})

test('SIGSTOP of the main process: the timer sees CDP silent, and it is brought back', async () => {
  await untilOlder('n1')
  const mark = logMark()
  process.kill(old, 'SIGSTOP')
  cadence('chromebox-watchdog@n1.timer', 2)
  ok(['systemctl', 'start', 'chromebox-watchdog@n1.timer'])
  try {
    await untilLine('n1', mark, rx`${OK}`)
  } finally {
    stopTimers('n1')
  }
  await recovered('n1', old, mark)
  assert.match(
    linesSince(mark, 'n1')[0] ?? '',
    rx`FAIL \[n1\] ${says('cdp-unreachable', { port: port('n1') })} `,
  )
})

test('the page navigated away: its title is missed, and it is brought back', async () => {
  await untilOlder('n1')
  const mark = logMark()
  await inPage('n1', "location.href = 'about:blank'")
  await until('navigated', () => titles('n1')?.includes('Chat') === false, 5000)
  assert.equal(tick('n1').result, 'success')
  await recovered('n1', old, mark)
  assert.match(linesSince(mark, 'n1')[0] ?? '', rx`FAIL \[n1\] ${MISSING}`)
})

test('SingletonLock of another host: mended once, and only then', async () => {
  const lock = '/var/lib/chromebox/n1/SingletonLock'
  rmSync(lock)
  symlinkSync('another-host-4711', lock)
  const mark = logMark()
  process.kill(old, 'SIGKILL')
  await recovered('n1', old, mark)
  assert.match(
    linesSince(mark, 'n1').join('\n'),
    rx`${OK}.*removed 3 Singleton links \(lock of another-host-4711\)`,
  )
  assert.equal(state('n1').attempts.at(-1)?.result, 'ok')
  assert.doesNotMatch(readlinkSync(lock), /another-host/)
})

test('zombies, decoys and a sibling whose name is a prefix are not the browser', async () => {
  await quietNode('n10')
  const sibling = mainPid('n10')
  const profile = '/var/lib/chromebox/n1'
  const decoy = (argv0: string, ...args: string[]) =>
    spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', '--', ...args], { argv0, stdio: 'ignore' })
  const shell = `sleep 3600; : --user-data-dir=${profile}`
  const undertaker = `if (!fork) { exec "true", "--user-data-dir=${profile}" } sleep 3600`
  const decoys = [
    decoy('vim', `${profile}/chrome.log`),
    decoy('chromedriver', `--user-data-dir=${profile}/`),
    decoy('chromium', '--type=renderer', `--user-data-dir=${profile}`),
    spawn('bash', ['-c', shell], { stdio: 'ignore' }),
    // A main process that is dead and whose parent does not notice.
    spawn('perl', ['-e', undertaker], { stdio: 'ignore' }),
  ]
  try {
    await until('the zombie', () => /Z.*true/.test(sh(['ps', '-eo', 'stat,comm']).stdout), 5000)
    const mark = logMark()
    process.kill(old, 'SIGKILL')
    const now = await recovered('n1', old, mark)
    assert.ok(existsSync(`/proc/${now}`))
    assert.equal(browser('n10')?.pid, sibling)
    for (const d of decoys) assert.equal(d.exitCode ?? d.signalCode, null)
  } finally {
    for (const d of decoys) d.kill('SIGKILL')
  }
})

test('a malformed row: its node is refused by line and reason, the others stay supervised', async () => {
  const registry = readFileSync('/etc/netvm/NODES.md', 'utf8')
  appendFileSync('/etc/netvm/NODES.md', '| bad/name | a | b | 99999 | d | e | f | active |\n')
  const mark = logMark()
  process.kill(old, 'SIGKILL')
  try {
    await recovered('n1', old, mark)
    const refused = sh(['chromebox-watchdog', 'bad/name'])
    assert.equal(refused.code, 64)
    assert.match(refused.stderr, /^chromebox-watchdog: [^\n]+\n$/)
  } finally {
    writeFileSync('/etc/netvm/NODES.md', registry)
  }
})

test('a page of nothing but an error counts as missing, and the failed attempt says so', async () => {
  writeConfig(FAILING)
  setSite('n1', { title: 'Moved' })
  const mark = logMark()
  process.kill(old, 'SIGKILL')
  const line = await untilLine('n1', mark, /\{relaunch-failed\}/, 40_000)
  assert.match(line, rx`${says('relaunch-failed', { reason: new RegExp(`${MISSING} \\(titles: Moved.*`) })}`)
  assert.match(line, /; next: chromebox-watchdog n1 --why$/)
  await untilIdle('n1')
  assert.equal(receipt('chromebox-watchdog', 'n1')?.verdict.code, 'page-missing')
  const paged = linesSince(mark, 'n1').filter((l) => l.includes(' PAGE '))
  assert.equal(paged.length, 1)
  assert.match(paged[0] ?? '', rx`PAGE \[n1\] browser-fault: ${says('relaunch-failed')}`)
})
