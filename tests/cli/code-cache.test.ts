import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'

const REPO = fileURLToPath(new URL('../../', import.meta.url))
const DIST = join(REPO, 'dist')
const programs = readdirSync(join(REPO, 'bin')).map((file) => file.replace(/\.ts$/, ''))
const dir = mkdtempSync(join(tmpdir(), 'code-cache-'))
// As in the launcher: V8 takes a cache only under the flags it was made with.
setFlagsFromString('--verify-snapshot-checksum')
after(() => rmSync(dir, { recursive: true, force: true }))

/** The bundle and the cache that the launcher of a program names. */
function codeOf(program: string): string {
  const named = /`\$\{__dirname\}\/(code\/[a-z0-9-]+)`/.exec(readFileSync(join(DIST, program), 'utf8'))
  assert.ok(named?.[1], `dist/${program} names its code`)
  return named[1]
}

for (const program of programs) {
  test(`${program}: V8 takes the cache of its bundle`, () => {
    const code = join(DIST, codeOf(program))
    const source = readFileSync(`${code}.cjs`, 'latin1')
    const script = new Script(source, { cachedData: readFileSync(`${code}.cache`) })
    assert.equal(script.cachedDataRejected, false)
  })

  test(`${program}: its bundle has nothing that only a bundler finds`, () => {
    const source = readFileSync(`${join(DIST, codeOf(program))}.cjs`, 'latin1')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: plain ASCII is what is asked for.
    assert.match(source, /^[\x00-\x7f]*$/, 'the launcher reads one byte a character')
    assert.doesNotMatch(source, /[^.\w]import\(/, 'an import() has no way out of a vm.Script')
  })
}

const spoilt: Record<string, (cache: string) => void> = {
  gone: (cache) => rmSync(cache),
  empty: (cache) => truncateSync(cache, 0),
  torn: (cache) => truncateSync(cache, 1000),
  'not a cache': (cache) => writeFileSync(cache, 'x'.repeat(100_000)),
  'zeroed in a page': (cache) => {
    const bytes = readFileSync(cache)
    bytes.fill(0, 8192, 12_288)
    writeFileSync(cache, bytes)
  },
  'wrong in one bit': (cache) => {
    const bytes = readFileSync(cache)
    bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 4, bytes.length >> 1)
    writeFileSync(cache, bytes)
  },
  'of another version of V8': (cache) => {
    const bytes = readFileSync(cache)
    // The second word is the hash of V8's version.
    bytes.writeUInt32LE(bytes.readUInt32LE(4) ^ 1, 4)
    writeFileSync(cache, bytes)
  },
}
for (const [how, spoil] of Object.entries(spoilt)) {
  test(`a cache that is ${how} changes nothing but the time`, () => {
    const copy = join(dir, how)
    cpSync(DIST, copy, { recursive: true })
    spoil(join(copy, `${codeOf('netvm-names')}.cache`))
    const ran = spawnSync(join(copy, 'netvm-names'), ['muse'], { encoding: 'utf8' })
    const whole = spawnSync(join(DIST, 'netvm-names'), ['muse'], { encoding: 'utf8' })
    assert.equal(ran.stderr, '')
    assert.deepEqual([ran.status, ran.stdout], [whole.status, whole.stdout])
    assert.match(ran.stdout, /NETNS=warp-muse/)
  })
}

const broken: Record<string, { spoil: (bundle: string) => void; says: RegExp }> = {
  missing: { spoil: (bundle) => rmSync(bundle), says: /is missing/ },
  torn: { spoil: (bundle) => truncateSync(bundle, 1000), says: /is damaged \(/ },
  empty: { spoil: (bundle) => truncateSync(bundle, 0), says: /is damaged \(it is empty\)/ },
}
for (const [how, { spoil, says }] of Object.entries(broken)) {
  test(`a program that is ${how} is told in one line, and is no verdict on a node`, () => {
    const copy = join(dir, `bundle ${how}`)
    cpSync(DIST, copy, { recursive: true })
    spoil(join(copy, `${codeOf('chromebox-watchdog')}.cjs`))
    const ran = spawnSync(join(copy, 'chromebox-watchdog'), ['muse'], { encoding: 'utf8' })
    assert.equal(ran.status, 2)
    assert.match(ran.stderr, /^chromebox-watchdog: nothing was looked at: [^\n]*; next: ls -la [^\n]*\n$/)
    assert.match(ran.stderr, says)
  })
}
