/**
 * The time unit: how many times slower than a quick idle machine this one is, here and now, never below 1.
 * scripts/lib/lab-unit measures it when a lab boots (and scripts/test before the unit and cli stages) and hands it on
 * as NETVM_LAB_UNIT. A test that somebody runs by itself outside a lab has nobody who measured, and takes 1.
 */
export const UNIT = unitOf(process.env.NETVM_LAB_UNIT)

/** The unit that a word stands for: the number if it is at least 1, else 1. */
export function unitOf(word: string | undefined): number {
  const number = Number(word)
  return number >= 1 && number < Number.POSITIVE_INFINITY ? number : 1
}

/**
 * A shortened cadence, window or deadline of the product, in milliseconds of a quick machine, as milliseconds of
 * this one. It is what really passes, so it costs a slow machine its time and no more.
 */
export function scaled(ms: number): number {
  return Math.ceil(ms * UNIT)
}

/** The same in seconds, as configuration files and curl take them: at most three decimals. */
export function scaledSeconds(seconds: number): number {
  return Math.ceil(seconds * UNIT * 1000) / 1000
}

/**
 * How long a test waits for something that comes when it comes, in milliseconds of a quick machine. Only a failing
 * test waits to the end, so there is room for a load that came after the unit was measured.
 */
export function patience(ms: number): number {
  return scaled(ms) * 3
}
