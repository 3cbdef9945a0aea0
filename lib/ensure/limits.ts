/** Limits that drift is judged by, and how they are told. */

/** Slack of every limit, in milliseconds: accuracy of the timer, the run itself, a loaded machine. */
export const SLACK_MS = 15_000

/** Whole seconds, minutes, hours or days for people. */
export function span(ms: number): string {
  if (ms < 120_000) return `${Math.round(ms / 1000)}s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)}min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)}h` : `${Math.round(ms / 86_400_000)}d`
}
