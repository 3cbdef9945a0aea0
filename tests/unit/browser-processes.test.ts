import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { findBrowsers, profileLeftovers, startedAsBrowsers } from '../../lib/browser/processes.ts'
import { canSeeAll } from '../../lib/host/proc.ts'
import { type FakeProc, type FakeProcess, fakeProc } from '../kit/fake-proc.ts'
import { needsRoot } from '../kit/needs-root.ts'

const PROFILE = '/var/lib/chromebox/n1'
const DATA = `--user-data-dir=${PROFILE}`
const CHROMIUM = '/usr/lib/chromium/chromium'
const FIXTURE = join(import.meta.dirname, 'fixtures/find-browsers.ts')

function table(
  t: TestContext,
  processes: FakeProcess[],
  opts: Parameters<typeof fakeProc>[0] = {},
): FakeProc {
  const fake = fakeProc(opts)
  t.after(fake.remove)
  for (const p of processes) fake.add(p)
  return fake
}

function pidsFound(fake: FakeProc): number[] {
  const look = findBrowsers(fake, PROFILE)
  assert.ok(look.seen, JSON.stringify(look))
  return look.value.map((b) => b.pid)
}

const main: FakeProcess = { pid: 100, argv: [CHROMIUM, '--headless', DATA, 'https://chat.example'] }
const cases: [string, FakeProcess[], number[]][] = [
  ['the browser', [main], [100]],
  ['profile as last argument', [{ pid: 100, argv: [CHROMIUM, DATA] }], [100]],
  ['a stopped browser is there', [{ ...main, state: 'T' }], [100]],
  ['another name for the program', [{ ...main, comm: 'a) R 1 (b' }], [100]],
  ['84: another program with the exact flag', [{ ...main, exe: '/usr/bin/node' }], []],
  ['84: by its program, whatever it calls itself', [{ ...main, argv: ['x', DATA], exe: CHROMIUM }], [100]],
  ['84: its program was upgraded', [{ ...main, exe: `${CHROMIUM}.dpkg-tmp (deleted)` }], [100]],
  ['84: Chrome', [{ ...main, exe: '/opt/google/chrome/chrome' }], [100]],
  [
    '84: what systemd started as the browser of a node',
    [
      {
        ...main,
        exe: '/opt/thorium',
        cgroup: '0::/system.slice/system-chromebox.slice/chromebox@n1.service\n',
      },
    ],
    [100],
  ],
  [
    '84: what another unit runs',
    [{ ...main, exe: '/opt/thorium', cgroup: '0::/system.slice/notes.service\n' }],
    [],
  ],
  ['two at once', [main, { ...main, pid: 101 }], [100, 101]],
  ['a zombie', [{ pid: 100, comm: 'chromium', state: 'Z', argv: [] }], []],
  ['a zombie that still shows arguments', [{ ...main, state: 'Z' }], []],
  ['a renderer', [{ pid: 100, argv: [CHROMIUM, '--type=renderer', DATA] }], []],
  ['a zygote', [{ pid: 100, argv: [CHROMIUM, DATA, '--type=zygote'] }], []],
  ['arguments joined by spaces', [{ pid: 100, argv: [`${CHROMIUM} --type=gpu ${DATA} --x`] }], []],
  ['chromedriver', [{ pid: 100, argv: ['/usr/bin/chromedriver', '--port=9515'] }], []],
  [
    'the crash handler',
    [
      {
        pid: 100,
        argv: ['/usr/lib/chromium/chrome_crashpad_handler', `--database=${PROFILE}/Crash Reports`],
      },
    ],
    [],
  ],
  ['an editor with its log', [{ pid: 100, argv: ['vim', 'chrome.log'] }], []],
  ['an editor with its profile', [{ pid: 100, argv: ['vim', `${PROFILE}/chrome.log`, PROFILE] }], []],
  ['a search for it', [{ pid: 100, argv: ['pgrep', '-f', `user-data-dir=${PROFILE}`] }], []],
  ['a shell command line', [{ pid: 100, argv: ['bash', '-c', `chromium ${DATA}; sleep 9`] }], []],
  ['a shell with the exact argument', [{ pid: 100, argv: ['/bin/bash', 'start-browser', DATA] }], []],
  ['a script of a shell', [{ pid: 100, argv: ['start', DATA], exe: '/usr/bin/dash' }], []],
  ['a sibling whose name is longer', [{ pid: 100, argv: [CHROMIUM, `${DATA}0`] }], []],
  ['a profile inside the profile', [{ pid: 100, argv: [CHROMIUM, `${DATA}/x`] }], []],
  ['another option with the path', [{ pid: 100, argv: [CHROMIUM, `--crash-dumps-dir=${PROFILE}`] }], []],
  [
    'a wrapper above the browser',
    [
      { pid: 90, argv: ['sudo', CHROMIUM, DATA] },
      { ...main, ppid: 90 },
    ],
    [100],
  ],
  ['this process', [{ pid: 50, argv: ['node', 'us', DATA], ppid: 1 }], []],
  ['a kernel thread', [{ pid: 2, comm: 'kthreadd', argv: [], ppid: 0 }], []],
]
for (const [name, processes, want] of cases) {
  test(`browser search: ${name} → ${want.length} found`, (t) => {
    // Without the entry of pid 50, so that the table may describe this process itself.
    const fake = fakeProc()
    t.after(fake.remove)
    for (const p of processes) {
      if (p.pid === 50) rmSync(join(fake.proc, '50'), { recursive: true })
      fake.add(p)
    }
    assert.deepEqual(pidsFound(fake), want)
  })
}

