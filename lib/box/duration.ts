import { UsageError } from '../base/errors.ts'
import { clean } from '../base/text.ts'

const UNIT_MS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A pause without an end of its own is one that was forgotten; half an hour is a repair by hand. */
export const DEFAULT_PAUSE_MS = 30 * 60_000
/** Longer than a week is not a pause but a retirement. */
export const MAX_PAUSE_MS = 7 * 86_400_000

/**
 * Parses `90s`, `30m`, `2h`, `1d`, `1h30m`, in ms.
 * @throws UsageError for anything else, zero, or more than a week
 */
export function parseDuration(text: string): number {
  const parts = [...text.matchAll(/(\d{1,6})([smhd])/g)]
  const ms = parts.reduce((sum, [, n, unit]) => sum + Number(n) * (UNIT_MS[unit ?? ''] ?? 0), 0)
  if (parts.length === 0 || parts.map(([all]) => all).join('') !== text || ms === 0)
    throw new UsageError(
      `"${clean(text, 40)}" is no duration; write 90s, 30m, 2h or 1d`,
      'box node pause --help',
    )
  if (ms > MAX_PAUSE_MS)
    throw new UsageError(
      `"${clean(text, 40)}" is longer than 7d; a node that rests longer is retired`,
      'netvm-node-down --help',
    )
  return ms
}
