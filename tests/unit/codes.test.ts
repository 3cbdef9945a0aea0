import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { clean } from '../../lib/base/text.ts'
import { CODES, type Code, entryOf, text } from '../../lib/report/codes.ts'
import { formatLine, parseLine } from '../../lib/report/line.ts'

// The one place that knows the table by heart. Monitors and people search for these texts: whoever changes one sees
// it here, writes a word in the changelog, and writes the snapshot anew with UPDATE_SNAPSHOT=1.

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const SNAPSHOT = here('fixtures/codes.snapshot')
const codes = Object.keys(CODES) as Code[]

const rows = codes.map((code) => {
  const { kind, layer, action, helped, text: words, heading } = entryOf(code) ?? assert.fail(code)
  return [code, kind, layer ?? '-', action ?? '-', helped ?? '-', words, heading].join(' | ')
})

test('the table is the one of the snapshot', () => {
  const now = `${rows.join('\n')}\n`
  if (process.env.UPDATE_SNAPSHOT === '1') writeFileSync(SNAPSHOT, now)
  assert.deepEqual(now.split('\n'), readFileSync(SNAPSHOT, 'utf8').split('\n'))
})

/** The texts that monitors and people search for (CONTRACT.md, "Exit codes and texts"), to the letter. */
const CONTRACT: readonly (readonly [Code, Record<string, string | number>, string])[] = [
  ['netns-missing', { netns: 'warp-muse' }, 'netns warp-muse missing'],
  ['uplink-down', {}, 'uplink down'],
  ['no-process', {}, 'no chromium process for profile'],
  ['cdp-unreachable', { port: 9410 }, 'CDP unreachable on :9410'],
  ['page-missing', { title: 'Muse' }, 'chat page "Muse" missing from target list'],
  ['no-pages', { title: 'Muse' }, 'chat page "Muse" missing from target list'],
  ['error-page', { title: 'Muse' }, 'chat page "Muse" missing from target list'],
  ['fresh', { seconds: 12 }, 'skip kill: launched 12s ago'],
  ['relaunch-ok', { seconds: 7 }, 'relaunch OK after 7s'],
  ['relaunch-failed', { reason: 'x' }, 'relaunch FAILED — needs operator attention: x'],
  ['veth-no-address', { veth: 've-1', gw: '10.0.0.1' }, 'veth ve-1 has no 10.0.0.1/30'],
  ['veth-missing', { veth: 've-1', gw: '10.0.0.1' }, 'veth ve-1 has no 10.0.0.1/30'],
  ['browser-down', {}, 'browser down behind a working relay'],
  ['api-timeout', {}, 'api timeout'],
  ['api-http', { status: 503 }, 'api http 503'],
  ['renderer-silent', {}, 'renderer not responding'],
]
for (const [code, values, words] of CONTRACT)
  test(`the contract's words: ${words} (${code})`, () => assert.equal(textOf(code, values), words))

test('texts of the contract that go on with what happened', () => {
  const begins = (code: Code, words: string) => assert.ok(CODES[code].text.startsWith(words), code)
  for (const code of codes)
    if (/^egress-/.test(code) && CODES[code].kind === 'fault') begins(code, 'egress down: ')
  begins('held-down', 'HELD DOWN')
  begins('held', 'HELD DOWN')
  begins('relay-restart-ok', 'relay restart OK')
  begins('relay-restart-failed', 'relay restart FAILED — needs operator attention')
  begins('api-restart-futile', 'CRITICAL - still down after restart')
})

test('every code is one that some program says', () => {
  const all = sources().join('\n')
  assert.deepEqual(
    codes.filter((code) => !all.includes(`'${code}'`)),
    [],
  )
})

test('a code is a word that the reader of lines takes, and a text has no brace but its placeholders', () => {
  for (const code of codes) {
    assert.match(code, /^[a-z][a-z0-9-]*$/)
    assert.doesNotMatch(CODES[code].text.replace(/\{\w+\}/g, ''), /[{}\n]/)
    const { kind, action, helped } = entryOf(code) ?? {}
    assert.deepEqual([action !== undefined, helped !== undefined], [kind === 'repair', kind === 'repair'])
  }
})

test('texts and headings use plain words and ASCII quotes', () => {
  for (const code of codes) {
    const { text: words, heading } = CODES[code]
    assert.doesNotMatch(
      `${words} ${heading}`,
      /\b(well|mended|told|by itself|cannot tell)\b|[\u2018-\u201f]/i,
      code,
    )
    // Beside the em dash, which is part of the contract.
    assert.match(words.replaceAll('\u2014', ''), /^[\x20-\x7e]*$/, code)
  }
})

test('an inherited name is no code', () => {
  for (const name of ['toString', 'constructor', '__proto__', '', undefined])
    assert.equal(entryOf(name), undefined)
})

/** What a page's title or a program's output may hold: braces, our own codes and commands, line ends, escapes. */
const hostile = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc
    .array(
      fc.constantFrom(
        ...codes.map((code) => `{${code}}`),
        '; next: rm -rf /',
        '\n',
        '\u001b[2J',
        ' ',
        'x',
        '}{',
      ),
      { maxLength: 6 },
    )
    .map((parts) => parts.join('')),
)
const anyCode = fc.constantFrom(...codes)

test('a line is read back as it was written: no text can forge a code or a command', () => {
  fc.assert(
    fc.property(
      anyCode,
      hostile,
      fc.option(anyCode, { nil: undefined }),
      fc.option(hostile, { nil: undefined }),
      (code, words, cause, next) => {
        const line = { text: words, code, ...(cause && { cause }), ...(next !== undefined && { next }) }
        const written = formatLine(line)
        assert.doesNotMatch(written, /\p{Cc}/u)
        const read = parseLine(written)
        assert.equal(read.code, code)
        assert.equal(read.cause, cause === code ? undefined : cause)
        assert.doesNotMatch(read.text, /[{}]|; next:/)
        assert.equal(read.next, next === undefined ? undefined : clean(next, 400))
        assert.ok(written.startsWith(read.text))
      },
    ),
    { numRuns: 2000 },
  )
})

test('a line of a release without codes has a text and no code', () => {
  for (const [raw, words] of [
    [
      'no chromium process for profile; relaunching; next: chromebox-watchdog --why muse',
      'no chromium process for profile; relaunching',
    ],
    ['relaunch OK after 5s', 'relaunch OK after 5s'],
    ['said {something-else}', 'said'],
    ['', ''],
  ] as const)
    assert.deepEqual(parseLine(raw), { text: words })
})

test('a value that looks like a placeholder is not filled in a second time', () => {
  assert.equal(text('relaunch-failed', { reason: '{reason} {seconds}' }).split('{seconds}').length, 2)
})

/** `text` without the check of its values, for a list of codes. */
function textOf(code: Code, values: Record<string, string | number>): string {
  return (text as (code: Code, values: Record<string, string | number>) => string)(code, values)
}

function sources(): string[] {
  const root = here('../../lib/')
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && file !== 'report/codes.ts')
    .map((file) => readFileSync(`${root}${file}`, 'utf8'))
}
