import { readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ok } from '../../../tests/kit/lab.ts'

const PRELOAD = fileURLToPath(new URL('./cpu-report.cjs', import.meta.url))
const REPORT = '/run/cpu-report'

export interface Cost {
  /** CPU milliseconds of the process without its children. */
  readonly ownMs: number
  readonly peakMiB: number
  /** CPU milliseconds of its children. */
  readonly childrenMs: number
}

/** Runs `node ARG…` once and returns what it cost. It must exit 0. */
export function cost(args: readonly string[]): Cost {
  rmSync(REPORT, { force: true })
  const meter =
    'import resource,subprocess,sys\nsubprocess.run(sys.argv[1:],check=True,stdout=subprocess.DEVNULL)\n' +
    'r=resource.getrusage(resource.RUSAGE_CHILDREN)\nprint((r.ru_utime+r.ru_stime)*1000)'
  const total = Number(
    ok(['env', `CPU_REPORT=${REPORT}`, 'python3', '-c', meter, 'node', '-r', PRELOAD, ...args]),
  )
  const [micros = '', kib = ''] = readFileSync(REPORT, 'utf8').trim().split(' ')
  const ownMs = Number(micros) / 1000
  return { ownMs, peakMiB: Number(kib) / 1024, childrenMs: total - ownMs }
}