test('browser search: the sibling whose name is a prefix is found under its own name only', (t) => {
  const fake = table(t, [main, { pid: 110, argv: [CHROMIUM, `${DATA}0`] }])
  assert.deepEqual(pidsFound(fake), [100])
  const sibling = findBrowsers(fake, `${PROFILE}0`)
  assert.deepEqual(sibling.seen && sibling.value.map((b) => b.pid), [110])
})

test('browser search: an ancestor of this process is never the browser', (t) => {
  const fake = fakeProc()
  t.after(fake.remove)
  rmSync(join(fake.proc, '50'), { recursive: true })
  fake.add({ pid: 50, argv: ['node', 'us'], ppid: 40 })
  fake.add({ pid: 40, argv: ['timeout', '9', 'node', 'us', DATA], ppid: 30 })
  fake.add({ pid: 30, argv: ['watch', DATA] })
  assert.deepEqual(pidsFound(fake), [])
})

test('browser search: says age and state', (t) => {
  const fake = table(t, [
    { ...main, startTicks: 1300 },
    { ...main, pid: 101, state: 'T' },
  ])
  assert.deepEqual(findBrowsers(fake, PROFILE), {
    seen: true,
    value: [
      { pid: 100, startTicks: 1300, ageMs: 87_000, state: 'S' },
      { pid: 101, startTicks: 1000, ageMs: 90_000, state: 'T' },
    ],
  })
})

test('one pass for all profiles: main processes, with the path below, no wrapper and no other program', (t) => {
  const profiles = '/var/lib/chromebox'
  const fake = table(t, [
    main,
    { pid: 90, argv: ['sudo', CHROMIUM, DATA] },
    { pid: 101, argv: [CHROMIUM, `--user-data-dir=${profiles}/n2/x`] },
    { pid: 102, argv: [CHROMIUM, '--type=renderer', DATA] },
    { pid: 103, argv: [DATA] },
    { pid: 104, argv: [CHROMIUM, '--user-data-dir=/elsewhere/n1'] },
    { pid: 105, argv: [CHROMIUM, `--x=${DATA}`] },
    { pid: 106, argv: [CHROMIUM, DATA], exe: '/usr/bin/node' },
  ])
  assert.deepEqual(startedAsBrowsers({ proc: fake.proc, profiles }), [
    { pid: 100, profile: 'n1' },
    { pid: 101, profile: 'n2/x' },
  ])
  assert.throws(() => startedAsBrowsers({ proc: '/nonexistent', profiles }), { code: 'ENOENT' })
})

const blindTables: [string, Parameters<typeof fakeProc>[0], RegExp][] = [
  [
    'a shell in another PID namespace',
    { init: { pid: 1, comm: 'bash', argv: ['bash'] }, pidNs: 5 },
    /pid 1 is bash/,
  ],
  ['a table without pid 1 (hidepid)', { init: { pid: 77, argv: ['x'] } }, /hidden/],
]
for (const [name, opts, why] of blindTables) {
  test(`cannot see, never "no process": ${name}`, (t) => {
    const fake = table(t, [], opts)
    for (const look of [canSeeAll(fake.proc), findBrowsers(fake, PROFILE)]) {
      assert.equal(look.seen, false)
      assert.match(look.seen ? '' : look.why, why)
    }
    const left = profileLeftovers(fake, PROFILE)
    assert.equal(left.seen, false)
    // What is seen is there, even if others may be hidden.
    fake.add(main)
    assert.deepEqual(pidsFound(fake), [100])
  })
}

test('cannot see: the arguments of one process cannot be read', (t) => {
  const fake = table(t, [{ pid: 60, argv: ['x'] }])
  rmSync(join(fake.proc, '60/cmdline'))
  // Reading a directory fails for root too, as the arguments of another user's process do under hidepid.
  mkdirSync(join(fake.proc, '60/cmdline'))
  const look = findBrowsers(fake, PROFILE)
  assert.match(look.seen ? 'seen' : look.why, /arguments of pid 60/)
})

