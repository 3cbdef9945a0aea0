import type { Clocks } from './damping.ts'
import { textOf } from './files.ts'
import { type Paths, paths } from './paths.ts'
import type { Now } from './types.ts'

/**
 * Reads the clocks. Boot time comes from /proc/uptime (CLOCK_BOOTTIME, suspend included, 10 ms steps);
 * where that cannot be read, from CLOCK_MONOTONIC, which differs only by the time spent suspended.
 * The boot id comes from our own file if it is there (see Paths.bootIdFile), else from the kernel;
 * empty when neither can be read. Never throws.
 */
export function now(p: Paths = paths()): Now {
  return { wallMs: Date.now(), bootMs: bootMs(p), bootId: bootId(p) }
}

/** The same with what CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, both read together: for stamps of systemd and the journal. */
export function clocks(p: Paths = paths()): Clocks {
  const at = now(p)
  const aheadMs = bootMs(p) - monotonicMs()
  // /proc/uptime has 10 ms steps, and somebody may come between the two: a difference below that is none.
  return { ...at, aheadMs: Math.abs(aheadMs) < 50 ? 0 : aheadMs }
}

/**
 * Milliseconds of a clock that no step moves, for durations within this process. What every tick runs through uses
 * this and not `performance.now()`, whose first use loads ten of Node's modules: a thirtieth of a tick's CPU.
 */
export function monotonicMs(): number {
  const [seconds, nanos] = process.hrtime()
  return seconds * 1000 + nanos / 1e6
}

function bootMs(p: Paths): number {
  const uptime = Number.parseFloat(textOf(`${p.proc}/uptime`) ?? '')
  return Number.isFinite(uptime) ? Math.round(uptime * 1000) : Number(process.hrtime.bigint() / 1_000_000n)
}

/** The boot id with its dashes removed: systemd's `%b` has none, the kernel's file has them. */
function bootId(p: Paths): string {
  const ours = textOf(p.bootIdFile)?.trim()
  const id = ours || (textOf(`${p.proc}/sys/kernel/random/boot_id`) ?? '')
  return id.trim().replaceAll('-', '').toLowerCase()
}

/** RFC 3339 in UTC with milliseconds, e.g. `2026-01-02T03:04:05.678Z`; `invalid-time` for a time that is none. */
export function wallIso(ms: number): string {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? 'invalid-time' : date.toISOString()
}
