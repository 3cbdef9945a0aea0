import assert from 'node:assert/strict'
import { chmodSync, closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { now } from '../../lib/base/clock.ts'
import { errorLine } from '../../lib/base/errors.ts'
import { tryFlock, waitFlock } from '../../lib/store/flock.ts'
import { isStopped, lookAtProcess, ownName } from '../../lib/store/process-name.ts'
import { tempPaths } from '../kit/temp.ts'
import { patience } from '../kit/unit.ts'

/** Opens the same file as often as asked: a lock belongs to the open file, so each can hold it or not. */
function opened(t: TestContext): { open: () => number; path: string } {
  const p = tempPaths(t)
  mkdirSync(p.locks, { recursive: true })
  const path = `${p.locks}/x.lock`
  const fds: number[] = []
  t.after(() => {
    for (const fd of fds) closeSync(fd)
  })
  const open = () => {
    const fd = openSync(path, 'a+')
    fds.push(fd)
    return fd
  }
  return { open, path }
}

test('a lock is for one, a shared one for several', (t) => {
  const { open } = opened(t)
  const [a, b] = [open(), open()]
  assert.equal(tryFlock(a, 'shared'), true)
  assert.equal(tryFlock(b, 'shared'), true)
  assert.equal(tryFlock(open()), false)
})

test('a wait that blocks this process lasts as long as asked, and no error ends it', (t) => {
  const { open } = opened(t)
  assert.equal(tryFlock(open()), true)
  const began = performance.now()
  assert.equal(tryFlock(open(), 'exclusive', 200), false)
  assert.ok(performance.now() - began >= 190)
})

test('a wait gets the lock when it comes free, and none when it is cancelled', async (t) => {
  const { open, path } = opened(t)
  const holder = openSync(path, 'a+')
  assert.equal(tryFlock(holder), true)
  const cancelled = waitFlock(open(), 'exclusive', patience(60_000))
  cancelled.cancel()
  assert.equal(await cancelled.locked, false)
  const wait = waitFlock(open(), 'exclusive', patience(60_000))
  closeSync(holder)
  assert.equal(await wait.locked, true)
  assert.equal(tryFlock(open()), false)
})

test('a flock(1) that fails names the file, and one that is not there its package', (t) => {
  const { open, path } = opened(t)
  const before = process.env.PATH
  t.after(() => {
    process.env.PATH = before
  })
  process.env.PATH = path.replace(/\/x\.lock$/, '')
  assert.throws(
    () => tryFlock(open()),
    (err) => {
      assert.match(errorLine(err), /program flock is not installed; next: apt-get install util-linux$/)
      return true
    },
  )
  const flock = path.replace(/x\.lock$/, 'flock')
  writeFileSync(flock, '#!/bin/sh\nexit 64\n')
  chmodSync(flock, 0o755)
  assert.throws(() => tryFlock(open()), { message: `cannot lock ${path}: flock(1) exit 64`, exitCode: 2 })
})

test('a process is known again by its name, and is gone when any part of that differs', (t) => {
  const p = tempPaths(t)
  const own = ownName(p)
  const { bootId } = now(p)
  const live = lookAtProcess(p, own, bootId)
  assert.ok(typeof live === 'object' && !isStopped(live))
  assert.equal(lookAtProcess(p, own, 'other'), 'gone')
  assert.equal(lookAtProcess(p, { ...own, startTicks: own.startTicks + 1 }, bootId), 'gone')
  assert.equal(lookAtProcess(p, { ...own, pidNs: 'pid:[1]' }, bootId), 'elsewhere')
  assert.equal(isStopped({ ...live, state: 't' }), true)
  assert.equal(isStopped(undefined), false)
})
