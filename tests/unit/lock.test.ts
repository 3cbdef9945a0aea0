import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { LockedError, RootError } from '../../lib/base/errors.ts'
import type { Paths } from '../../lib/base/paths.ts'
import { run } from '../../lib/host/exec.ts'
import { besideLock, type Holder, heldBy, holder, tryLock, withLock } from '../../lib/store/lock.ts'
import { tempPaths } from '../kit/temp.ts'
import { patience } from '../kit/unit.ts'
import { until } from '../kit/until.ts'

/** A test that only a kept deadline ends: the other holder never lets go. */
const ENDS = { timeout: patience(60_000) }

const now0 = { waitMs: 0 }

/** A process that takes the lock and keeps it; with a child of its own that outlives it. */
async function holdElsewhere(t: TestContext, p: Paths, name = 'node-muse'): Promise<ChildProcess> {
  const url = new URL('../../lib/store/lock.ts', import.meta.url).href
  const code = `import { withLock } from ${JSON.stringify(url)}
    import { spawn } from 'node:child_process'
    await withLock(${JSON.stringify(p)}, ${JSON.stringify(name)}, 'relaunching the browser', { waitMs: 0 }, () => {
      const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' })
      console.log(child.pid)
      return new Promise(() => setInterval(() => {}, 1000))
    })`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  assert.ok(child.stdout)
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  const orphan = Number(said.toString())
  t.after(() => {
    child.kill('SIGKILL')
    process.kill(orphan, 'SIGKILL')
  })
  return child
}

const locked = (p: Paths, waitMs = 0) => withLock(p, 'node-muse', 'x', { waitMs }, () => 'ran')

test('withLock: runs, returns, releases; also after an error', async (t) => {
  const p = tempPaths(t)
  assert.equal(await locked(p), 'ran')
  await assert.rejects(
    withLock(p, 'node-muse', 'x', now0, () => Promise.reject(new Error('inner'))),
    /inner/,
  )
  assert.equal(await locked(p), 'ran')
  assert.deepEqual(holder(p, 'node-muse'), { seen: true, value: undefined })
  assert.equal(readFileSync(`${p.locks}/node-muse.lock`, 'utf8'), '')
  assert.equal(statSync(`${p.locks}/node-muse.lock`).mode & 0o777, 0o600)
})

test('withLock: the holder is named, with its age and its work; other locks are free', async (t) => {
  const p = tempPaths(t)
  const child = await holdElsewhere(t, p)
  await assert.rejects(locked(p), (e: LockedError<Holder>) => {
    assert.ok(e instanceof LockedError)
    assert.equal(e.exitCode, 75)
    assert.equal(e.holder?.pid, child.pid)
    const expected = `^the lock node-muse, held by .* \\(pid ${child.pid}\\) since \\d{4}-.*Z \\(\\d.*s\\): relaunching the browser$`
    assert.match(e.message, new RegExp(expected))
    return true
  })
  assert.equal(await tryLock(p, 'node-muse', 'x'), undefined)
  assert.equal(await withLock(p, 'node-pip', 'x', now0, () => 'ran'), 'ran')
})

test('a holder that dies by SIGKILL frees the lock, though its children live on', async (t) => {
  const p = tempPaths(t)
  const child = await holdElsewhere(t, p)
  const waiting = locked(p, patience(20_000))
  child.kill('SIGKILL')
  assert.equal(await waiting, 'ran')
  assert.deepEqual(holder(p, 'node-muse'), { seen: true, value: undefined })
})

test('a dead holder’s record names nobody', async (t) => {
  const p = tempPaths(t)
  const child = await holdElsewhere(t, p)
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.notEqual(readFileSync(`${p.locks}/node-muse.lock`, 'utf8'), '')
  assert.deepEqual(holder(p, 'node-muse'), { seen: true, value: undefined })
})

test('a stopped holder keeps the lock, and is called stopped', async (t) => {
  const p = tempPaths(t)
  const child = await holdElsewhere(t, p)
  child.kill('SIGSTOP')
  const stopped = () => {
    const look = holder(p, 'node-muse')
    return look.seen && look.value?.stopped === true
  }
  await until('it is seen as stopped', stopped)
  await assert.rejects(locked(p), /pid \d+, STOPPED: it will not finish until it is continued\)/)
})

