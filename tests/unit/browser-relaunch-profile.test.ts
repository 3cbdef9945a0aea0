import assert from 'node:assert/strict'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { profileDir } from '../../lib/base/paths.ts'
import { type World, world } from '../kit/browser-host.ts'
import { ENDED, jobs, relaunch } from '../kit/browser-relaunch.ts'

const locked = (w: World): void =>
  symlinkSync('another-host-1', join(profileDir(w.ctx.p, 'muse'), 'SingletonLock'))

test('exit 21 without a lock to mend: one start, and it says that it left the links alone', async (t) => {
  const w = await world(t)
  w.host.write('ended', ENDED(21))
  w.host.onStart({ none: true })
  const got = await relaunch(w)
  assert.equal(got.did, 'failed')
  assert.deepEqual(jobs(w), ['start'])
  assert.match(
    got.did === 'failed' ? got.notes.join() : '',
    /Singleton links left alone: there was no Singleton link to remove/,
  )
})

test('exit 21 with one: mended, started a second time, and no third', async (t) => {
  const w = await world(t)
  locked(w)
  w.host.write('ended', ENDED(21))
  w.host.onStart({ none: true })
  const got = await relaunch(w)
  assert.equal(got.did, 'failed')
  assert.deepEqual(jobs(w), ['start', 'start'])
  assert.match(
    got.did === 'failed' ? got.notes.join() : '',
    /removed 1 Singleton links \(lock of another-host-1\)/,
  )
})

test('another exit code leaves the lock where it is', async (t) => {
  const w = await world(t)
  locked(w)
  w.host.write('ended', ENDED(1))
  w.host.onStart({ none: true })
  const got = await relaunch(w)
  assert.deepEqual(jobs(w), ['start'])
  assert.deepEqual(got.did === 'failed' ? got.notes : undefined, [])
})

test('a profile that Chromium reset meanwhile is told beside the success', async (t) => {
  const w = await world(t)
  w.host.onStart({})
  const start = w.host.read('start').replace('#!/bin/bash\n', '')
  const dir = join(profileDir(w.ctx.p, 'muse'), 'Default')
  w.host.program('start', `mkdir -p "${dir}"; echo "{" > "${dir}/Preferences.bad"\n${start}`)
  const got = await relaunch(w)
  assert.equal(got.did, 'ok')
  assert.match(got.did === 'ok' ? got.notes.join() : '', /^Chromium reset the profile/)
})

test('case 58: exit 21: the line that names the error is quoted, and not the advice after it', async (t) => {
  const w = await world(t)
  w.host.write('ended', ENDED(21))
  w.host.write(
    'printed',
    `[9:9:ERROR:process_singleton_posix.cc(340)] Failed to create ${w.host.dir}/SingletonLock: Read-only file system (30)
[9:9:ERROR:chrome_main_delegate.cc(560)] Failed to create a ProcessSingleton for your profile directory. Aborting now to avoid profile corruption.
`,
  )
  w.host.onStart({ none: true })
  const got = await relaunch(w)
  assert.match(got.did === 'failed' ? got.reason : '', /it said: .*Read-only file system \(30\)/)
  assert.deepEqual(got.did === 'failed' ? got.died?.status : undefined, 21)
})
