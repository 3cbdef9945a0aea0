import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const repo = fileURLToPath(new URL('../..', import.meta.url))
const runbook = readFileSync(join(repo, 'RUNBOOK.md'), 'utf8')
const readme = readFileSync(join(repo, 'README.md'), 'utf8')

function sources(dir: string): string {
  return readdirSync(join(repo, dir), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(repo, dir, name), 'utf8'))
    .join('\n')
}

/** Monitors and people search for these: [as RUNBOOK.md writes it, the part that stands verbatim in the code]. */
const CONTRACT: readonly (readonly [string, string])[] = [
  ['netns warp-<node> missing', ' missing'],
  ['egress down: …', 'egress down: '],
  ['uplink down', 'uplink down'],
  ['no chromium process for profile', 'no chromium process for profile'],
  ['CDP unreachable on :<port>', 'CDP unreachable on :'],
  ['chat page "<title>" missing from target list', 'missing from target list'],
  ['skip kill: launched <n>s ago', 'skip kill: launched '],
  ['relaunch FAILED — needs operator attention: <reason>', 'relaunch FAILED — needs operator attention: '],
  ['tunnel restart FAILED', 'tunnel restart FAILED'],
  ['HELD DOWN', 'HELD DOWN'],
  ['FAIL_LOUD veth <if> has no <gw>/30', ' has no '],
  ['browser down behind a working relay', 'browser down behind a working relay'],
  ['relay restart OK', 'relay restart OK'],
  ['relay restart FAILED — needs operator attention', 'relay restart FAILED — needs operator attention'],
  ['api timeout', 'api timeout'],
  ['api http <code>', 'api http '],
  ['renderer not responding', 'renderer not responding'],
  ['CRITICAL - still down after restart', 'CRITICAL - still down after restart'],
]

test('every reason text of the contract is said by the code and explained in the runbook', () => {
  const code = sources('lib')
  for (const [text, verbatim] of CONTRACT) {
    assert.ok(runbook.includes(text), `RUNBOOK.md does not explain: ${text}`)
    assert.ok(code.includes(verbatim), `no code says: ${verbatim}`)
  }
})

/** `row refused, node not supervised: …` stands before these, and the runbook explains that. */
const OF_A_ROW = 'registry-parse.ts'
/** A reason where it is made: `reason: '…'`, `unhealthy(layer, code, '…')`, `down(code, '…')`. */
const REASON =
  /(?:\breason\b\s*(?::|=)\s*|unhealthy\([^,\n]*,[^,\n]*,\s*|\bdown\('[^']*',\s*)([`'])((?:\\.|(?!\1)[\s\S])*)\1/g
/** The end of a repair, wherever it is said. */
const FAILURE = /([`'])((?:(?!\1)[^\n])*\bFAILED\b(?: — needs operator attention)?)/g
/** A value that is put into a text. */
const VALUE = /\$\{(?:[^{}]|\{[^{}]*\})*\}/

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')
}

/** The parts of a text that are always the same, long enough to search for. */
function fixedParts(text: string): string[] {
  const parts = text.split(VALUE).map((part) => part.replace(/^[\W_]+|[\W_]+$/g, ''))
  return parts.filter((part) => /[A-Za-z]{3,}\W+\w/.test(part))
}

const oneLine = runbook.replace(/\s+/g, ' ')

test('every reason that is printed can be found in the runbook', () => {
  let seen = 0
  for (const file of readdirSync(join(repo, 'lib'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file === OF_A_ROW) continue
    const source = withoutComments(readFileSync(join(repo, 'lib', file), 'utf8'))
    for (const [, , text = ''] of source.matchAll(REASON)) {
      const parts = fixedParts(text)
      if (parts.length === 0) continue
      seen++
      assert.ok(
        parts.some((part) => oneLine.includes(part)),
        `${file} says what RUNBOOK.md does not: ${text}`,
      )
    }
  }
  assert.ok(seen > 25, `only ${seen} reasons were found in the sources`)
})

test('a repair that failed is told in the words of the runbook', () => {
  let seen = 0
  for (const file of readdirSync(join(repo, 'lib'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue
    const source = withoutComments(readFileSync(join(repo, 'lib', file), 'utf8'))
    for (const [, , text = ''] of source.matchAll(FAILURE)) {
      seen++
      const words = text.split(VALUE).at(-1)?.split(/[`'"]/).at(-1)?.trim() ?? ''
      assert.ok(
        /\w+ FAILED/.test(words),
        `${file}: FAILED is put together from parts, nobody can search for it`,
      )
      assert.ok(oneLine.includes(words), `${file} says what RUNBOOK.md does not: ${words}`)
    }
  }
  assert.ok(seen > 5, `only ${seen} were found in the sources`)
})

test('every executable and every configuration key stands in the README', () => {
  for (const file of readdirSync(join(repo, 'bin')).filter((name) => name.endsWith('.ts')))
    assert.ok(readme.includes(`\`${file.replace(/\.ts$/, '')}`), `README.md does not name ${file}`)
  const keys = new Set(readFileSync(join(repo, 'lib/config.ts'), 'utf8').match(/NETVM_[A-Z_]+/g))
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
