/** A record whose fields that may be `undefined` need not be there. */
export type Present<T> = { readonly [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  readonly [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}

/** The same record without its undefined fields: JSON has none, and an optional field is absent, not undefined. */
export function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, v]) => v !== undefined)) as Present<T>
}
