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
