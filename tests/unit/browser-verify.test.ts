import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { deadlineIn } from '../../lib/base/deadline.ts'
import { profileDir } from '../../lib/base/paths.ts'
import { browserUnit, lastWords, profileReset, verifyBrowser } from '../../lib/browser/verify.ts'
import { type World, world } from '../kit/browser-host.ts'
import { patience, scaled } from '../kit/unit.ts'

const ENDED = 'Result=exit-code\nExecMainCode=1\nExecMainStatus=21\nExecMainExitTimestampMonotonic=5\n'
const verify = (w: World, ms: number) => verifyBrowser(w.ctx, w.node, deadlineIn(ms))

/** Starts a browser as the unit would and does not wait for it. */
async function start(w: World, how: Parameters<World['host']['onStart']>[0]): Promise<number> {
  w.host.onStart(how)
  await once(spawn(join(w.host.dir, 'start'), { env: w.host.env(), stdio: 'ignore' }), 'exit')
  return Number(w.host.read('main.pid'))
}

const unreachable = { state: 'unhealthy', code: 'cdp-unreachable' }
const verdict = (got: Awaited<ReturnType<typeof verify>>) => {
  const { state, code } = got.judgement.verdict
  return { state, code }
}

test('a browser that comes up is healthy, by its own listener', async (t) => {
  const w = await world(t)
  const pid = await start(w, {})
  const got = await verify(w, patience(10_000))
  assert.equal(got.ok, true)
  assert.equal(got.judgement.process?.pid, pid)
})

test('before it listens nobody is asked: an answer could only be somebody else’s', async (t) => {
  const w = await world(t)
  await start(w, { mode: 'deaf' })
  w.host.calls()
  const got = await verify(w, 600)
  assert.deepEqual(verdict(got), unreachable)
  assert.equal(got.ok, false)
  // The one question is that of the last look, when the time is over.
  assert.deepEqual(
    w.host.calls().filter((c) => c.startsWith('ip')),
    ['ip curl'],
  )
})

test('one that answers and has no page yet is asked quickly, then slowly', async (t) => {
  const w = await world(t)
  await w.host.browser({ title: 'Loading' })
  const timer = t.mock.method(globalThis, 'setTimeout')
  const got = await verify(w, scaled(4000))
  assert.deepEqual(verdict(got), { state: 'unhealthy', code: 'page-missing' })
  // What was asked for, and not what a busy machine made of it. Deadlines and graces are longer.
  const waits = timer.mock.calls.map((call) => Number(call.arguments[1])).filter((ms) => ms < 250)
  assert.deepEqual([waits[0], waits.at(-1)], [60, 200])
  assert.deepEqual(
    waits,
    waits.toSorted((a, b) => a - b),
    'never quicker again',
  )
})

test('a page that gets its title later makes it healthy before the time is over', async (t) => {
  const w = await world(t)
  await start(w, { mode: 'late' })
  const left = deadlineIn(patience(20_000))
  const got = await verifyBrowser(w.ctx, w.node, left)
  assert.equal(got.ok, true)
  assert.ok(left.leftMs() > 0)
})

test('one that ends is told at once, with how it ended', async (t) => {
  const w = await world(t)
  w.host.write('ended', ENDED)
  await start(w, { title: 'Loading', mode: 'ends' })
  const left = deadlineIn(patience(60_000))
  const got = await verifyBrowser(w.ctx, w.node, left)
  assert.equal(got.ok, false)
  assert.deepEqual(verdict(got), { state: 'unhealthy', code: 'no-process' })
  assert.deepEqual(got.ok ? undefined : got.ended, { how: 'exit-code', detail: 'exit code 21', status: 21 })
  assert.ok(left.leftMs() > 0, 'it did not wait for the whole time')
})

test('one that was gone before systemctl start returned', async (t) => {
  const w = await world(t)
  w.host.write('ended', ENDED)
  const got = await verify(w, patience(60_000))
  assert.equal(got.ok ? 0 : got.ended?.status, 21)
})

