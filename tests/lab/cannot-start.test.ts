import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { before, beforeEach, test } from 'node:test'
import {
  FAILING,
  inPage,
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
import { browser, logText, ok, receipt, sh, tick, titles, until, writeConfig } from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

// No living browser is given up for one that cannot start.
const PROGRAM = '/usr/lib/chromium/chromium'
const PROFILE = '/var/lib/chromebox/n1'

let pid: number
before(async () => {
  await quietNode('n2')
  await quietNode('n1')
})
beforeEach(async () => {
  pid = await wellAgain('n1')
  await untilOlder('n1')
  // A page of the test before would still be open: a fault is over once it has been gone for a while.
  rmSync('/var/lib/netvm/pages', { recursive: true, force: true })
})

/** Another program at Chromium's path while `what` runs: the one of the package stays as it is. */
async function withProgram(text: string, mode: number, what: () => Promise<void>): Promise<void> {
  const stub = '/var/lib/lab-stub'
  writeFileSync(stub, text)
  chmodSync(stub, mode)
  ok(['mount', '--bind', stub, PROGRAM])
  try {
    await what()
  } finally {
    ok(['umount', PROGRAM])
    rmSync(stub)
  }
}

/** The page loses its title, which a relaunch would bring back. */
async function loseTitle(): Promise<void> {
  await inPage('n1', "location.href = 'about:blank'")
  await until('navigated', () => titles('n1')?.includes('Chat') === false, 5000)
}

const pages = (mark: number): string[] =>
  logText('chromebox-watchdog')
    .slice(mark)
    .split('\n')
    .filter((l) => / PAGE /.test(l))

/** Three runs, and the living browser is what it was: reported once, and nothing stopped. */
function heldBack(why: string, mark: number): void {
  for (let i = 0; i < 3; i++) assert.equal(tick('n1').status, '1')
  assert.equal(mainPid('n1'), pid)
  const lines = linesSince(mark, 'n1')
  assert.ok(
    lines.some((l) => l.includes(`; not relaunched: ${why}`)),
    lines.join('\n'),
  )
  assert.ok(!lines.some((l) => /relaunching|\{relaunch-/.test(l)), lines.join('\n'))
  assert.equal(receipt('chromebox-watchdog', 'n1')?.actions.length, 0)
}

async function relaunchedWhenGone(mark: number): Promise<void> {
  tick('n1')
  await untilLine('n1', mark, rx`INFO .* ${says('relaunch-ok', { seconds: /\d+/ })}`)
  assert.notEqual(mainPid('n1'), pid)
}

test('case 57: the program is not executable: nothing is stopped for it, and once it is, the page comes back', async () => {
  const mark = logMark()
  await withProgram('', 0o644, async () => {
    await loseTitle()
    heldBack(`${PROGRAM} is not executable`, mark)
    assert.equal(pages(mark).length, 1, pages(mark).join('\n'))
  })
  await relaunchedWhenGone(mark)
})

for (const [what, path] of [
  ['the settings of its unit', '/etc/netvm/nodes/n1.env'],
  ['the resolver of its namespace', '/etc/netns/warp-n1/resolv.conf'],
] as const) {
  test(`case 57, another face: ${what}: gone, and the living browser stays`, async () => {
    const mark = logMark()
    await loseTitle()
    renameSync(path, `${path}.kept`)
    try {
      heldBack(`${path} is missing, which its unit needs`, mark)
      assert.equal(pages(mark).length, 1, pages(mark).join('\n'))
    } finally {
      renameSync(`${path}.kept`, path)
    }
    await relaunchedWhenGone(mark)
  })
}

test('case 57: a new program that traps: one node finds out, the others keep theirs, one page for the fleet', async () => {
  const mark = logMark()
  writeConfig(FAILING)
  await withProgram('#!/bin/bash\nkill -TRAP $$\n', 0o755, async () => {
    process.kill(mainPid('n2'), 'SIGKILL')
    await untilLine('n2', mark, /\{relaunch-failed\}/, 40_000)
    await untilIdle('n2')
    const left = receipt('chromebox-watchdog', 'n2')
    assert.equal(left?.layers.find((l) => l.layer === 'process')?.state, 'fail')
    await loseTitle()
    heldBack('Chromium on disk changed at ', mark)
    const told = pages(mark)
    assert.equal(told.length, 1, told.join('\n'))
    assert.match(
      told[0] ?? '',
      / PAGE \[fleet\] browser-fault: Chromium on disk changed at \S+Z, every start since ended with TRAP/,
    )
  })
  await relaunchedWhenGone(mark)
  await wellAgain('n2')
})

test('case 58: a directory at SingletonLock: the cause is reported once, and no start is tried', async () => {
  const lock = `${PROFILE}/SingletonLock`
  rmSync(lock)
  mkdirSync(lock)
  const mark = logMark()
  try {
    process.kill(pid, 'SIGKILL')
    await untilLine('n1', mark, rx`not relaunched: ${lock} is a directory`)
    await untilIdle('n1')
    for (let i = 0; i < 6; i++) assert.equal(tick('n1').status, '1')
    assert.equal(browser('n1'), undefined)
    assert.ok(!linesSince(mark, 'n1').some((l) => /\{relaunch-/.test(l)))
    assert.equal(pages(mark).length, 1, pages(mark).join('\n'))
    assert.equal(state('n1').failures, 0)
  } finally {
    rmdirSync(lock)
  }
  await relaunchedWhenGone(mark)
})

test('case 58: exit 21 for what no look knows: its own line is quoted, and it is held and paged at once', async () => {
  const mark = logMark()
  // What Chromium does with a lock that it cannot take, whatever the reason.
  const words =
    '[1:1:ERROR:process_singleton_posix.cc(340)] Failed to create /x/SingletonLock: Permission denied (13)'
  const stub = `#!/bin/bash\necho '${words}'; echo 'Failed to create a ProcessSingleton. Aborting now.'; exit 21\n`
  await withProgram(stub, 0o755, async () => {
    process.kill(pid, 'SIGKILL')
    const line = await untilLine('n1', mark, /\{relaunch-failed\}/, 40_000)
    assert.match(line, /it ended: exit code 21; it said: .*Permission denied \(13\)/)
    await untilIdle('n1')
    assert.ok(state('n1').held)
    for (let i = 0; i < 3; i++) tick('n1')
    assert.equal(pages(mark).length, 1, pages(mark).join('\n'))
    assert.equal(state('n1').failures, 1)
  })
})

const unwritable: [string, () => void, () => void, RegExp][] = [
  [
    'Default is root’s',
    () => chownSync(`${PROFILE}/Default`, 0, 0),
    () => chownSync(`${PROFILE}/Default`, statSync(PROFILE).uid, statSync(PROFILE).gid),
    /Default is of user 0 with mode 700, the browser is user \d+/,
  ],
  [
    'its file system is read-only',
    () => {
      ok(['mount', '--bind', PROFILE, PROFILE])
      ok(['mount', '-o', 'remount,ro,bind', PROFILE])
    },
    () => ok(['umount', '--lazy', PROFILE]),
    /the file system of \/var\/lib\/chromebox\/n1 is read-only/,
  ],
  [
    'its file system is full',
    () => {
      ok(['mount', '-t', 'tmpfs', '-o', 'size=64k,mode=777', 'tmpfs', PROFILE])
      sh(['dd', 'if=/dev/zero', `of=${PROFILE}/fill`, 'bs=4k', 'count=32'])
    },
    () => ok(['umount', '--lazy', PROFILE]),
    /the file system of \/var\/lib\/chromebox\/n1 is full/,
  ],
]
for (const [name, break_, mend, why] of unwritable) {
  test(`case 58: ${name}: found while the browser lives, paged, and no relaunch`, async () => {
    const mark = logMark()
    break_()
    try {
      for (let i = 0; i < 3; i++) assert.equal(tick('n1').status, '1')
      assert.equal(mainPid('n1'), pid)
      const left = receipt('chromebox-watchdog', 'n1')
      assert.equal(left?.verdict.code, 'profile-unwritable')
      assert.match(left?.verdict.reason ?? '', why)
      const told = pages(mark)
      assert.equal(told.length, 1, told.join('\n'))
      assert.match(told[0] ?? '', rx`PAGE \[n1\] browser-fault: the profile cannot be written: `)
    } finally {
      mend()
    }
    assert.equal(tick('n1').status, '0')
    assert.equal(mainPid('n1'), pid)
    assert.ok(existsSync(`${PROFILE}/Default`))
  })
}
