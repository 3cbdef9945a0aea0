/** What each word means for somebody who is about to read a queue of approvals over CDP. */
export const READABLE = {
  OK: 'readable over CDP',
  BLIND: 'queues unverified, not clear: the host says CDP is fine, this shell cannot reach it',
  DOWN: 'nothing can be read',
  UNKNOWN: 'queues unverified: neither this shell nor the host can say',
} as const

/** The words of `box fleet status`. */
const STATUS = {
  ACTIVE: 'the browser answers this shell now, and every other layer was seen healthy recently enough',
  'ACTIVE [*]': 'cannot be seen from here; recent runs on the host report it (age and source are shown)',
  'DEGRADED <layer>': 'the lowest layer that fails; its owner repairs it or pages',
  STOPPED: 'the browser is not running: seen in the process table, or reported by systemd',
  'HELD DOWN': 'too many relaunches failed: one attempt every half hour, until a person releases it',
  PAUSED: 'watched, not acted on, until the time that is shown',
  UNKNOWN: 'could not be determined; never a guess. Why: host-evidence <node>',
} as const

/** Words and their meanings as a block of lines, for a help. */
function glossary(words: Readonly<Record<string, string>>): string {
  const width = Math.max(...Object.keys(words).map((word) => word.length))
  const lines = Object.entries(words).map(([w, what]) => `  ${w.padEnd(width)}  ${what}`)
  return ['', 'The words:', ...lines].join('\n')
}

export const statusWords = (): string => glossary(STATUS)
export const readableWords = (): string => glossary(READABLE)
