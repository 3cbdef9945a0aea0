import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { CODES } from '../../lib/report/codes.ts'

const repo = fileURLToPath(new URL('../..', import.meta.url))
const runbook = readFileSync(join(repo, 'RUNBOOK.md'), 'utf8')
const readme = readFileSync(join(repo, 'README.md'), 'utf8')

/** Each section by its heading, as it stands there. */
const sections = new Map(
  runbook.split(/^##+ /m).map((part) => {
    const [title = '', ...rest] = part.split('\n')
    return [title, rest.join('\n')] as const
  }),
)

for (const [code, { heading }] of Object.entries(CODES))
  test(`the runbook explains ${code} under its heading`, () => {
    const section = sections.get(heading)
    assert.ok(section !== undefined, `no heading: ${heading}`)
    if (section.includes('**Means**'))
      assert.ok(section.includes(`\`${code}\``), `not named under ${heading}`)
  })

test('every executable and every configuration key stands in the README', () => {
  for (const file of readdirSync(join(repo, 'bin')).filter((name) => name.endsWith('.ts')))
    assert.ok(readme.includes(`\`${file.replace(/\.ts$/, '')}`), `README.md does not name ${file}`)
  const keys = new Set(readFileSync(join(repo, 'lib/base/config.ts'), 'utf8').match(/NETVM_[A-Z_]+/g))
  keys.delete('NETVM_ROOT')
  keys.delete('NETVM_')
  for (const key of keys) assert.ok(readme.includes(`\`${key}\``), `README.md does not explain ${key}`)
})

test('links inside the runbook lead somewhere', () => {
  const anchors = [...runbook.matchAll(/^##+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-'),
  )
  for (const [, anchor = ''] of runbook.matchAll(/\]\(#([^)]*)\)/g))
    assert.ok(anchors.includes(anchor), anchor)
})
