import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { LockedError } from '../../lib/base/errors.ts'
import { type RelaunchOptions, relaunchBrowser, relaunchNeedsMs } from '../../lib/browser/relaunch.ts'
import { text } from '../../lib/report/codes.ts'
import { withLock } from '../../lib/store/lock.ts'
import { type World, world } from '../kit/browser-host.ts'
import { ENDED, jobs, oldBrowser, relaunch } from '../kit/browser-relaunch.ts'
import { saying, says } from '../kit/says.ts'

test('the guard: a browser younger than the setting is left alone, and nothing is asked', async (t) => {
  const w = await world(t)
  const pid = await w.host.browser({ title: 'News' })
  let begun = false
  const got = await relaunch(w, {
    begin: () => {
      begun = true
      return undefined
    },
  })
  assert.equal(got.did, 'nothing')
  assert.match(got.did === 'nothing' ? got.why : '', /^skip kill: launched \d+s ago$/)
  assert.deepEqual(w.host.calls(), [])
  assert.equal(begun, false, 'an attempt that is not made is not recorded')
  process.kill(pid, 0)
})

test('too little time left for stop and verification: the next run does it', async (t) => {
  const w = await world(t)
  const pid = await oldBrowser(w, { title: 'News' })
  const need = relaunchNeedsMs(w.ctx.config, true)
  const got = await relaunch(w, {}, need - 1)
  assert.match(got.did === 'nothing' ? got.why : '', /^too little time left in this run/)
  assert.deepEqual(jobs(w), [])
  process.kill(pid, 0)
})

test('a dead browser needs no time to stop', async (t) => {
  const w = await world(t)
  assert.ok(relaunchNeedsMs(w.ctx.config, false) < relaunchNeedsMs(w.ctx.config, true))
  w.host.onStart({})
  const got = await relaunch(w, {}, relaunchNeedsMs(w.ctx.config, true) - 1)
  assert.equal(got.did, 'ok')
})

test('verification never takes longer than a minute, whatever the settings ask for', async (t) => {
  const w = await world(t, { NETVM_RELAUNCH_CHECKS: 10, NETVM_RELAUNCH_INTERVAL: 60 })
  assert.ok(relaunchNeedsMs(w.ctx.config, false) <= 62_000)
})

test('begin refuses: nothing is touched, and its words are told', async (t) => {
  const w = await world(t)
  const pid = await oldBrowser(w, { title: 'News' })
  const alive: boolean[] = []
  const got = await relaunch(w, {
    begin: (ended, lives) => {
      alive.push(lives)
      assert.deepEqual(ended, { how: 'unknown', detail: 'it was running' })
      return 'the disk is full'
    },
  })
  assert.equal(got.did === 'nothing' ? got.why : '', 'the disk is full')
  assert.deepEqual(alive, [true])
  assert.deepEqual(jobs(w), [])
  process.kill(pid, 0)
})

test('a unit that is starting, without a process yet: joined and not stopped', async (t) => {
  const w = await world(t)
  w.host.onStart({})
  const ended = { how: 'clean', detail: 'exit code 0', status: 0 } as const
  const got = await relaunch(w, { unit: { load: 'loaded', active: 'activating', mainPid: 0, ended } })
  assert.equal(got.did, 'ok')
  assert.deepEqual(jobs(w), ['start'])
})

test('a dead browser: begin hears how it ended, before the start, and it is not stopped first', async (t) => {
  const w = await world(t)
  w.host.write('ended', ENDED(5))
  w.host.onStart({})
  let before: string[] | undefined
  const got = await relaunch(w, {
    begin: (ended, alive) => {
      assert.deepEqual(ended, { how: 'exit-code', detail: 'exit code 5', status: 5 })
      assert.equal(alive, false)
      before = jobs(w)
      return undefined
    },
  })
  assert.equal(got.did, 'ok')
  assert.deepEqual(before, [])
  assert.deepEqual(jobs(w), ['start'])
  if (got.did !== 'ok') return
  assert.equal(got.reason, '')
  assert.equal(got.judgement.verdict.state, 'healthy')
  assert.equal(got.ended.status, 5)
  assert.ok(got.durationMs > 0)
})

test('a living one is stopped, started and found well', async (t) => {
  const w = await world(t)
  const pid = await oldBrowser(w, { mode: 'silent' })
  w.host.onStart({})
  const got = await relaunch(w)
  assert.equal(got.did, 'ok')
  assert.deepEqual(jobs(w), ['stop', 'start'])
  assert.notEqual(got.judgement.process?.pid, pid)
})

test('a unit that runs without a browser of the profile is stopped first: a start would do nothing', async (t) => {
  const w = await world(t)
  w.host.onStart({})
  const unit = {
    load: 'loaded',
    active: 'active',
    mainPid: 9,
    ended: { how: 'unknown', detail: 'still running' },
  } as const
  const got = await relaunch(w, { unit })
  assert.equal(got.did, 'ok')
  assert.deepEqual(jobs(w), ['stop', 'start'])
  assert.deepEqual(got.did === 'ok' ? got.ended : undefined, { how: 'unknown', detail: 'it was running' })
})

test('a living one whose unit is masked is not stopped: nothing could start it again', async (t) => {
  const w = await world(t)
  const pid = await oldBrowser(w, { mode: 'silent' })
  const ended = { how: 'unknown', detail: 'still running' } as const
  const got = await relaunch(w, { unit: { load: 'masked', active: 'active', mainPid: pid, ended } })
  assert.equal(got.did, 'failed')
  const reason = got.did === 'failed' ? got.reason : ''
  assert.match(reason, /^chromebox@muse\.service is masked, so nothing was stopped/)
  assert.deepEqual(jobs(w), [])
  process.kill(pid, 0)
})

