import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
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

/** How the runbook lists a code: with its whole text, placeholders as `<name>`. */
const entry = (code: string, text: string) => `- \`${code}\`: \`${text.replace(/\{(\w+)\}/g, '<$1>')}\``

for (const [code, { heading, text }] of Object.entries(CODES))
  test(`the runbook lists ${code} with its whole text under its heading`, () => {
    const section = sections.get(heading)
    assert.ok(section !== undefined, `no heading: ${heading}`)
    assert.ok(section.split('\n').includes(entry(code, text)), `not under ${heading}: ${entry(code, text)}`)
    assert.match(section, /^- \*\*Means\*\*: /m)
  })

test('the runbook lists no code and no text that the table does not have', () => {
  const known = Object.entries(CODES).map(([code, { text }]) => entry(code, text))
  const listed = runbook.split('\n').filter((line) => /^- `[a-z][a-z0-9-]*`: `/.test(line))
  assert.deepEqual(
    listed.filter((line) => !known.includes(line)),
    [],
  )
  assert.equal(listed.length, known.length)
})

test('every executable and every configuration key stands in the README', () => {
  for (const file of readdirSync(join(repo, 'bin')).filter((name) => name.endsWith('.ts')))
    assert.ok(readme.includes(`\`${file.replace(/\.ts$/, '')}`), `README.md does not name ${file}`)
  const keys = new Set(readFileSync(join(repo, 'lib/base/config.ts'), 'utf8').match(/NETVM_[A-Z_]+/g))
  keys.delete('NETVM_ROOT')
  keys.delete('NETVM_')
  for (const key of keys) assert.ok(readme.includes(`\`${key}\``), `README.md does not explain ${key}`)
})

test('links inside the runbook lead to a heading', () => {
  const anchors = [...runbook.matchAll(/^##+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replace(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-'),
  )
  for (const [, anchor = ''] of runbook.matchAll(/\]\(#([^)]*)\)/g))
    assert.ok(anchors.includes(anchor), anchor)
})

test('every file that a page names exists', () => {
  const pages = readdirSync(repo).filter((name) => name.endsWith('.md') && name !== 'CHANGELOG.md')
  for (const page of pages) {
    const text = readFileSync(join(repo, page), 'utf8')
    for (const [, path = ''] of text.matchAll(/`((?:lib|bin|tests|units|scripts)\/[\w./@-]*)[` ]/g))
      assert.ok(existsSync(join(repo, path)), `${page} names ${path}`)
    for (const [, path = ''] of text.matchAll(/\]\(([A-Z]+\.md)\)/g))
      assert.ok(pages.includes(path), `${page} links to ${path}`)
  }
})
