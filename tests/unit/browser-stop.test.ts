import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { profileDir } from '../../lib/base/paths.ts'
import { stopBrowser } from '../../lib/browser/stop.ts'
import { type World, world } from '../kit/browser-host.ts'
import { scaledSeconds } from '../kit/unit.ts'
import { until } from '../kit/until.ts'

/** Says on stdout that it is up, and with `deaf` what it does about a TERM: nothing but a note. */
const PROGRAM = `
if (process.argv.includes('deaf')) process.on('SIGTERM', () => console.log('TERM'))
console.log('up')
setInterval(() => {}, 1000)
`

interface Stray {
  readonly child: ChildProcess
  readonly pid: number
  readonly said: () => string
  readonly ended: () => Promise<NodeJS.Signals | null>
}

/** A real process with the profile in its arguments, in no unit; the host's process table shows it or a fake. */
async function stray(t: TestContext, w: World, args: readonly string[] = [], option = '--user-data-dir=') {
  const profile = profileDir(w.ctx.p, 'muse')
  const argv = ['-e', PROGRAM, '--', `${option}${profile}`, ...args]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'ignore'] })
  t.after(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout.on('data', (b) => {
    text += b
  })
  await until('the stray is up', () => text.includes('up'))
  const pid = child.pid ?? 0
  assert.ok(pid > 1)
  symlinkSync(`/proc/${pid}`, join(w.ctx.p.proc, String(pid)))
  const exit = once(child, 'exit')
  const got: Stray = { child, pid, said: () => text, ended: async () => (await exit)[1] }
  return got
}

/** The stray as a table entry of files, which this test changes: another process may get its pid. */
function pin(w: World, pid: number): { starts: (ticks: number) => void } {
  const dir = join(w.host.dir, 'pinned', String(pid))
  mkdirSync(dir, { recursive: true })
  writeFileSync(join(dir, 'cmdline'), readFileSync(`/proc/${pid}/cmdline`))
  const starts = (ticks: number): void =>
    writeFileSync(join(dir, 'stat'), `${pid} (node) S 1 ${'0 '.repeat(17).trim()} ${ticks} 0 0\n`)
  starts(1000)
  w.host.program('repoint', `ln -sfn "${dir}" "$HOST/proc/${pid}"`)
  return { starts }
}

const repoint = async (w: World): Promise<void> => {
  const [code] = await once(spawn(join(w.host.dir, 'repoint'), { env: w.host.env() }), 'exit')
  assert.equal(code, 0)
}

test('nothing runs: the unit is stopped and there is nothing to tell', async (t) => {
  const w = await world(t)
  assert.deepEqual(await stopBrowser(w.ctx, w.node), { notes: [] })
  assert.deepEqual(w.host.calls(), ['systemctl stop chromebox@muse.service'])
})

test('the unit’s own browser is systemd’s to end', async (t) => {
  const w = await world(t)
  const pid = await w.host.browser()
  assert.deepEqual(await stopBrowser(w.ctx, w.node), { notes: [] })
  assert.equal(existsSync(`/proc/${pid}/exe`), false)
})

test('a browser outside the unit gets a TERM, and is told', async (t) => {
  const w = await world(t)
  const s = await stray(t, w)
  const got = await stopBrowser(w.ctx, w.node)
  assert.deepEqual(got, { notes: [`ended pid ${s.pid} outside the unit`] })
  assert.equal(await s.ended(), 'SIGTERM')
})

test('one that ignores TERM is killed after the grace time, not before', async (t) => {
  const w = await world(t, { NETVM_STOP_GRACE: scaledSeconds(2) })
  const s = await stray(t, w, ['deaf'])
  const got = await stopBrowser(w.ctx, w.node)
  assert.equal(got.stillThere, undefined)
  assert.equal(await s.ended(), 'SIGKILL')
  assert.match(s.said(), /TERM/, 'it was asked first')
})

test('a stopped one ends by its TERM: it is woken to take it', async (t) => {
  const w = await world(t, { NETVM_STOP_GRACE: 60 })
  const s = await stray(t, w)
  s.child.kill('SIGSTOP')
  await until('it is stopped', () => /State:\s+T/.test(readFileSync(`/proc/${s.pid}/status`, 'utf8')))
  await stopBrowser(w.ctx, w.node)
  assert.equal(await s.ended(), 'SIGTERM')
})

test('two of them: both end', async (t) => {
  const w = await world(t, { NETVM_STOP_GRACE: scaledSeconds(2) })
  const [a, b] = [await stray(t, w, ['deaf']), await stray(t, w)]
  const got = await stopBrowser(w.ctx, w.node)
  assert.equal(got.notes.length, 1)
  for (const s of [a, b]) assert.ok(got.notes[0]?.includes(`pid ${s.pid}`))
  assert.deepEqual([await a.ended(), await b.ended()], ['SIGKILL', 'SIGTERM'])
})

test('a pid that another process has by now gets no KILL', async (t) => {
  const w = await world(t, { NETVM_STOP_GRACE: 60 })
  const s = await stray(t, w, ['deaf'])
  const entry = pin(w, s.pid)
  await repoint(w)
  const stopping = stopBrowser(w.ctx, w.node)
  await until('it was asked', () => s.said().includes('TERM'))
  entry.starts(2000)
  assert.equal((await stopping).stillThere, undefined)
  assert.equal(s.child.exitCode ?? s.child.signalCode, null, 'it lives')
})

test('one that no signal ends is named', async (t) => {
  const w = await world(t, { NETVM_STOP_GRACE: 0.2 })
  const s = await stray(t, w)
  // The table goes on showing it, as it does a process in uninterruptible sleep.
  pin(w, s.pid)
  await repoint(w)
  const got = await stopBrowser(w.ctx, w.node)
  assert.equal(got.stillThere, `pid ${s.pid} does not end (state S)`)
})

test('a process that only names the profile is told and left alone', async (t) => {
  const w = await world(t)
  const handler = await stray(t, w, [], '--database=')
  const got = await stopBrowser(w.ctx, w.node)
  assert.deepEqual(got, { notes: [`left over from the profile: node ${handler.pid}`] })
  assert.equal(handler.child.exitCode ?? handler.child.signalCode, null)
})

test('a browser of another profile is none of ours', async (t) => {
  const w = await world(t)
  const profile = profileDir(w.ctx.p, 'muse')
  const argv = ['-e', PROGRAM, '--', `--user-data-dir=${profile}2`]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'ignore'] })
  t.after(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  symlinkSync(`/proc/${child.pid}`, join(w.ctx.p.proc, String(child.pid)))
  assert.deepEqual(await stopBrowser(w.ctx, w.node), { notes: [] })
  assert.equal(child.exitCode ?? child.signalCode, null)
})

test('a unit that cannot be stopped is told, and strays are ended all the same', async (t) => {
  const w = await world(t)
  w.host.program('bin/systemctl', 'echo "Failed to connect to bus" >&2; exit 1')
  const s = await stray(t, w)
  const { notes } = await stopBrowser(w.ctx, w.node)
  assert.match(notes[0] ?? '', /systemctl stop chromebox@muse\.service: Failed to connect to bus/)
  assert.equal(notes[1], `ended pid ${s.pid} outside the unit`)
})
