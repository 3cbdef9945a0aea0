// Terminal escape sequences: CSI (colour, cursor), OSC (title, clipboard; ends in BEL or ST), and the
// two-character kind. Removed as a whole, so that `\e[31mred` reads `red` and not `[31mred`.
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it is for
  /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[ -/]*[0-~]|\u009b[0-?]*[ -/]*[@-~]/g

// C0, DEL, C1, line and paragraph separators, and the bidirectional controls that reorder a line.
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it is for
  /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g

/**
 * Makes untrusted text safe for one line of a log or a terminal: escape sequences are removed, runs of
 * control characters and newlines become one space, the ends are trimmed, and what is longer than
 * `max` characters (code points) is cut and ends in `…`.
 */
export function clean(s: string, max = 300): string {
  // Look at no more than could matter: the input may be megabytes of somebody's HTML.
  const head = s.length > max * 8 ? s.slice(0, max * 8) : s
  const line = head.replace(ESCAPES, '').replace(CONTROLS, ' ').trim()
  if (line.length <= max && head.length === s.length) return line
  const points = Array.from(line)
  if (points.length <= max && head.length === s.length) return line
  return `${points.slice(0, Math.max(0, max - 1)).join('')}…`
}

/** True when the text holds a control character (C0, DEL, C1, separators, bidirectional controls). */
export function hasControl(s: string): boolean {
  return s.search(CONTROLS) !== -1
}

/** A duration in milliseconds for people: `0.4s`, `12s`, `1m 3s`, `2h 5m`, `3d 4h`. */
export function seconds(ms: number): string {
  if (!Number.isFinite(ms)) return 'unknown'
  if (ms < 0) return `-${seconds(-ms)}`
  if (ms < 950) return `${Math.round(ms / 100) / 10}s`
  const s = Math.round(ms / 1000)
  if (s < 60) return `${s}s`
  const m = Math.floor(s / 60)
  if (m < 60) return pair(m, 'm', s % 60, 's')
  const h = Math.floor(m / 60)
  if (h < 24) return pair(h, 'h', m % 60, 'm')
  return pair(Math.floor(h / 24), 'd', h % 24, 'h')
}

function pair(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big}${bigUnit}` : `${big}${bigUnit} ${small}${smallUnit}`
}

/**
 * The same in one unit, for sentences that need no more: `87s` below two minutes, then `4m`.
 * @param round `Math.ceil` for a wait, which is not over before its time
 */
export function coarse(ms: number, round: (n: number) => number = Math.round): string {
  const s = round(ms / 1000)
  return s < 120 ? `${s}s` : `${round(s / 60)}m`
}