test('the unit that the caller asked already is not asked again before the start', async (t) => {
  const w = await world(t)
  w.host.onStart({})
  let shows = -1
  await relaunch(w, {
    unit: {
      load: 'loaded',
      active: 'failed',
      mainPid: 0,
      ended: { how: 'clean', detail: 'exit code 0', status: 0 },
    },
    begin: () => {
      shows = w.host.calls().filter((c) => c.startsWith('systemctl show')).length
      return undefined
    },
  })
  assert.equal(shows, 0)
})

test('processes that cannot be seen: nothing is done', async (t) => {
  const w = await world(t)
  rmSync(join(w.ctx.p.proc, 'self'))
  const got = await relaunch(w)
  assert.match(got.did === 'nothing' ? got.why : '', saying('process-unseen'))
  assert.deepEqual(w.host.calls(), [])
})

test('a start that systemd refuses is a failed attempt with its words', async (t) => {
  const w = await world(t)
  const systemctl = w.host.read('bin/systemctl').replace('#!/bin/bash\n', '')
  w.host.program(
    'bin/systemctl',
    `case "$*" in *start*) echo "Unit chromebox@muse.service is masked." >&2; exit 1;; esac\n${systemctl}`,
  )
  const got = await relaunch(w)
  assert.equal(got.did, 'failed')
  assert.match(
    got.did === 'failed' ? got.reason : '',
    /systemctl start chromebox@muse\.service: Unit .* is masked/,
  )
})

test('one that dies at once: the reason, how it ended and what it said', async (t) => {
  const w = await world(t)
  w.host.write('ended', ENDED(1))
  w.host.write('printed', 'cannot open display\n')
  w.host.onStart({ mode: 'dies' })
  const got = await relaunch(w)
  assert.equal(
    got.did === 'failed' ? got.reason : '',
    `${text('no-process')} (it ended: exit code 1; it said: cannot open display)`,
  )
})

test('a squatter on the port: the attempt fails by its name, and it lives', async (t) => {
  const w = await world(t, { NETVM_RELAUNCH_INTERVAL: 0.5 })
  const squatter = await w.host.browser()
  rmSync(join(w.ctx.p.proc, String(squatter)))
  rmSync(join(w.host.dir, 'main.pid'))
  t.after(() => process.kill(squatter, 'SIGKILL'))
  w.host.onStart({ mode: 'deaf' })
  const got = await relaunch(w)
  assert.match(got.did === 'failed' ? got.reason : '', new RegExp(`^${says('port-squatted')} \\(Fake/1`))
  process.kill(squatter, 0)
})

const actuate = (t: TestContext, w: World, opts: Partial<RelaunchOptions>) => {
  t.diagnostic(w.host.dir)
  return relaunchBrowser(w.ctx, w.node, { why: 'a test', lockWaitMs: 300, ...opts })
}

test('stillNeeded is asked under the lock with a fresh look, and can call it off', async (t) => {
  const w = await world(t)
  await oldBrowser(w, {})
  w.host.calls()
  const got = await actuate(t, w, { stillNeeded: (j) => `it is ${j.verdict.state} by now` })
  assert.equal(got.did === 'nothing' ? got.why : '', 'it is healthy by now')
  assert.deepEqual(jobs(w), [])
})

test('another run has the node: LockedError names the lock, nothing is touched', async (t) => {
  const w = await world(t)
  await withLock(w.ctx.p, 'node-muse', 'a long relaunch', { waitMs: 1000 }, async () => {
    await assert.rejects(actuate(t, w, {}), (err: unknown) => {
      assert.ok(err instanceof LockedError)
      assert.match(err.message, /the lock node-muse, held by /)
      return true
    })
  })
  assert.deepEqual(w.host.calls(), [])
})

test('the actuator from its lock to the healthy look', async (t) => {
  const w = await world(t)
  w.host.onStart({})
  writeFileSync(join(w.host.dir, 'ended'), ENDED(3))
  const got = await actuate(t, w, { program: 'agent-health', stillNeeded: () => undefined })
  assert.equal(got.did, 'ok')
  assert.deepEqual(jobs(w), ['start'])
})

const STARTS = (program: string): string =>
  `ExecStart={ path=${program} ; argv[]=${program} --headless=new ; }\n`
/** The unit as systemctl shows it, with more properties. */
function shows(w: World, more: string): void {
  const systemctl = w.host.read('bin/systemctl').replace('#!/bin/bash\n', '')
  w.host.program(
    'bin/systemctl',
    `case "$*" in *show*) printf '${more.replaceAll('\n', '\\n')}';; esac\n${systemctl}`,
  )
}

test('case 57: a living one whose program is gone is not stopped', async (t) => {
  const w = await world(t)
  const pid = await oldBrowser(w, { mode: 'silent' })
  shows(w, STARTS(join(w.host.dir, 'chromium')))
  let begun = false
  const got = await relaunch(w, {
    begin: () => {
      begun = true
      return undefined
    },
  })
  assert.deepEqual([got.did, begun, jobs(w)], ['nothing', false, []])
  assert.equal(got.did === 'nothing' ? got.why : '', `not relaunched: ${w.host.dir}/chromium is missing`)
  process.kill(pid, 0)
})

test('case 57: after a stop, a start that is refused does not leave the stopped process as healthy', async (t) => {
  const w = await world(t)
  await oldBrowser(w, { title: 'News' })
  const systemctl = w.host.read('bin/systemctl').replace('#!/bin/bash\n', '')
  w.host.program('bin/systemctl', `case "$*" in *start*) echo "no" >&2; exit 1;; esac\n${systemctl}`)
  const got = await relaunch(w)
  assert.equal(got.did, 'failed')
  assert.equal(got.judgement.process, undefined)
  assert.equal(got.judgement.verdict.code, 'no-process')
})
