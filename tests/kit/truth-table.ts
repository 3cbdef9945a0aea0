/**
 * The truth table: which word each kind of shell must print for each state of a node. It is data,
 * written before the code, and shared by the unit test of `decide` and by the lab, where every
 * state is made for real and every shell is a real one.
 *
 * Two rules stand above every cell: nobody says ACTIVE (with or without `[*]`) of a node that is
 * down, and nobody says STOPPED of a node that is up.
 */
export const STATES = [
  'healthy',
  'dead',
  'frozen',
  'relay-down',
  'veth-lost',
  'tunnel-cut',
  'torn-down',
  'timer-disabled',
  'journald-stopped',
  'journal-vacuumed',
  'receipts-old',
  'rebooted',
  'squatted-relay',
  'held-down',
  'paused',
] as const
export type State = (typeof STATES)[number]

export const SHELLS = [
  /** root in the host's namespaces. */
  'root',
  /** An ordinary user in the host's namespaces. */
  'user',
  /** `unshare -Ur`: uid 0 without any power. */
  'fake-root',
  /** An ordinary user whose /proc hides the processes of others. */
  'hidepid',
  /** Own PID namespace with its own /proc; the host's network. */
  'own-pid',
  /** Own network namespace; the host's processes. */
  'own-net',
  /** Own PID and network namespaces. */
  'both',
  /** The host's namespaces, but no socket of systemd or D-Bus. */
  'no-bus',
  /** Own namespaces, no bus, nothing under /run, no journal: the registry, the logs and the state on disk. */
  'logs-only',
] as const
export type Shell = (typeof SHELLS)[number]

/** Is the node usable while it is in this state? What no word may contradict. */
export const IS_UP: Readonly<Record<State, boolean>> = {
  healthy: true,
  dead: false,
  frozen: false,
  'relay-down': false,
  'veth-lost': false,
  'tunnel-cut': false,
  'torn-down': false,
  'timer-disabled': true,
  'journald-stopped': true,
  'journal-vacuumed': true,
  'receipts-old': true,
  rebooted: true,
  'squatted-relay': false,
  'held-down': false,
  paused: true,
}

/** One word for every shell. */
const all = (word: string): Record<Shell, string> =>
  Object.fromEntries(SHELLS.map((s) => [s, word])) as Record<Shell, string>

const UP_AND_KNOWN: Record<Shell, string> = {
  ...all('ACTIVE'),
  'own-net': 'ACTIVE [*]',
  both: 'ACTIVE [*]',
  'logs-only': 'UNKNOWN',
}
/** Up, nobody watches it any more, and the last looks still count: only who sees it live says so. */
const UP_SEEN_ONLY: Record<Shell, string> = { ...UP_AND_KNOWN, 'own-net': 'UNKNOWN', both: 'UNKNOWN' }

export const EXPECTED: Readonly<Record<State, Readonly<Record<Shell, string>>>> = {
  healthy: UP_AND_KNOWN,
  // STOPPED needs a look that is made now: the process table or systemd. A log is neither.
  dead: { ...all('STOPPED'), 'logs-only': 'DEGRADED process' },
  frozen: all('DEGRADED cdp'),
  'relay-down': all('DEGRADED relay'),
  'veth-lost': all('DEGRADED netns'),
  // The host's side of the relay answers; what is broken was seen from inside by the watchdog.
  'tunnel-cut': all('DEGRADED egress'),
  'torn-down': { ...all('STOPPED'), 'logs-only': 'UNKNOWN' },
  'timer-disabled': UP_SEEN_ONLY,
  'journald-stopped': UP_AND_KNOWN,
  'journal-vacuumed': UP_AND_KNOWN,
  // Nobody has seen the API (and the tunnel) within their time: an answer over CDP does not say how they are.
  'receipts-old': all('UNKNOWN'),
  rebooted: all('UNKNOWN'),
  // The relay's owner has not run since: systemd says that the socket is gone. Without it an answer that is no browser's
  // may be the relay's fault or the browser's.
  'squatted-relay': {
    ...all('DEGRADED relay'),
    'no-bus': 'DEGRADED (layer not known)',
    'logs-only': 'UNKNOWN',
  },
  'held-down': all('HELD DOWN'),
  paused: all('PAUSED'),
}
