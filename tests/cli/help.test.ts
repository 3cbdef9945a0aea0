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
  })
}