test('cannot see: no table, and a table that does not list this process', (t) => {
  const gone = findBrowsers({ proc: '/nonexistent' }, PROFILE)
  assert.equal(gone.seen, false)
  const fake = table(t, [])
  rmSync(join(fake.proc, 'self'))
  assert.equal(findBrowsers(fake, PROFILE).seen, false)
})

test('leftovers: crash handler and orphaned children, not the browser, an editor or a sibling', (t) => {
  const fake = table(t, [
    main,
    { pid: 101, argv: ['chrome_crashpad_handler', '--monitor-self', `--database=${PROFILE}/Crash Reports`] },
    { pid: 102, argv: [CHROMIUM, '--type=zygote', DATA] },
    { pid: 103, argv: [`${CHROMIUM} --type=renderer ${DATA} --lang=en`] },
    { pid: 104, argv: ['vim', `${PROFILE}/chrome.log`] },
    { pid: 105, argv: [CHROMIUM, '--type=zygote', `${DATA}0`] },
    { pid: 106, argv: ['chrome_crashpad_handler', `--database=${PROFILE}0/Crash Reports`] },
    { pid: 107, argv: ['bash', '-c', `x --database=${PROFILE}`] },
    { pid: 108, argv: ['chrome_crashpad_handler', `--database=${PROFILE}/x`], state: 'Z' },
  ])
  fake.add({ pid: 109, argv: ['env', `HOME=${PROFILE}`, 'sleep', '9'] })
  const look = profileLeftovers(fake, PROFILE)
  assert.deepEqual(look.seen && look.value.map((l) => l.pid), [101, 102, 103])
  assert.deepEqual(look.seen && look.value[0], { pid: 101, startTicks: 1000, comm: 'chrome_crashpad' })
})

async function fakeBrowser(t: TestContext, profileDir: string): Promise<number> {
  const argv = ['-e', 'console.log(1); setInterval(() => {}, 1e6)', '--', `--user-data-dir=${profileDir}`]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'ignore'] })
  t.after(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  return child.pid as number
}

test('real processes: found when stopped too, with its age; the searcher with the path in its argv is not', async (t) => {
  const profileDir = join(tmpdir(), `profile-${process.pid}-a`)
  const pid = await fakeBrowser(t, profileDir)
  process.kill(pid, 'SIGSTOP')
  const run = spawnSync(process.execPath, ['--import', 'tsx', FIXTURE, '/proc', profileDir], {
    encoding: 'utf8',
  })
  const look = JSON.parse(run.stdout) as ReturnType<typeof findBrowsers>
  assert.deepEqual(look.seen && look.value.map((b) => b.pid), [pid])
  const here = findBrowsers({ proc: '/proc', browser: process.execPath }, profileDir)
  assert.ok(here.seen && here.value[0] !== undefined && here.value[0].ageMs < 60_000)
})

test('real kernel, hidepid: a foreign browser is hidden, which is not "no process"', {
  skip: needsRoot('mounts a proc of its own'),
}, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'hidepid-'))
  t.after(() => rmSync(dir, { recursive: true }))
  chmodSync(dir, 0o755)
  mkdirSync(join(dir, 'proc'))
  const profileDir = join(dir, 'profile')
  const pid = await fakeBrowser(t, profileDir)
  for (const hidepid of ['1', '2']) {
    const script =
      'mount -t proc -o "hidepid=$1" proc "$2" && shift && exec "$0" --import tsx "$2" "$1" "$3" $4'
    const look = (uid: string): ReturnType<typeof findBrowsers> => {
      const argv = [
        '-m',
        'sh',
        '-c',
        script,
        process.execPath,
        hidepid,
        join(dir, 'proc'),
        FIXTURE,
        profileDir,
        uid,
      ]
      const run = spawnSync('unshare', argv, { encoding: 'utf8' })
      return JSON.parse(run.stdout || JSON.stringify(run.stderr))
    }
    const root = look('')
    assert.deepEqual(root.seen && root.value.map((b) => b.pid), [pid], `hidepid=${hidepid}, root`)
    const nobody = look('65534')
    assert.equal(nobody.seen, false, `hidepid=${hidepid}, nobody: ${JSON.stringify(nobody)}`)
  }
})

test('real kernel, a PID namespace of its own: cannot see', { skip: needsRoot('unshare') }, async (t) => {
  const profileDir = join(tmpdir(), `profile-${process.pid}-b`)
  await fakeBrowser(t, profileDir)
  const argv = ['-pf', '--mount-proc', process.execPath, '--import', 'tsx', FIXTURE, '/proc', profileDir]
  const run = spawnSync('unshare', argv, { encoding: 'utf8' })
  const look = JSON.parse(run.stdout || JSON.stringify(run.stderr)) as ReturnType<typeof findBrowsers>
  assert.equal(look.seen, false, run.stdout)
})
