/** The median. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const half = Math.floor(sorted.length / 2)
  const upper = sorted[half] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[half - 1] ?? Number.NaN)) / 2
}

/** The value that `share` (0 to 1) of the values do not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

/** Prints a figure with its limit and returns whether the limit is met. */
export function judge(what: string, value: number, limit: number, unit = ''): boolean {
  const met = value <= limit
  process.stdout.write(
    `${met ? 'met    ' : 'NOT MET'}  ${what}: ${value.toFixed(2)}${unit} (limit ${limit}${unit})\n`,
  )
  return met
}
