import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  amount,
  count,
  flag,
  fromJson,
  integer,
  list,
  mapOf,
  number,
  object,
  oneOf,
  optional,
  orNull,
  type Reader,
  record,
  stamp,
  text,
  usable,
} from '../../lib/base/shape.ts'

const NOW = { wallMs: 1, bootMs: 2, bootId: 'b' }
const pet = record({ name: text, legs: optional(count), owner: optional(record({ name: text })) })

const ACCEPTED: readonly [string, Reader<unknown>, unknown, unknown?][] = [
  ['empty text', text, ''],
  ['a negative number', number, -1.5],
  ['zero as an amount', amount, 0],
  ['half an amount', amount, 0.5],
  ['a negative whole number', integer, -3],
  ['a count', count, 0],
  ['false', flag, false],
  ['a word', oneOf(['a', 'b']), 'b'],
  ['a version', oneOf([1]), 1],
  ['an empty list', list(text), []],
  ['a list', list(count), [1, 2]],
  ['the usable entries', usable(text), ['a', 1, null, 'b'], ['a', 'b']],
  ['a map', mapOf(count), { a: 1, b: 2 }],
  ['null', orNull(text), null],
  ['what null stands for', orNull(text), 'x'],
  ['any object', object, { x: [] }],
  ['a stamp without its other fields', stamp, { ...NOW, more: 1 }, NOW],
  ['a record without its optional fields', pet, { name: 'x' }],
  ['a record with all of them', pet, { name: 'x', legs: 4, owner: { name: 'y' } }],
  ['an optional field that is undefined', pet, { name: 'x', legs: undefined }, { name: 'x' }],
]

for (const [name, read, value, want = value] of ACCEPTED)
  test(`reads ${name}`, () => assert.deepEqual(read(value), want))

const REFUSED: readonly [string, Reader<unknown>, unknown, string][] = [
  ['text', text, 1, 'f is not text'],
  ['text that is missing', text, undefined, 'f is not text'],
  ['an infinite number', number, Number.POSITIVE_INFINITY, 'f is not a number'],
  ['a number as text', number, '1', 'f is not a number'],
  ['a negative amount', amount, -1, 'f is not a number >= 0'],
  ['no amount', amount, null, 'f is not a number >= 0'],
  ['a fraction', integer, 1.5, 'f is not a whole number'],
  ['a negative count', count, -1, 'f is not a count'],
  ['a huge count', count, 2 ** 53, 'f is not a count'],
  ['a flag as a number', flag, 0, 'f is not true or false'],
  ['another word', oneOf(['a', 'b']), 'c', 'f is not one of a, b'],
  ['an object as a list', list(text), {}, 'f is not a list'],
  ['a bad entry', list(text), ['a', 2], 'f[1] is not text'],
  ['no list of usable ones', usable(text), null, 'f is not a list'],
  ['a bad value of a map', mapOf(count), { a: 1, b: 'x' }, 'f.b is not a count'],
  ['a list as an object', object, [], 'f is not an object'],
  ['null as an object', object, null, 'f is not an object'],
  ['a bad value where null may be', orNull(text), 1, 'f is not text'],
  ['undefined where null may be', orNull(text), undefined, 'f is not text'],
  ['null in an optional field', pet, { name: 'x', legs: null }, 'f.legs is not a count'],
  ['a bad field', pet, { name: 2 }, 'f.name is not text'],
  ['a missing field', pet, {}, 'f.name is not text'],
  ['a bad field further in', pet, { name: 'x', owner: { name: 1 } }, 'f.owner.name is not text'],
  ['a stamp without a boot id', stamp, { wallMs: 1, bootMs: 2 }, 'f.bootId is not text'],
  ['a stamp with a torn number', stamp, { ...NOW, wallMs: null }, 'f.wallMs is not a number'],
]

for (const [name, read, value, message] of REFUSED)
  test(`refuses ${name}`, () => assert.throws(() => read(value, 'f'), { message }))

test('names a field of the whole value by itself, and the whole value as such', () => {
  assert.throws(() => pet({ name: 1 }), { message: 'name is not text' })
  assert.throws(() => pet(7), { message: 'the value is not an object' })
})

test('JSON text that is torn or of another shape reads as nothing', () => {
  assert.deepEqual(fromJson('{"name":"x"}', pet), { name: 'x' })
  for (const json of ['', '{"name":', '{"name":1}', 'null', '[]'])
    assert.equal(fromJson(json, pet), undefined)
})
