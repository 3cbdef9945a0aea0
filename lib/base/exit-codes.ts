/** Exit statuses of every executable (sysexits.h where one fits). Units list 75 in SuccessExitStatus. */
export const EXIT = {
  /** Healthy, recovered, or nothing to do. */
  OK: 0,
  UNHEALTHY: 1,
  UNKNOWN: 2,
  /** EX_USAGE */
  USAGE: 64,
  /** EX_TEMPFAIL: another run holds the lock. */
  LOCKED: 75,
  /** EX_NOPERM */
  NEEDS_ROOT: 77,
  /** EX_CONFIG */
  CONFIG: 78,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
