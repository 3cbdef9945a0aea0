/**
 * Maps with at most `limit` calls running at once; results in the order of the items. After a rejection no
 * further call is started, the running ones are awaited, then it rejects with the first error.
 */
export async function mapBounded<T, R>(
  items: readonly T[],
  limit: number,
  fn: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const gate = makeGate(Math.max(1, Math.floor(limit)))
  let failed: { readonly err: unknown } | undefined
  const work = async (item: T, i: number) => {
    try {
      return failed === undefined ? await fn(item, i) : undefined
    } catch (err) {
      failed ??= { err }
      return undefined
    }
  }
  const results = await Promise.all(items.map((item, i) => gate(() => work(item, i))))
  if (failed !== undefined) throw failed.err
  return results as R[]
}

type Gate = <T>(job: () => Promise<T>) => Promise<T>

/** Lets `limit` jobs run at once, in the order they were asked for. */
export function makeGate(limit: number): Gate {
  let free = limit
  const waiting: (() => void)[] = []
  return async (job) => {
    if (free > 0) free--
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await job()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}
