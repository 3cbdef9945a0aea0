import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { clean, coarse, hasControl, seconds } from '../../lib/base/text.ts'

const CLEAN: [string, string, string][] = [
  ['plain text stays', 'muse is well', 'muse is well'],
  ['newlines become one space', 'a\r\n\n\tb', 'a b'],
  ['a colour sequence goes as a whole', '\u001b[31mred\u001b[0m', 'red'],
  ['a title sequence goes with its text', '\u001b]0;owned\u0007title', 'title'],
  ['a title sequence ended by ST', '\u001b]52;c;AAAA\u001b\\x', 'x'],
  ['one-byte CSI', '\u009b2Jx', 'x'],
  ['a lone escape', 'a\u001b', 'a'],
  ['NUL, BEL, DEL', 'a\u0000b\u0007c\u007fd', 'a b c d'],
  ['line separators', 'a\u2028b\u2029c', 'a b c'],
  ['a right-to-left override', 'abc\u202egpj.exe', 'abc gpj.exe'],
  ['ends are trimmed', '  x \n', 'x'],
  ['other scripts stay', 'Grüße 日本 🙂', 'Grüße 日本 🙂'],
]

for (const [what, input, expected] of CLEAN) {
  test(`clean: ${what}`, () => assert.equal(clean(input), expected))
}

test('clean: cuts by characters and marks the cut', () => {
  assert.equal(clean('x'.repeat(300)), 'x'.repeat(300))
  assert.equal(clean('x'.repeat(301)), `${'x'.repeat(299)}…`)
  assert.equal(clean('🙂🙂🙂', 3), '🙂🙂🙂')
  assert.equal(clean('🙂🙂🙂🙂', 3), '🙂🙂…')
  assert.equal(clean(`a${'\n'.repeat(10_000)}b`, 5), 'a…')
})

test('clean: any input gives one printable line of at most max characters', () => {
  const unit = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('\u001b[', '\u001b]', '\u0007', '\u009b', '\r', '\u202e'),
  )
  fc.assert(
    fc.property(
      fc.array(unit).map((a) => a.join('')),
      fc.integer({ min: 1, max: 40 }),
      (s, max) => {
        const out = clean(s, max)
        assert.ok(Array.from(out).length <= max)
        assert.equal(hasControl(out), false)
        assert.equal(clean(out, max), out)
      },
    ),
  )
})

const DURATIONS: [number, string][] = [
  [0, '0s'],
  [449, '0.4s'],
  [949, '0.9s'],
  [950, '1s'],
  [12_000, '12s'],
  [59_600, '1m'],
  [63_000, '1m 3s'],
  [3_600_000, '1h'],
  [7_500_000, '2h 5m'],
  [273_600_000, '3d 4h'],
  [-5000, '-5s'],
  [Number.NaN, 'unknown'],
  [Number.POSITIVE_INFINITY, 'unknown'],
]
for (const [ms, expected] of DURATIONS) {
  test(`seconds(${ms}) is ${expected}`, () => assert.equal(seconds(ms), expected))
}

const COARSE: [number, string, string][] = [
  [0, '0s', '0s'],
  [1400, '1s', '2s'],
  [119_400, '119s', '2m'],
  [119_500, '2m', '2m'],
  [200_000, '3m', '4m'],
  [7_200_000, '120m', '120m'],
]
for (const [ms, round, ceil] of COARSE) {
  test(`coarse(${ms}) is ${round}, and ${ceil} when it may not look over too soon`, () => {
    assert.equal(coarse(ms), round)
    assert.equal(coarse(ms, Math.ceil), ceil)
  })
}
