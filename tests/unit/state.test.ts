import assert from 'node:assert/strict'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { type TestContext, test } from 'node:test'
import { NetvmError } from '../../lib/base/errors.ts'
import { readState, writeAtomic, writeState } from '../../lib/store/state.ts'
import { tempDir } from '../kit/temp.ts'

interface Memory {
  readonly held: boolean
  readonly failures: number
}

function parse(v: unknown): Memory {
  const m = v as Memory
  if (typeof m.held !== 'boolean' || typeof m.failures !== 'number') throw new Error('not a memory')
  return { held: m.held, failures: m.failures }
}
const cautious = (): Memory => ({ held: true, failures: 5 })
const fresh = (): Memory => ({ held: false, failures: 0 })
const read = (path: string) => readState(path, parse, cautious, fresh)

function place(t: TestContext): string {
  return `${tempDir(t)}/chromebox-watchdog/muse.json`
}

test('what is written is read back, in a versioned file that everybody may read', (t) => {
  const path = place(t)
  process.umask(0o077)
  t.after(() => process.umask(0o022))
  writeState(path, { held: false, failures: 2 })
  assert.deepEqual(read(path), { value: { held: false, failures: 2 }, missing: false })
  assert.equal(readFileSync(path, 'utf8'), '{"version":1,"held":false,"failures":2}\n')
  assert.equal(statSync(path).mode & 0o777, 0o644)
  assert.deepEqual(readdirSync(path.replace(/\/[^/]*$/, '')), ['muse.json'])
})

test('no file: the fresh value, or the cautious one when there is no other', (t) => {
  const path = place(t)
  assert.deepEqual(read(path), { value: fresh(), missing: true })
  assert.deepEqual(readState(path, parse, cautious), { value: cautious(), missing: true })
  assert.equal(existsSync(path), false)
})

const CORRUPT: [string, string, RegExp][] = [
  ['empty', '', /empty/],
  ['torn', '{"version":1,"held":fal', /JSON/],
  ['full of NULs', '\u0000'.repeat(4096), /full of NULs/],
  ['NULs after the text', `{"version":1}${'\u0000'.repeat(10)}`, /JSON/],
  ['an array', '[]', /not a JSON object/],
  ['null', 'null', /not a JSON object/],
  ['no version', '{"held":false,"failures":0}', /version undefined, expected 1/],
  ['a later version', '{"version":2,"held":false,"failures":0}', /version 2, expected 1/],
  ['of another shape', '{"version":1,"held":"no"}', /not a memory/],
]
for (const [what, text, why] of CORRUPT) {
  test(`corrupt (${what}): kept, reported, cautious now and at the next run`, (t) => {
    const path = place(t)
    writeState(path, {})
    writeFileSync(path, text)
    const r = read(path)
    assert.deepEqual([r.value, r.missing], [cautious(), false])
    assert.match(r.corrupt?.why ?? '', why)
    assert.match(r.corrupt?.keptAs ?? '', /muse\.json\.corrupt-\d{8}T\d{9}Z$/)
    assert.equal(readFileSync(r.corrupt?.keptAs ?? '', 'utf8'), text)
    // The next run must not find a clean slate where there was a hold.
    assert.deepEqual(read(path), { value: cautious(), missing: false })
  })
}

test('corrupt, with a cautious value that is "nothing": the file is only moved away', (t) => {
  const path = place(t)
  writeState(path, {})
  writeFileSync(path, '')
  const r = readState<Memory | undefined>(path, parse, () => undefined)
  assert.equal(r.value, undefined)
  assert.ok(r.corrupt !== undefined && existsSync(r.corrupt.keptAs))
  assert.equal(existsSync(path), false)
})

test('a file that cannot be read is neither missing nor corrupt', (t) => {
  const path = place(t)
  mkdirSync(path, { recursive: true })
  assert.throws(
    () => read(path),
    (e: NetvmError) => e instanceof NetvmError && e.exitCode === 2 && /EISDIR/.test(e.message),
  )
})

test('corrupt in a directory we may not write: cautious, and the file stays', (t) => {
  if (process.geteuid?.() === 0) return // Root may write everywhere.
  const path = place(t)
  writeState(path, {})
  writeFileSync(path, '')
  const dir = path.replace(/\/[^/]*$/, '')
  chmodSync(dir, 0o555)
  t.after(() => chmodSync(dir, 0o755))
  assert.deepEqual([read(path).value, read(path).corrupt?.keptAs], [cautious(), path])
})

test('writeAtomic: exact mode, bytes as given, the directories made', (t) => {
  const path = `${tempDir(t)}/a/b/c`
  writeAtomic(path, new Uint8Array([0, 255, 10]), 0o600)
  assert.deepEqual([...readFileSync(path)], [0, 255, 10])
  assert.equal(statSync(path).mode & 0o777, 0o600)
  writeAtomic(path, 'x', 0o640, { sync: false })
  assert.equal(readFileSync(path, 'utf8'), 'x')
  assert.equal(statSync(path).mode & 0o777, 0o640)
})

test('writeAtomic: the old file survives a failure, and nothing is left beside it', (t) => {
  const dir = tempDir(t)
  mkdirSync(`${dir}/taken/x`, { recursive: true })
  assert.throws(() => writeAtomic(`${dir}/taken`, 'x', 0o644), /EISDIR|ENOTEMPTY/)
  assert.deepEqual(readdirSync(dir), ['taken'])
})

test('writeAtomic: a temporary file of a killed run with our pid is in nobody’s way', (t) => {
  const path = `${tempDir(t)}/f`
  writeFileSync(`${path}.tmp-${process.pid}`, 'half')
  writeAtomic(path, 'whole', 0o644)
  assert.equal(readFileSync(path, 'utf8'), 'whole')
  rmSync(path)
})