test('withLock: waits as long as told, says so once, then gives up', ENDS, async (t) => {
  const p = tempPaths(t)
  await holdElsewhere(t, p)
  const said: string[] = []
  const started = performance.now()
  const opts = { waitMs: 300, onWait: (m: string) => said.push(m) }
  await assert.rejects(
    withLock(p, 'node-muse', 'x', opts, () => 1),
    LockedError,
  )
  const took = performance.now() - started
  assert.ok(took >= 290, `took ${took} ms`)
  assert.match(said.join('\n'), /^waiting for the lock node-muse, held by [^\n]*relaunching the browser$/)
})

test('two in one process exclude each other', async (t) => {
  const p = tempPaths(t)
  let inside = 0
  const work = () =>
    withLock(p, 'fleet', 'x', { waitMs: patience(10_000) }, async () => {
      assert.equal(++inside, 1)
      await new Promise((r) => setImmediate(r))
      inside--
    })
  await Promise.all([work(), work(), work()])
})

test('no child of the holder has the lock file open', async (t) => {
  const p = tempPaths(t)
  await withLock(p, 'node-muse', 'x', now0, async () => {
    const r = await run(['sh', '-c', 'ls -l /proc/self/fd'])
    assert.match(r.stdout, /->/)
    assert.doesNotMatch(r.stdout, /node-muse\.lock/)
  })
})

test('tryLock: release twice is once', async (t) => {
  const p = tempPaths(t)
  const held = await tryLock(p, 'fleet', 'x')
  assert.ok(held)
  assert.equal(await tryLock(p, 'fleet', 'y'), undefined)
  held.release()
  const next = await tryLock(p, 'fleet', 'z')
  assert.ok(next)
  held.release()
  assert.equal(await tryLock(p, 'fleet', 'y'), undefined, 'the second release let go of another’s lock')
  next.release()
})

const RECORDS: [string, string][] = [
  ['empty', ''],
  ['torn', '{"pid":1'],
  ['of another shape', '{"pid":"1","since":{}}'],
  ['null', 'null'],
]
for (const [what, text] of RECORDS) {
  test(`a record that is ${what} names nobody, and the lock still works`, async (t) => {
    const p = tempPaths(t)
    mkdirSync(p.locks, { recursive: true })
    writeFileSync(`${p.locks}/node-muse.lock`, text)
    assert.deepEqual(holder(p, 'node-muse'), { seen: true, value: undefined })
    assert.match(heldBy(p, 'node-muse'), /held by a process that left no name/)
    assert.equal(await locked(p), 'ran')
  })
}

test('a record with a reused pid, of another boot, or of another PID namespace is not believed', async (t) => {
  const p = tempPaths(t)
  await withLock(p, 'node-muse', 'x', now0, () => {
    const file = `${p.locks}/node-muse.lock`
    const record = JSON.parse(readFileSync(file, 'utf8'))
    const look = (change: object) => {
      writeFileSync(file, JSON.stringify({ ...record, ...change }))
      return holder(p, 'node-muse')
    }
    const own = look({})
    assert.equal(own.seen && own.value?.pid, process.pid)
    assert.deepEqual(look({ startTicks: record.startTicks + 1 }), { seen: true, value: undefined })
    assert.deepEqual(look({ since: { ...record.since, bootId: 'other' } }), { seen: true, value: undefined })
    assert.equal(look({ pidNs: 'pid:[1]' }).seen, false)
  })
})

test('no permission is told as such, to the holder’s look too', async (t) => {
  const p = tempPaths(t)
  if (process.geteuid?.() === 0) {
    await assert.rejects(
      locked({ ...p, locks: '/dev/null/nowhere' }),
      /\/dev\/null is no directory, and one is needed there/,
    )
    return
  }
  await assert.rejects(locked({ ...p, locks: '/root/nowhere' }), RootError)
  assert.equal(holder({ ...p, locks: '/root/nowhere' }, 'fleet').seen, false)
})

test('besideLock: excludes while it can, and runs without the lock otherwise', async (t) => {
  const p = tempPaths(t)
  await holdElsewhere(t, p)
  const started = performance.now()
  assert.equal(
    besideLock(p, 'node-muse', 200, () => 'ran'),
    'ran',
  )
  assert.ok(performance.now() - started >= 190)
  assert.equal(
    besideLock({ ...p, locks: '/dev/null/nowhere' }, 'x', 200, () => 'ran'),
    'ran',
  )
  besideLock(p, 'free', 200, () => assert.ok(existsSync(`${p.locks}/free.lock`)))
})
