import { spawn, spawnSync } from 'node:child_process'
import { NetvmError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'

// flock(1) locks the open file that we hand it; the lock stays with our descriptor when the helper exits.
// The plain child_process calls, not lib/exec.ts: pipes for output that nobody reads cost as much again.

/** flock(1)'s answer for "held by another"; its own usage errors are 1 and 64 and up. */
const CONFLICT = 75
/** A helper that asks without waiting and has not answered by then is stuck with the machine, in ms. */
const ASK_MS = 5000

/** Takes the lock if it is free now. About 2 ms. */
export function tryFlock(fd: number, mode: 'exclusive' | 'shared' = 'exclusive'): boolean {
  const r = spawnSync('flock', [`--${mode}`, '-n', '-E', String(CONFLICT), '3'], {
    stdio: ['ignore', 'ignore', 'ignore', fd],
    timeout: ASK_MS,
    killSignal: 'SIGKILL',
  })
  if (r.status === 0) return true
  if (r.status === CONFLICT) return false
  if (r.error) throw r.error
  const next = 'dmesg | tail -n 20'
  throw new NetvmError(`cannot lock: flock(1) exit ${r.status ?? r.signal}`, {
    exitCode: EXIT.UNKNOWN,
    next,
  })
}

/** A wait for a lock, in a helper process. */
export interface LockWait {
  /** Resolves once: whether the lock is ours. False after the time, a cancel, or a helper that died. */
  readonly locked: Promise<boolean>
  /** Ends the wait. `locked` still tells the truth: the lock may have come in the same moment. */
  cancel(): void
}

let withoutSetpriv = false

/**
 * Waits for the lock with a helper that the kernel kills when we die (PR_SET_PDEATHSIG), so that none is
 * left waiting for a dead client. Even one that was would only take the lock and drop it by exiting.
 */
export function waitFlock(fd: number, mode: 'exclusive' | 'shared', waitMs: number): LockWait {
  const wait = Math.max(0.001, waitMs / 1000).toFixed(3)
  const flock = ['flock', `--${mode}`, '-E', String(CONFLICT), '-w', wait, '3']
  const argv = withoutSetpriv ? flock : ['setpriv', '--pdeathsig', 'KILL', ...flock]
  const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'ignore', 'ignore', fd] })
  let inner: LockWait | undefined
  let cancelled = false
  const locked = new Promise<boolean>((resolve) => {
    child.on('exit', (code) => resolve(code === 0))
    child.on('error', () => {
      if (withoutSetpriv || cancelled) return resolve(false)
      withoutSetpriv = true
      inner = waitFlock(fd, mode, waitMs)
      inner.locked.then(resolve)
    })
  })
  return {
    locked,
    cancel() {
      cancelled = true
      inner?.cancel()
      child.kill('SIGKILL')
    },
  }
}
