import assert from 'node:assert/strict'
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { describe, ExecError, run, runOk, runSync } from '../../lib/host/exec.ts'
import { tempDir } from '../kit/temp.ts'
import { patience, scaled } from '../kit/unit.ts'
import { blockFor, blockUntil, until } from '../kit/until.ts'

/** For a command that ends by itself: only a failing test waits so long. */
const LONG_MS = patience(30_000)
/** A test that only a kept deadline ends. */
const ENDS = { timeout: LONG_MS }

const sh = (script: string) => ['sh', '-c', script]

test('run: what the command wrote and how it ended', async () => {
  const r = await run(sh('echo out; echo err >&2; exit 3'))
  assert.deepEqual([r.code, r.signal, r.stdout, r.stderr], [3, null, 'out\n', 'err\n'])
  assert.deepEqual([r.timedOut, r.missing], [false, false])
  assert.ok(r.durationMs > 0)
})

test('run: arguments reach the program as they are, without a shell', async () => {
  const words = ['a b', '$(id)', '; rm x', '*', '', 'ü\n']
  const r = await run(['printf', '%s|', ...words])
  assert.equal(r.stdout, words.map((w) => `${w}|`).join(''))
})

test('run: a missing program is data, not an exception', async () => {
  const r = await run(['netvm-no-such-program'])
  assert.deepEqual([r.missing, r.code, r.timedOut], [true, null, false])
  assert.equal(describe(r), 'netvm-no-such-program: not installed')
  assert.equal((await run([])).code, null)
})

test('run: a file that is no program is not "missing"', async () => {
  const r = await run(['/etc/passwd'])
  assert.deepEqual([r.missing, r.code], [false, null])
  assert.match(r.stderr, /EACCES/)
})

test('run: input and C locale', async () => {
  const r = await run(sh('cat; echo "$LC_ALL"'), { input: 'in ' })
  assert.equal(r.stdout, 'in C\n')
  const big = 'x'.repeat(1 << 20)
  assert.equal((await run(['true'], { input: big })).code, 0, 'a command that does not read is no error')
})

test('run: descriptors are passed as 3, 4, …', async (t) => {
  const dir = tempDir(t)
  writeFileSync(`${dir}/a`, 'first')
  const a = openSync(`${dir}/a`, 'r')
  const b = openSync(`${dir}/b`, 'w')
  const r = await run(sh('cat <&3 >&4'), { fds: [a, b] })
  closeSync(a)
  closeSync(b)
  assert.equal(r.code, 0)
  assert.equal(readFileSync(`${dir}/b`, 'utf8'), 'first')
})

test('run: at its deadline the command and its children are killed, whatever they ignore', ENDS, async () => {
  const deaf = sh('trap "" TERM; sleep 600 & echo $!; wait; sleep 600')
  const r = await run(deaf, { deadlineMs: scaled(1000) })
  assert.equal(r.timedOut, true)
  assert.ok(r.durationMs > 990, `took ${r.durationMs} ms`)
  const child = Number(r.stdout)
  assert.ok(child > 1)
  await until('its child is gone', () => !alive(child))
  assert.match(describe(r, 200), /no answer in 0.2s, killed/)
})

test('run: a command that ends at TERM is not waited for any longer', ENDS, async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const ran = run(['sleep', '600'], { deadlineMs: 100 })
  // The deadline passes; the grace time after it never does.
  t.mock.timers.tick(100)
  const r = await ran
  assert.deepEqual([r.timedOut, r.signal], [true, 'SIGTERM'])
})

test('run: a daemon that keeps the pipe does not hold us, and lives on', ENDS, async () => {
  const r = await run(sh('sleep 600 & echo $!'), { deadlineMs: LONG_MS })
  assert.equal(r.code, 0)
  const daemon = Number(r.stdout)
  assert.ok(alive(daemon))
  process.kill(daemon, 'SIGKILL')
})

test('run: output is bounded, and the command not blocked by it', async () => {
  const r = await run(sh('yes | head -c 3000000; echo x >&2'), { maxOutput: 1000 })
  assert.deepEqual([r.code, r.stdout.length, r.stderr], [0, 1000, 'x\n'])
})

test('run: a busy stretch of this process makes no command late', async (t) => {
  const pidFile = join(tempDir(t), 'pid')
  const inTime = run(sh(`echo $$ > ${pidFile}; echo out; exit 3`), { deadlineMs: 300 })
  // It ends while we are busy, and we are so until long after its deadline.
  blockUntil('it has ended', () => existsSync(pidFile) && !alive(Number(readFileSync(pidFile, 'utf8'))))
  blockFor(700)
  const r = await inTime
  assert.deepEqual([r.code, r.stdout, r.timedOut], [3, 'out\n', false])
})

test('run: a busy stretch past the grace for pipes loses no output', async (t) => {
  const dir = tempDir(t)
  const [pidFile, go, said] = ['pid', 'go', 'said'].map((name) => join(dir, name)) as [string, string, string]
  const late = `until [ -e ${go} ]; do sleep 0.01; done; echo late; : > ${said}`
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const left = run(sh(`(${late}) & echo $$ > ${pidFile}; exit 4`))
  // Gone from the process table, so we have heard of its end; what it left behind writes while we are busy.
  while (!existsSync(pidFile) || existsSync(`/proc/${readFileSync(pidFile, 'utf8').trim() || 'x'}`))
    await new Promise((resolve) => setImmediate(resolve))
  writeFileSync(go, '')
  blockUntil('the daemon has written', () => existsSync(said))
  t.mock.timers.tick(250)
  const l = await left
  assert.deepEqual([l.code, l.stdout], [4, 'late\n'])
})

test('runOk: throws what was run, how it ended, and what it said', async () => {
  assert.equal((await runOk(['true'])).code, 0)
  await assert.rejects(runOk(sh('echo "no such device" >&2; exit 2')), (e: ExecError) => {
    assert.ok(e instanceof ExecError)
    assert.match(e.message, /^sh -c .*: exit 2: no such device$/)
    assert.equal(e.result.code, 2)
    return true
  })
  await assert.rejects(runOk(['sleep', '600'], { deadlineMs: 50 }), /sleep 600: no answer in 0.1s, killed/)
  await assert.rejects(runOk(sh('kill -9 $$')), /ended by SIGKILL/)
})

test('runSync: the same result, blocking', () => {
  const r = runSync(sh('cat; echo e >&2; exit 4'), { input: 'i' })
  assert.deepEqual([r.code, r.stdout, r.stderr, r.timedOut, r.missing], [4, 'i', 'e\n', false, false])
  assert.equal(runSync(['netvm-no-such-program']).missing, true)
  const late = runSync(['sleep', '600'], { deadlineMs: 50 })
  assert.deepEqual([late.timedOut, late.signal], [true, 'SIGKILL'])
})

function alive(pid: number): boolean {
  try {
    // A zombie nobody has reaped yet is dead.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z'
  } catch {
    return false
  }
}
