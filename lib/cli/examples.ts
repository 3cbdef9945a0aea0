import { EXIT, type ExitCode } from '../base/exit-codes.ts'

interface Help {
  /** What its exit statuses mean; `ALWAYS` adds those that mean the same of every program. */
  readonly exit: Readonly<Partial<Record<ExitCode, string>>>
  /** Each command in use, and what it is for. */
  readonly examples: readonly (readonly [string, string])[]
}

const ALWAYS: Help['exit'] = {
  [EXIT.USAGE]: 'usage error',
  [EXIT.LOCKED]: 'another run holds the lock',
  [EXIT.NEEDS_ROOT]: 'needs root',
  [EXIT.CONFIG]: 'configuration refused',
}

const SUPERVISOR: Help['exit'] = { 0: 'healthy, recovered or nothing to do', 1: 'unhealthy', 2: 'unknown' }
const FLEET: Help['exit'] = { 0: 'all active', 1: 'something is down', 2: 'something is unknown' }
const LAYER: Help['exit'] = { 0: 'done', 1: 'a command failed', 2: 'a tool is missing' }

/** What `--help` says at its end, of each executable and of the commands of `box`. */
const HELP = {
  'agent-health': {
    exit: SUPERVISOR,
    examples: [
      ['agent-health', 'check every API once; silent while all are healthy'],
      ['agent-health muse --dry-run', 'what a run would do to muse, and what stops it'],
      ['agent-health status', 'strikes, circuits, and when the next probe is due'],
      ['agent-health reset muse', 'close a circuit by hand once the API is fixed'],
    ],
  },
  box: {
    exit: FLEET,
    examples: [
      ['box fleet status', 'how every active node is'],
      ['box approvals check', 'can the approval queues be read from this shell?'],
      ['box node pause muse --for 1h --reason "upgrade"', 'keep every supervisor off a node'],
    ],
  },
  'box approvals check': {
    exit: { 0: 'all OK', 1: 'something is down', 2: 'something is not verified' },
    examples: [
      ['box approvals check', 'every active node of this host'],
      ['box approvals check muse && read-the-queue muse', 'read a queue only where it can be believed'],
    ],
  },
  'box fleet status': {
    exit: FLEET,
    examples: [
      ['box fleet status', 'every active node of this host'],
      ['box fleet status muse pip', 'these two'],
      ['box fleet status --watch', 'again every two seconds'],
      [
        `box fleet status --json | jq -r '.nodes[] | select(.beneath != "ACTIVE") | .node'`,
        'the names of those that are not active',
      ],
    ],
  },
  'box node history': {
    exit: { 0: 'shown', 2: 'a log could not be read' },
    examples: [
      ['box node history muse', 'the last 20 repairs: before, after, how long, did it help'],
      ['box node history muse --lines 100 --json', 'more of them, for programs'],
    ],
  },
  'box node pause': {
    exit: { 0: 'done' },
    examples: [
      [
        'box node pause muse --for 2h --reason "signing in by hand"',
        'keep every supervisor off for two hours',
      ],
      ['box node resume muse', 'end the pause now'],
    ],
  },
  'cdp-queue': {
    exit: { 0: 'shown; run exits with the status of CMD', [EXIT.LOCKED]: 'no slot in time' },
    examples: [
      ['cdp-queue run muse -- ./screenshot.sh', 'wait for one of the two slots, then run'],
      ['cdp-queue run muse --priority low --timeout 300 -- ./backup.sh', 'let everybody else go first'],
      ['cdp-queue depth', 'who is inside, who waits, and since when'],
    ],
  },
  'cdp-relay-watchdog': {
    exit: SUPERVISOR,
    examples: [
      ['cdp-relay-watchdog', 'look at every relay once, and repair what is broken'],
      ['cdp-relay-watchdog muse --dry-run', 'what it would do to one of them'],
    ],
  },
  'chromebox-close': {
    exit: { 0: 'asked, or not; systemd ends what is left' },
    examples: [
      ['chromebox-close 9410 4711', "what the browser's unit runs to stop it: DevTools port, main pid"],
    ],
  },
  'chromebox-watchdog': {
    exit: SUPERVISOR,
    examples: [
      ['chromebox-watchdog muse', 'look once, repair if it is needed'],
      ['chromebox-watchdog muse --dry-run', 'what it would do, and which guard stops it'],
      [
        'chromebox-watchdog muse --why',
        'layers, last runs and attempts, how the last browser ended, what it printed',
      ],
      ['chromebox-watchdog release muse', 'end a hold-down once the cause is fixed'],
    ],
  },
  'ensure-node-supervision': {
    exit: { 0: 'as the registry says', 1: 'something is left to do', 2: 'could not look' },
    examples: [
      ['ensure-node-supervision --check', 'change nothing: what is not as it should be'],
      ['ensure-node-supervision --all', 'fix all of that; prints only what it changed'],
      ['ensure-node-supervision muse', 'the same for one node'],
    ],
  },
  'host-evidence': {
    exit: FLEET,
    examples: [
      ['host-evidence muse', 'why does the status say what it says?'],
      ['host-evidence --json', 'every active node, for programs'],
    ],
  },
  'netvm-names': {
    exit: { 0: 'printed' },
    examples: [
      ['netvm-names muse', 'its namespace, interfaces, addresses and port'],
      [`eval "$(netvm-names muse)"; ip netns exec "$NETNS" ip addr`, 'use them in a shell'],
    ],
  },
  'netvm-netns': {
    exit: LAYER,
    examples: [
      ['systemctl restart netvm-netns@muse', "the unit that runs this; it restarts the node's browser too"],
    ],
  },
  'netvm-node-down': {
    exit: { 0: 'nothing of it runs', 1: 'something is left', 2: 'could not look' },
    examples: [['netvm-node-down muse', "retire the row, stop everything, keep the browser's profile"]],
  },
  'netvm-node-up': {
    exit: { 0: 'everything answers', 1: 'something does not', 2: 'could not look' },
    examples: [
      ['netvm-node-up muse', 'create muse, or repair what is missing of it'],
      ['netvm-node-up muse --url https://chat.example/ --title Chat', 'with the page that it must show'],
      ['netvm-node-up muse --port 9410', 'a new row with a pinned DevTools port'],
    ],
  },
  'netvm-topology': {
    exit: { 0: 'clean', 1: 'something is broken or does not belong', 2: 'not everything could be looked at' },
    examples: [
      ['netvm-topology', 'the fleet by connectivity, and what does not belong'],
      ['netvm-topology --json', 'the same for programs'],
    ],
  },
  'netvm-tunnel': {
    exit: LAYER,
    examples: [['systemctl restart netvm-tunnel@muse', 'the unit that runs this; the browser keeps running']],
  },
} as const satisfies Readonly<Record<string, Help>>

export type Described = keyof typeof HELP

/** The examples of a command as a block of lines. */
export function examples(name: Described): string {
  const help: Help = HELP[name]
  return [
    '',
    'Examples:',
    ...help.examples.flatMap(([command, what]) => [`  ${command}`, `      ${what}`]),
  ].join('\n')
}

/** What stands below the help of a command: its exit statuses and its examples. */
export function epilogue(name: Described): string {
  const means: Help['exit'] = { ...ALWAYS, ...HELP[name].exit }
  const words = Object.entries(means).map(([code, what]) => `${code} ${what}`)
  const own = words.filter((word) => Number.parseInt(word, 10) < EXIT.USAGE)
  const exit = `Exit status: ${own.join('; ')};\n  ${words.slice(own.length).join('; ')}`
  return `\n${exit}\n${examples(name)}`
}
