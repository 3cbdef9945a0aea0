import { sh } from '../../../tests/kit/lab.ts'
import { median } from './stats.ts'

/** Wall clock of a command in ms, median of `times` after one that warms the caches; what it printed last. */
export function wall(argv: readonly string[], times = 9): { ms: number; out: string; code: number | null } {
  const took: number[] = []
  let last = sh(argv)
  for (let i = 0; i < times; i++) {
    const started = performance.now()
    last = sh(argv)
    took.push(performance.now() - started)
  }
  return { ms: median(took), out: last.stdout, code: last.code }
}
