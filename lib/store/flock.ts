import { spawn, spawnSync } from 'node:child_process'
import { NetvmError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import { linkOf } from '../base/files.ts'

// flock(2), because the kernel drops it when we die, however we die. Node has no binding: flock(1) locks the open file
// that we hand it, and the lock stays with our descriptor when the helper exits. Node opens files O_CLOEXEC, so no other
// child inherits the lock and outlives us with it.
// The plain child_process calls, not host/exec.ts: pipes for output that nobody reads cost as much again.

type Mode = 'exclusive' | 'shared'

/** flock(1)'s answer for "held by another"; its own usage errors are 1 and 64 and up. */
const CONFLICT = 75
/** A helper that has not answered this long after its wait is stuck with the machine, in ms. */
const ASK_MS = 5000

function command(mode: Mode, waitMs: number): string[] {
  const wait = waitMs > 0 ? ['-w', (waitMs / 1000).toFixed(3)] : ['-n']
  return ['flock', `--${mode}`, '-E', String(CONFLICT), ...wait, '3']
}

/**
 * Takes the lock if it is free now (about 2 ms), or blocks this process until it is.
 * @param waitMs longest wait in ms
 * @throws NetvmError (2) when it cannot be locked at all; the error of a flock(1) that is not installed
 */
export function tryFlock(fd: number, mode: Mode = 'exclusive', waitMs = 0): boolean {
  const [program = '', ...args] = command(mode, waitMs)
  const r = spawnSync(program, args, {
    stdio: ['ignore', 'ignore', 'ignore', fd],
    timeout: waitMs + ASK_MS,
    killSignal: 'SIGKILL',
  })
  if (r.status === 0) return true
  // Killed at its deadline: the lock is as unavailable as at a conflict.
  if (r.status === CONFLICT || (r.error as NodeJS.ErrnoException | undefined)?.code === 'ETIMEDOUT')
    return false
  if (r.error) throw r.error
  const file = linkOf(`/proc/self/fd/${fd}`) ?? 'a file'
  throw new NetvmError(`cannot lock ${file}: flock(1) exit ${r.status ?? r.signal}`, {
    exitCode: EXIT.UNKNOWN,
    next: 'dmesg | tail -n 20',
  })
}

/** A wait for a lock, in a helper process. */
interface LockWait {
  /** Resolves once: whether the lock is ours. False after the time, a cancel, or a helper that died. */
  readonly locked: Promise<boolean>
  /** Ends the wait. `locked` still says what is true: the lock may have come in the same moment. */
  cancel(): void
}

let withoutSetpriv = false

/**
 * Waits for the lock with a helper that the kernel kills when we die (PR_SET_PDEATHSIG), so that none is
 * left waiting for a dead client. Even one that was would only take the lock and drop it by exiting.
 */
export function waitFlock(fd: number, mode: Mode, waitMs: number): LockWait {
  const flock = command(mode, Math.max(1, waitMs))
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
