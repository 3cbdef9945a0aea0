import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import * as errors from '../../lib/base/errors.ts'

const { ConfigError, errorLine, exitCodeOf, LockedError, NetvmError, RootError, UsageError } = errors

const CODES: [string, Error, number][] = [
  ['NetvmError', new NetvmError('x'), 1],
  ['NetvmError with a code', new NetvmError('x', { exitCode: 2 }), 2],
  ['UsageError', new UsageError('x'), 64],
  ['LockedError', new LockedError('x'), 75],
  ['RootError', new RootError('x'), 77],
  ['ConfigError', new ConfigError('x'), 78],
  ['a defect of ours is unknown', new TypeError('x'), 2],
]
for (const [what, err, code] of CODES) {
  test(`exit code: ${what}`, () => assert.equal(exitCodeOf(err), code))
}

test('the line carries the next command', () => {
  const err = new UsageError('no node "x"', 'netvm-names x')
  assert.equal(errorLine(err), 'no node "x"; next: netvm-names x')
  assert.equal(errorLine(new ConfigError('bad')), 'bad')
})

test('the line is one line, also for hostile text and defects', () => {
  assert.equal(errorLine(new NetvmError('a\n\u001b[31mb')), 'a b')
  const defect = errorLine(new TypeError('boom'))
  assert.match(defect, /^internal error: TypeError: boom at .*errors\.test\.ts/)
  assert.equal(errorLine('text'), 'internal error: text')
})

test('errors keep their class name, cause and holder', () => {
  const cause = new Error('why')
  assert.equal(new ConfigError('x', undefined, cause).cause, cause)
  assert.equal(new LockedError('x', { pid: 7 }).holder?.pid, 7)
  assert.equal(new UsageError('x').name, 'UsageError')
})

test('reportAndExit: one line on stderr, nothing on stdout, the exit code', () => {
  const url = new URL('../../lib/base/errors.ts', import.meta.url)
  const code = `import { reportAndExit, RootError } from ${JSON.stringify(url.href)}
    reportAndExit(new RootError('needs root', 'sudo x'), 'prog')`
  const r = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    encoding: 'utf8',
  })
  assert.equal(r.stderr, 'prog: needs root; next: sudo x\n')
  assert.equal(r.stdout, '')
  assert.equal(r.status, 77)
})
