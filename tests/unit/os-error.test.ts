import assert from 'node:assert/strict'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ConfigError, errorLine, exitCodeOf, UsageError } from '../../lib/base/errors.ts'
import { installCommand, osFault, shellWord } from '../../lib/base/os-error.ts'
import { writeState } from '../../lib/store/state.ts'
import { tempDir } from '../kit/temp.ts'

const errno = (code: string, syscall: string, path?: string) =>
  Object.assign(new Error(`${code}: words, ${syscall}`), { code, syscall, ...(path && { path }) })

const ROWS: readonly (readonly [Error, string, string])[] = [
  [
    errno('ENOSPC', 'write', '/nowhere/netvm/x.json.tmp-4711'),
    'cannot write /nowhere/netvm/x.json: no space is left on the file system (ENOSPC)',
    'df -h --output=target,avail,iavail /',
  ],
  [errno('ENOSPC', 'write'), 'cannot write: no space is left on the file system (ENOSPC)', 'df -h'],
  [
    errno('EROFS', 'open', '/nowhere/x'),
    'cannot open /nowhere/x: the file system is read-only (EROFS)',
    'findmnt -T /',
  ],
  [
    errno('EACCES', 'open', "/nowhere/a b'c"),
    "cannot open /nowhere/a b'c: permission denied (EACCES)",
    "namei -l '/nowhere/a b'\\''c'",
  ],
  [errno('EIO', 'read'), 'cannot read: the disk gave an error (EIO)', 'dmesg --level=err,crit,alert,emerg'],
  [errno('ENOENT', 'spawn nft', 'nft'), 'the program nft is not installed', 'apt-get install nftables'],
]
for (const [err, text, next] of ROWS) {
  test(`translated: ${err.message}`, () => {
    assert.deepEqual([osFault(err)?.text, osFault(err)?.next], [text, next])
    if (!/EACCES/.test(text)) assert.equal(errorLine(err), `${text}; next: ${next}`)
  })
}

test('what is no answer of the file system stays a defect, with its place', () => {
  for (const err of [new TypeError('boom'), errno('ECONNREFUSED', 'connect'), 'text', undefined])
    assert.match(errorLine(err), /^internal error: /)
})

test('a plain file where a directory should be: named, and moved out of the way by the command', (t: TestContext) => {
  const dir = tempDir(t)
  const file = join(dir, 'receipts')
  writeFileSync(file, '')
  const thrown = () => {
    try {
      writeState(join(file, 'a/b.json'), {})
    } catch (err) {
      return err
    }
    return undefined
  }
  assert.equal(
    errorLine(thrown()),
    `${file} is no directory, and one is needed there (ENOTDIR); next: mv ${file} ${file}.moved`,
  )
  assert.equal(exitCodeOf(thrown()), 2)
  // A device is nothing to move.
  assert.match(errorLine(errno('ENOTDIR', 'mkdir', '/dev/null/x')), /; next: ls -ld \/dev\/null$/)
})

test('a write to an open file that finds the disk full is told, though it names no file', () => {
  const fd = openSync('/dev/full', 'w')
  try {
    assert.throws(
      () => writeSync(fd, 'x'),
      (err) => errorLine(err) === 'cannot write: no space is left on the file system (ENOSPC); next: df -h',
    )
  } finally {
    closeSync(fd)
  }
})

test('the next command is never cut off, however long the message is', () => {
  const long = errorLine(new ConfigError('x y '.repeat(2000), 'editor /etc/netvm/netvm.env'))
  assert.ok(long.length <= 2000 && long.endsWith('…; next: editor /etc/netvm/netvm.env'), long.slice(-80))
  const typed = errorLine(new UsageError(`no "${'x'.repeat(5000)}" here`, 'box --help'))
  assert.ok(typed.length < 200 && typed.endsWith('here; next: box --help'), typed)
})

test('a mistake without a hint of its own leads to the help', () => {
  assert.equal(errorLine(new UsageError('bad'), 'box'), 'bad; next: box --help')
})

test('words of a command line', () => {
  assert.equal(shellWord('/etc/netvm/NODES.md'), '/etc/netvm/NODES.md')
  assert.equal(shellWord("it's $(id)"), "'it'\\''s $(id)'")
  assert.equal(shellWord(''), "''")
  assert.equal(installCommand('wg'), 'apt-get install wireguard-tools')
})
