import assert from 'node:assert/strict'
import { fstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { errnoOf, linkOf, namesIn, openNameless, textIfThere, textOf } from '../../lib/base/files.ts'
import { tempDir } from '../kit/temp.ts'

test('a file that is there, that is not, and that cannot be read', (t) => {
  const dir = tempDir(t)
  const file = join(dir, 'file')
  writeFileSync(file, 'text')
  mkdirSync(join(dir, 'sub'))
  for (const [path, text, throws] of [
    [file, 'text', false],
    [join(dir, 'none'), undefined, false],
    [join(file, 'below'), undefined, false],
    [join(dir, 'sub'), undefined, true],
  ] as const) {
    assert.equal(textOf(path), text)
    if (throws) assert.throws(() => textIfThere(path), { code: 'EISDIR' })
    else assert.equal(textIfThere(path), text)
  }
})

test('links and names; none where there is none', (t) => {
  const dir = tempDir(t)
  symlinkSync('net:[7]', join(dir, 'net'))
  assert.deepEqual(
    [linkOf(join(dir, 'net')), linkOf(dir), linkOf(join(dir, 'x'))],
    ['net:[7]', undefined, undefined],
  )
  assert.deepEqual([namesIn(dir), namesIn(join(dir, 'x'))], [['net'], []])
})

test('a file without a name: ours alone, and in no directory', (t) => {
  const dir = tempDir(t)
  const fd = openNameless(dir)
  writeSync(fd, 'secret')
  assert.equal(readFileSync(`/proc/self/fd/${fd}`, 'utf8'), 'secret')
  assert.deepEqual([fstatSync(fd).mode & 0o777, fstatSync(fd).nlink, namesIn(dir)], [0o600, 0, []])
})

test('an error of the system by its name, another one in words', () => {
  assert.equal(errnoOf(Object.assign(new Error('x'), { code: 'EACCES' })), 'EACCES')
  assert.equal(errnoOf(new Error('x')), 'Error: x')
})