test('its pid with other start ticks is another process: it is gone', async (t) => {
  const w = await world(t)
  const pid = 4_190_000
  const dir = join(w.ctx.p.proc, String(pid))
  mkdirSync(dir)
  let ticks = 1000
  const stat = (): void =>
    writeFileSync(join(dir, 'stat'), `${pid} (chromium) S 1 ${'0 '.repeat(17).trim()} ${ticks++} 0 0\n`)
  stat()
  const timer = setInterval(stat, 10)
  t.after(() => clearInterval(timer))
  const said = `Id=u\\nActiveState=%s\\nMainPID=%s\\nResult=signal\\nExecMainCode=2\\nExecMainStatus=9\\nExecMainExitTimestampMonotonic=5\\n`
  // Alive at the first question, failed at each that follows.
  w.host.program(
    'bin/systemctl',
    `if [ -e "$HOST/asked" ]; then printf '${said}' failed 0; else touch "$HOST/asked"; printf '${said}' active ${pid}; fi`,
  )
  const got = await verify(w, patience(60_000))
  assert.equal(got.ok ? '' : got.ended?.detail, 'signal KILL')
})

test('a process that hands over to another of the profile is no end', async (t) => {
  const w = await world(t)
  await w.host.browser()
  // What the unit started is gone; the browser of the profile is another process.
  w.host.program('bin/systemctl', `printf 'Id=u\\nActiveState=failed\\nMainPID=0\\n'`)
  assert.equal((await verify(w, patience(5000))).ok, true)
})

test('the unit cannot be seen: the whole look decides, and no end is claimed', async (t) => {
  const w = await world(t)
  w.host.program('bin/systemctl', 'exit 1')
  assert.equal(await browserUnit('muse'), undefined)
  const dead = await verify(w, patience(5000))
  assert.deepEqual(verdict(dead), { state: 'unhealthy', code: 'no-process' })
  assert.equal('ended' in dead, false)
  await w.host.browser()
  assert.equal((await verify(w, patience(5000))).ok, true)
})

test('the port is somebody else’s: told as squatted, by a whole look', async (t) => {
  const w = await world(t)
  const squatter = await w.host.browser()
  rmSync(join(w.ctx.p.proc, String(squatter)))
  t.after(() => process.kill(squatter, 'SIGKILL'))
  await start(w, { mode: 'deaf' })
  const got = await verify(w, 600)
  assert.deepEqual(verdict(got), { state: 'unhealthy', code: 'port-squatted' })
  process.kill(squatter, 0)
})

test('a frozen browser uses up the time and is unreachable', async (t) => {
  const w = await world(t)
  await w.host.browser({ mode: 'silent' })
  const got = await verify(w, 700)
  assert.equal(got.ok, false)
  assert.deepEqual(verdict(got), unreachable)
})

test('last words: the last line, without D-Bus complaints and empty lines', async (t) => {
  const w = await world(t)
  const said = (text: string): void => w.host.write('printed', text)
  said('first\n\u001b[31mlast\n[1:2:ERROR:dbus/bus.cc(408)] no bus\n  \n')
  assert.match(await lastWords('muse', 5_000_000), /^\S*last$/)
  said('[1:2:ERROR:dbus/bus.cc(408)] no bus\n')
  assert.equal(await lastWords('muse', 5_000_000), '')
  w.host.program('bin/journalctl', 'echo words; exit 1')
  assert.equal(await lastWords('muse', 5_000_000), '')
})

test('last words are those since the start, of what the browser itself printed', async (t) => {
  const w = await world(t)
  w.host.program('bin/journalctl', 'printf "%s\\n" "$@" > "$HOST/argv"')
  await lastWords('muse', 5_000_999)
  const argv = w.host.read('argv').split('\n')
  for (const word of ['--since=@5000', '--unit=chromebox@muse.service', '_TRANSPORT=stdout'])
    assert.ok(argv.includes(word), `${word} in ${argv}`)
})

function preferences(t: TestContext, w: World): (at: Date) => void {
  const dir = join(profileDir(w.ctx.p, 'muse'), 'Default')
  mkdirSync(dir, { recursive: true })
  const bad = join(dir, 'Preferences.bad')
  writeFileSync(bad, '{')
  t.diagnostic(bad)
  return (at) => utimesSync(bad, at, at)
}

test('a profile that Chromium reset since the start is told; an older reset is not', async (t) => {
  const w = await world(t)
  const began = Date.now()
  assert.equal(profileReset(w.ctx, 'muse', began), undefined)
  const at = preferences(t, w)
  at(new Date(began + 1000))
  assert.match(profileReset(w.ctx, 'muse', began) ?? '', /Chromium reset the profile/)
  at(new Date(began - 60_000))
  assert.equal(profileReset(w.ctx, 'muse', began), undefined)
})

test('a profile that nobody may look into', async (t) => {
  const w = await world(t)
  symlinkSync('/nonexistent', join(profileDir(w.ctx.p, 'muse'), 'Default'))
  assert.equal(profileReset(w.ctx, 'muse', 0), undefined)
})
