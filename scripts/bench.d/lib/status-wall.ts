import { sh } from '../../../tests/kit/lab.ts'
import { judge, median } from './stats.ts'

/** Wall clock of one run of a command, in ms. */
function once(argv: readonly string[]): { ms: number; out: string } {
  const started = performance.now()
  const { stdout } = sh(argv)
  return { ms: performance.now() - started, out: stdout }
}

/** Wall clock of `node -e 0` in ms, median of `times` after one that warms the caches: what a limit is a multiple of. */
export function nodeMs(times = 9): number {
  once(NODE)
  return median(Array.from({ length: times }, () => once(NODE).ms))
}

const NODE = ['node', '-e', '0']

/**
 * Judges a command by the wall clock of `node -e 0` in the same shell, the two in turn, after one of each that warms
 * the caches: a slower machine makes both slower.
 * @param inShell the command line that runs another one in the shell
 * @param limit how many times `node -e 0` the command may take, told what that took here in ms
 */
export function judgeWall(
  what: string,
  inShell: (argv: readonly string[]) => readonly string[],
  argv: readonly string[],
  limit: number | ((nodeMs: number) => number),
  times = 9,
): { met: boolean; out: string } {
  const took: number[] = []
  const base: number[] = []
  let out = once(inShell(argv)).out
  once(inShell(NODE))
  for (let i = 0; i < times; i++) {
    base.push(once(inShell(NODE)).ms)
    const run = once(inShell(argv))
    took.push(run.ms)
    out = run.out
  }
  const [ms, bare] = [median(took), median(base)]
  process.stdout.write(
    `${what}: ${ms.toFixed(0)} ms, node -e 0 ${bare.toFixed(0)} ms (medians of ${times})\n`,
  )
  return {
    met: judge(`${what} / node -e 0`, ms / bare, typeof limit === 'number' ? limit : limit(bare)),
    out,
  }
}
