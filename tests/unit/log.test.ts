import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import type { Paths } from '../../lib/base/paths.ts'
import type { LogLevel } from '../../lib/base/types.ts'
import { journalEntry } from '../../lib/report/log.ts'
import { tempDir, tempPaths } from '../kit/temp.ts'

/** Writes log lines in a process of its own, with a `logger` on PATH that keeps its input, or fails. */
function write(
  t: TestContext,
  p: Paths,
  calls: readonly unknown[][],
  journal: 'works' | 'fails' | 'missing',
) {
  const dir = tempDir(t)
  const script =
    journal === 'works' ? `#!/bin/sh\ncat >> ${dir}/entries\necho >> ${dir}/entries\n` : '#!/bin/sh\nexit 1\n'
  if (journal !== 'missing') {
    writeFileSync(`${dir}/logger`, script)
    chmodSync(`${dir}/logger`, 0o755)
  }
  const url = new URL('../../lib/report/log.ts', import.meta.url).href
  const code = `import { makeLog } from ${JSON.stringify(url)}
    const log = makeLog('agent-health', ${JSON.stringify(p)})
    for (const c of ${JSON.stringify(calls)}) log.write(...c)`
  const r = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    encoding: 'utf8',
    env: { ...process.env, PATH: journal === 'missing' ? dir : `${dir}:${process.env.PATH}` },
  })
  assert.equal(r.status, 0, r.stderr)
  const entries = existsSync(`${dir}/entries`) ? readFileSync(`${dir}/entries`, 'utf8') : ''
  return { stderr: r.stderr, stdout: r.stdout, entries }
}

const file = (p: Paths) => readFileSync(`${p.log}/agent-health.log`, 'utf8')
const full = (p: Paths) => {
  mkdirSync(p.log, { recursive: true })
  symlinkSync('/dev/full', `${p.log}/agent-health.log`)
}

test('a line goes to the file and to the journal, and nowhere else', (t) => {
  const p = tempPaths(t)
  const r = write(
    t,
    p,
    [['muse', { level: 'FAIL', code: 'api-timeout', text: 'api timeout', next: 'true' }]],
    'works',
  )
  assert.match(
    file(p),
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z FAIL \[muse\] api timeout \{api-timeout\}; next: true\n$/,
  )
  assert.deepEqual([r.stdout, r.stderr], ['', ''])
  for (const field of [
    'MESSAGE=FAIL [muse] api timeout {api-timeout}; next: true',
    'PRIORITY=3',
    'NETVM_NODE=muse',
    'NETVM_CODE=api-timeout',
    'NETVM_LAYER=api',
  ]) {
    assert.ok(r.entries.split('\n').includes(field), field)
  }
})

test('lines are appended, one each, whatever the text holds', (t) => {
  const p = tempPaths(t)
  const text = 'a\nPRIORITY=0\u001b[2J\u0000b'
  const r = write(
    t,
    p,
    [
      ['muse', { level: 'INFO', code: 'released', text }],
      ['fleet', { level: 'WARN', code: 'state-not-kept', text: 'second' }, { x: 'y\nPRIORITY=0' }],
    ],
    'works',
  )
  assert.equal(file(p).split('\n').length, 3)
  assert.match(
    file(p),
    /INFO \[muse\] a PRIORITY=0 b \{released\}\n.* WARN \[fleet\] second \{state-not-kept\}\n$/,
  )
  assert.equal(r.entries.split('\n').includes('PRIORITY=0'), false, 'no field can be forged by a text')
})

test('the log’s file system is full: the journal has the line, and says so', (t) => {
  const p = tempPaths(t)
  full(p)
  const r = write(t, p, [['muse', { level: 'FAIL', code: 'relaunch-failed', text: 'x' }]], 'works')
  assert.match(
    r.entries,
    /^MESSAGE=FAIL \[muse\] x \(not in .*agent-health\.log: ENOSPC\) \{relaunch-failed\}$/m,
  )
  assert.equal(r.stderr, '')
})

for (const journal of ['fails', 'missing'] as const) {
  test(`the journal ${journal}: the line is on stderr with its priority, file full or not`, (t) => {
    const p = tempPaths(t)
    assert.equal(
      write(t, p, [['muse', { level: 'PAGE', code: 'held-down', text: 'x' }]], journal).stderr,
      '<2>PAGE [muse] x {held-down}\n',
    )
    assert.match(file(p), / PAGE \[muse\] x \{held-down\}\n$/)
    const q = tempPaths(t)
    full(q)
    assert.match(
      write(t, q, [['muse', { level: 'WARN', code: 'fresh', text: 'y' }]], journal).stderr,
      /^<4>WARN \[muse\] y \(not in .*: ENOSPC\) \{fresh\}\n$/,
    )
  })
}

const PRIORITIES: [LogLevel, number][] = [
  ['INFO', 6],
  ['WARN', 4],
  ['FAIL', 3],
  ['FAIL_LOUD', 3],
  ['PAGE', 2],
]
for (const [level, priority] of PRIORITIES) {
  test(`journal priority of ${level} is ${priority}`, () => {
    assert.match(journalEntry('s', level, 'n', 't', {}, undefined), new RegExp(`^PRIORITY=${priority}$`, 'm'))
  })
}

test('journal fields: the names are made valid, ours cannot be replaced, the unit is named', () => {
  const fields = { code: 'a', 'odd name': 'b', NETVM_NODE: 'forged', OBJECT_PID: '7' }
  const entry = journalEntry('agent-health', 'INFO', 'muse', 'text', fields, 'agent-health.service')
  assert.deepEqual(entry.trimEnd().split('\n').sort(), [
    'MESSAGE=INFO [muse] text',
    'NETVM_CODE=a',
    'NETVM_LEVEL=INFO',
    'NETVM_NODE=muse',
    'NETVM_ODD_NAME=b',
    'NETVM_SUPERVISOR=agent-health',
    'OBJECT_PID=7',
    'OBJECT_SYSTEMD_UNIT=agent-health.service',
    'PRIORITY=6',
    'SYSLOG_IDENTIFIER=agent-health',
  ])
})

test('the unit is read from the cgroup, hybrid and unified', (t) => {
  const cases: [string, string | undefined][] = [
    ['0::/system.slice/agent-health.service\n', 'agent-health.service'],
    [
      '1:name=systemd:/system.slice/system-x.slice/chromebox-watchdog@muse.service\n0::/\n',
      'chromebox-watchdog@muse.service',
    ],
    ['0::/user.slice/user-0.slice/session-1.scope\n', undefined],
  ]
  for (const [cgroup, unit] of cases) {
    const proc = tempDir(t)
    mkdirSync(`${proc}/self`)
    writeFileSync(`${proc}/self/cgroup`, cgroup)
    const { entries } = write(
      t,
      tempPaths(t, { proc }),
      [['muse', { level: 'INFO', code: 'released', text: 'x' }]],
      'works',
    )
    assert.equal(/^OBJECT_SYSTEMD_UNIT=(.*)$/m.exec(entries)?.[1], unit)
  }
})
