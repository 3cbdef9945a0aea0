import assert from 'node:assert/strict'
import { existsSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { profileDir } from '../../lib/base/paths.ts'
import { removeSingleton } from '../../lib/browser/singleton.ts'
import { type FakeProcess, fakeProc } from '../kit/fake-proc.ts'
import { tempPaths } from '../kit/temp.ts'

const NAMES = ['SingletonCookie', 'SingletonLock', 'SingletonSocket']

function profile(t: TestContext, processes: (dir: string) => readonly FakeProcess[] = () => []) {
  const table = fakeProc()
  t.after(table.remove)
  const p = tempPaths(t, { proc: table.proc })
  const dir = profileDir(p, 'muse')
  mkdirSync(dir, { recursive: true })
  for (const process of processes(dir)) table.add(process)
  return { p, dir, table, mend: () => removeSingleton(p, 'muse') }
}

const links = (dir: string): void => {
  symlinkSync('another-host-4711', join(dir, 'SingletonLock'))
  symlinkSync('1234567', join(dir, 'SingletonCookie'))
  // Dangling, as a socket below /tmp is after a reboot: gone for stat(2), there for lstat(2).
  symlinkSync('/tmp/.org.chromium.gone/SingletonSocket', join(dir, 'SingletonSocket'))
}

test('the three links go, and it says whose lock it was', (t) => {
  const { dir, mend } = profile(t)
  links(dir)
  writeFileSync(join(dir, 'Cookies'), 'kept')
  assert.deepEqual(mend(), { seen: true, value: 'removed 3 Singleton links (lock of another-host-4711)' })
  assert.deepEqual(readdirSync(dir), ['Cookies'])
  const again = mend()
  assert.match(again.seen ? '' : again.why, /there was no Singleton link to remove/)
})

test('the owner of the lock is told without what a terminal would obey', (t) => {
  const { dir, mend } = profile(t)
  symlinkSync(`\u001b[2Jhost\n-${'x'.repeat(200)}`, join(dir, 'SingletonLock'))
  const got = mend()
  assert.ok(got.seen)
  assert.doesNotMatch(got.value, /\p{Cc}/u)
  assert.ok(got.value.length < 160, got.value)
})

test('a lock of nobody: the others go all the same', (t) => {
  const { dir, mend } = profile(t)
  symlinkSync('1', join(dir, 'SingletonCookie'))
  assert.deepEqual(mend(), { seen: true, value: 'removed 1 Singleton links (lock of nobody)' })
})

test('plain files and folders of these names are somebody else’s and stay', (t) => {
  const { dir, mend } = profile(t)
  writeFileSync(join(dir, 'SingletonLock'), 'a file')
  mkdirSync(join(dir, 'SingletonSocket'))
  symlinkSync('1', join(dir, 'SingletonCookie'))
  assert.deepEqual(mend(), { seen: true, value: 'removed 1 Singleton links (lock of nobody)' })
  assert.deepEqual(readdirSync(dir), ['SingletonLock', 'SingletonSocket'])
})

test('a link is removed, never what it leads to', (t) => {
  const { dir, mend } = profile(t)
  const precious = join(dir, 'precious')
  writeFileSync(precious, 'kept')
  symlinkSync(precious, join(dir, 'SingletonLock'))
  assert.ok(mend().seen)
  assert.ok(lstatSync(precious).isFile())
})

test('a browser that lives owns its links', (t) => {
  const { dir, mend } = profile(t, (d) => [{ pid: 77, argv: ['/usr/lib/chromium', `--user-data-dir=${d}`] }])
  links(dir)
  assert.deepEqual(mend(), { seen: false, why: 'pid 77 owns the profile' })
  assert.deepEqual(readdirSync(dir), NAMES)
})

test('a zombie, a child and a browser of another profile own nothing', (t) => {
  const { dir, mend } = profile(t, (d) => [
    { pid: 77, argv: ['/usr/lib/chromium', `--user-data-dir=${d}`], state: 'Z' },
    { pid: 78, argv: ['/usr/lib/chromium', '--type=renderer', `--user-data-dir=${d}`] },
    { pid: 79, argv: ['/usr/lib/chromium', `--user-data-dir=${d}2`] },
  ])
  links(dir)
  assert.ok(mend().seen)
})

test('where processes cannot be seen, nothing is removed', (t) => {
  const table = fakeProc({ init: { pid: 1, argv: ['bash'], comm: 'bash' }, pidNs: 7 })
  t.after(table.remove)
  const p = tempPaths(t, { proc: table.proc })
  const dir = profileDir(p, 'muse')
  mkdirSync(dir, { recursive: true })
  links(dir)
  assert.equal(removeSingleton(p, 'muse').seen, false)
  assert.deepEqual(readdirSync(dir), NAMES)
})

test('a profile that is not there, and one that is no folder, are told', (t) => {
  const { p } = profile(t)
  const none = removeSingleton(p, 'pip')
  assert.match(none.seen ? '' : none.why, /there was no Singleton link/)
  writeFileSync(profileDir(p, 'opm'), 'a file')
  const file = removeSingleton(p, 'opm')
  assert.match(file.seen ? '' : file.why, /cannot remove .*SingletonLock: ENOTDIR/)
  assert.ok(existsSync(profileDir(p, 'opm')))
})
