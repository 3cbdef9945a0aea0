import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { test } from 'node:test'
import {
  ageMs,
  canSeeAll,
  listPids,
  namespaceOf,
  parseStat,
  readArgv,
  readRunning,
  readStat,
  signal,
} from '../../lib/host/proc.ts'
import { fakeProc } from '../kit/fake-proc.ts'

const STAT_TAIL = '0 '.repeat(17)
for (const [line, want] of [
  [`7 (sh) S 1 ${STAT_TAIL}4711 9 9`, { comm: 'sh', state: 'S', ppid: 1, startTicks: 4711 }],
  [`7 (a) R 1 (b) Z 3 ${STAT_TAIL}12 9`, { comm: 'a) R 1 (b', state: 'Z', ppid: 3, startTicks: 12 }],
  [`7 (two words) T 2 ${STAT_TAIL}5 9`, { comm: 'two words', state: 'T', ppid: 2, startTicks: 5 }],
  [`7 () D 2 ${STAT_TAIL}5 9`, { comm: '', state: 'D', ppid: 2, startTicks: 5 }],
  ['7 (sh) S 1 0 0', undefined],
  ['7 sh S 1', undefined],
  ['', undefined],
] as const) {
  test(`stat line ${JSON.stringify(line.slice(0, 24))} is read after the last parenthesis`, () => {
    assert.deepEqual(parseStat(line), want)
  })
}

test('age comes from start ticks and uptime, and never from the wall clock', () => {
  assert.equal(ageMs(1000, 100), 90_000)
  assert.equal(ageMs(1001, 100.5), 90_490)
  assert.equal(ageMs(20_000, 100), 0)
})

test('the machine itself: init that is not systemd is fine in the first PID namespace', (t) => {
  const fake = fakeProc({ init: { pid: 1, comm: 'process_api', argv: ['/init'] } })
  t.after(fake.remove)
  assert.deepEqual(canSeeAll(fake.proc), { seen: true, value: true })
})

test('real processes: pids, stat, arguments and namespace of this one', () => {
  assert.ok(listPids('/proc').includes(process.pid))
  const stat = readStat('/proc', process.pid)
  assert.equal(stat?.ppid, process.ppid)
  assert.deepEqual(readArgv('/proc', process.pid).slice(-process.argv.length + 1), process.argv.slice(1))
  assert.equal(namespaceOf('/proc', process.pid), statSync('/proc/self/ns/net').ino)
  assert.equal(namespaceOf('/proc', 'self', 'pid'), statSync('/proc/self/ns/pid').ino)
  assert.equal(readStat('/proc', 2 ** 30), undefined)
  assert.deepEqual(readArgv('/proc', 2 ** 30), [])
  assert.equal(namespaceOf('/proc', 2 ** 30), undefined)
})

test('a signal is sent to one that runs; one that ended needs none, and what is no signal is refused', async (t) => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'])
  t.after(() => child.kill('SIGKILL'))
  const pid = child.pid ?? 0
  const ended = once(child, 'exit')
  assert.ok(readRunning('/proc', pid))
  assert.equal(signal(pid, 'SIGKILL'), undefined)
  await ended
  assert.equal(readRunning('/proc', pid), undefined)
  assert.equal(signal(pid, 'SIGTERM'), undefined)
  assert.equal(signal(process.pid, 'SIGNOPE' as NodeJS.Signals), 'ERR_UNKNOWN_SIGNAL')
})

test('a zombie has ended, a stopped process has not', (t) => {
  const fake = fakeProc()
  t.after(fake.remove)
  for (const [pid, state] of [
    [60, 'Z'],
    [61, 'X'],
    [62, 'T'],
    [63, 'D'],
  ] as const)
    fake.add({ pid, state, argv: ['x'] })
  assert.deepEqual(
    [60, 61, 62, 63, 64].map((pid) => readRunning(fake.proc, pid)?.state),
    [undefined, undefined, 'T', 'D', undefined],
  )
})
