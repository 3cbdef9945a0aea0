import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const repo = fileURLToPath(new URL('../..', import.meta.url))

for (const file of readdirSync(`${repo}/bin`)) {
  const name = file.replace(/\.ts$/, '')
  test(`${name} --help teaches with examples and exits 0`, () => {
    const ran = spawnSync(`${repo}/dist/${name}`, ['--help'], { encoding: 'utf8' })
    assert.equal(ran.status, 0, ran.stderr)
    assert.equal(ran.stderr, '')
    const [, shown] = /Examples:\n([\s\S]*)/i.exec(ran.stdout) ?? []
    assert.ok(shown?.trim(), ran.stdout)
    assert.match(ran.stdout, /^Usage: /)
    assert.match(ran.stdout, /^Exit status: 0 .*;\n {2}64 usage error; 75 .*; 77 .*; 78 .*\n\nExamples:$/m)
    // Plain words, and quotes that can be typed.
    assert.doesNotMatch(ran.stdout, /\b(well|mended|told|cannot tell|by itself)\b|[\u2018-\u201f]/)
  })
}
