/**
 * Maps with at most `limit` calls running at once; results in the order of the items. After a rejection no
 * further call is started, the running ones are awaited, then it rejects with the first error.
 */
export async function mapBounded<T, R>(
  items: readonly T[],
  limit: number,
  fn: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length)
  let next = 0
  let failed: { err: unknown } | undefined
  const worker = async () => {
    while (next < items.length && failed === undefined) {
      const i = next++
      try {
        results[i] = await fn(items[i] as T, i)
      } catch (err) {
        failed ??= { err }
      }
    }
  }
  const workers = Math.min(items.length, Math.max(1, Math.floor(limit)))
  await Promise.all(Array.from({ length: workers }, worker))
  if (failed !== undefined) throw failed.err
  return results
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
