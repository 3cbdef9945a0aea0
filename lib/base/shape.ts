import type { Now } from './types.ts'

// What comes from a file, a socket or another program is `unknown` until one of these has read it. A reader gives the
// value its type or throws an Error that names the field (`last.endBootMs is not a number`). Readers are put together
// from readers, so a file says once what its record looks like.

/** Reads an untrusted value. @param what the field's name for the error; empty for the whole value */
export type Reader<T> = (v: unknown, what?: string) => T

/** A reader of a field that need not be there; `record` leaves the field out then. */
export interface Optional<T> extends Reader<T | undefined> {
  readonly optional: true
}

/** Any object that is no list. */
export type Json = Record<string, unknown>

export function isRecord(v: unknown): v is Json {
  return typeof v === 'object' && v !== null && !Array.isArray(v)
}

/** A reader of what `is` accepts. @param kind ends the error: `failures is not a count` */
export function that<T>(is: (v: unknown) => boolean, kind: string): Reader<T> {
  return (v, what = '') => {
    if (!is(v)) throw new Error(`${what === '' ? 'the value' : what} is not ${kind}`)
    return v as T
  }
}

export const text: Reader<string> = that((v) => typeof v === 'string', 'text')
export const flag: Reader<boolean> = that((v) => typeof v === 'boolean', 'true or false')
/** Finite; JSON has no other, but a program that reads its own numbers may. */
export const number: Reader<number> = that(Number.isFinite, 'a number')
/** A duration, or a moment of a clock that starts at 0. */
export const amount: Reader<number> = that((v) => Number.isFinite(v) && (v as number) >= 0, 'a number >= 0')
export const integer: Reader<number> = that(Number.isSafeInteger, 'a whole number')
export const count: Reader<number> = that((v) => Number.isSafeInteger(v) && (v as number) >= 0, 'a count')
export const object: Reader<Json> = that(isRecord, 'an object')

/** One of these words or numbers. */
export function oneOf<const T extends string | number>(values: readonly T[]): Reader<T> {
  return that((v) => values.includes(v as T), `one of ${values.join(', ')}`)
}

/** A list of which every entry is read. */
export function list<T>(item: Reader<T>): Reader<T[]> {
  return (v, what = '') => {
    const all = that<unknown[]>(Array.isArray, 'a list')(v, what)
    return all.map((entry, i) => item(entry, `${what}[${i}]`))
  }
}

/** The entries of a list that `item` can read; the others are left out. */
export function usable<T>(item: Reader<T>): Reader<T[]> {
  return (v, what = '') =>
    that<unknown[]>(Array.isArray, 'a list')(v, what).flatMap((entry) => {
      const got = attempt(() => item(entry))
      return got === undefined ? [] : [got]
    })
}

/** An object whose every value is read, whatever its keys. */
export function mapOf<T>(item: Reader<T>): Reader<Record<string, T>> {
  return (v, what = '') =>
    Object.fromEntries(
      Object.entries(object(v, what)).map(([key, value]) => [key, item(value, at(what, key))]),
    )
}

/** A field that need not be there. */
export function optional<T>(read: Reader<T>): Optional<T> {
  const reader: Reader<T | undefined> = (v, what) => (v === undefined ? undefined : read(v, what))
  return Object.assign(reader, { optional: true as const })
}

/** A field that says `null` when it has nothing. */
export function orNull<T>(read: Reader<T>): Reader<T | null> {
  return (v, what) => (v === null ? null : read(v, what))
}

type Fields = Readonly<Record<string, Reader<unknown>>>
type Value<R> = R extends Reader<infer T> ? T : never
type OptionalKey<F> = { [K in keyof F]: F[K] extends Optional<unknown> ? K : never }[keyof F]

/** What `record` makes of its fields. */
export type Shape<F extends Fields> = {
  readonly [K in Exclude<keyof F, OptionalKey<F>>]: Value<F[K]>
} & { readonly [K in OptionalKey<F>]?: Exclude<Value<F[K]>, undefined> }

/** An object with these fields; what else it has is left out. */
export function record<F extends Fields>(fields: F): Reader<Shape<F>> {
  return (v, what = '') => {
    const o = object(v, what)
    const read = Object.entries(fields).map(([key, field]) => [key, field(o[key], at(what, key))])
    return Object.fromEntries(read.filter(([, value]) => value !== undefined)) as Shape<F>
  }
}

/** A moment of a boot (`damping.ts`). */
export const moment = record({ bootMs: number, bootId: text })

/** A reading of the clocks. */
export const stamp: Reader<Now> = record({ wallMs: number, bootMs: number, bootId: text })

/** What JSON text says; undefined when it is no JSON, or not what `read` reads. */
export function fromJson<T>(json: string, read: Reader<T>): T | undefined {
  return attempt(() => read(JSON.parse(json)))
}

function attempt<T>(fn: () => T): T | undefined {
  try {
    return fn()
  } catch {
    return undefined
  }
}

function at(what: string, key: string): string {
  return what === '' ? key : `${what}.${key}`
}
