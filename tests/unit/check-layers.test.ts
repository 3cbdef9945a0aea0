import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { tempDir } from '../kit/temp.ts'

const repo = fileURLToPath(new URL('../..', import.meta.url))

/** Runs the check over a lib/ of these files. */
function check(
  t: TestContext,
  files: Readonly<Record<string, string>>,
): { code: number | null; said: string } {
  const dir = tempDir(t)
  mkdirSync(join(dir, 'scripts'))
  for (const f of ['scripts/check-layers', 'CONTRIBUTING.md']) cpSync(join(repo, f), join(dir, f))
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}')
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, 'lib', path)), { recursive: true })
    writeFileSync(join(dir, 'lib', path), text)
  }
  const { status, stderr } = spawnSync(join(dir, 'scripts/check-layers'), { encoding: 'utf8' })
  return { code: status, said: stderr }
}

const A = "import { b } from './b.ts'\n"
const CASES: readonly [string, Record<string, string>, RegExp | undefined][] = [
  ['downwards', { 'box/a.ts': "import { b } from '../base/b.ts'\n", 'base/b.ts': '' }, undefined],
  ['within a room', { 'box/a.ts': A, 'box/b.ts': '' }, undefined],
  [
    'upwards',
    { 'base/a.ts': "import { b } from '../box/b.ts'\n", 'box/b.ts': '' },
    /base\/a\.ts: imports lib\/box\/b\.ts/,
  ],
  [
    'upwards, a type',
    { 'base/a.ts': "import type { B } from '../box/b.ts'\n", 'box/b.ts': '' },
    /room above/,
  ],
  [
    'upwards, later',
    { 'base/a.ts': "const b = await import('../box/b.ts')\n", 'box/b.ts': '' },
    /room above/,
  ],
  ['upwards, passed on', { 'base/a.ts': "export { b } from '../box/b.ts'\n", 'box/b.ts': '' }, /room above/],
  ['a cycle of two', { 'box/a.ts': A, 'box/b.ts': "import { a } from './a.ts'\n" }, /import cycle/],
  ['a flat file', { 'a.ts': '' }, /lib\/a\.ts: in no room/],
]
for (const [what, files, expected] of CASES)
  test(`imports ${what}: ${expected === undefined ? 'passes' : 'is refused'}`, (t) => {
    const { code, said } = check(t, files)
    if (expected === undefined) assert.deepEqual({ code, said }, { code: 0, said: '' })
    else assert.match(said, expected)
    assert.equal(code, expected === undefined ? 0 : 1)
  })
