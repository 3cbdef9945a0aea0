import { EXIT, type ExitCode } from '../base/exit-codes.ts'

/** What `--help` shows in use of each executable, and of the commands of `box`: the command, and what it is for. */
const EXAMPLES = {
  'agent-health': [
    ['agent-health', 'check every API once; silent while all are healthy'],
    ['agent-health muse --dry-run', 'what a run would do to muse, and what stops it'],
    ['agent-health status', 'strikes, circuits, and when the next probe is due'],
    ['agent-health reset muse', 'close a circuit by hand once the API is fixed'],
  ],
  box: [
    ['box fleet status', 'how every active node is'],
    ['box approvals check', 'can the approval queues be read from this shell?'],
    ['box node pause muse --for 1h --reason "upgrade"', 'keep every supervisor off a node'],
  ],
  'box approvals check': [
    ['box approvals check', 'every active node of this host'],
    ['box approvals check muse && read-the-queue muse', 'read a queue only where it can be believed'],
  ],
  'box fleet restart': [
    ['box fleet restart --rolling', 'every browser of this host, for instance after an upgrade of its unit'],
    ['box fleet restart --rolling muse pip', 'these two, in this order'],
  ],
  'box fleet status': [
    ['box fleet status muse pip', 'these two; without a name every active node of this host'],
    ['box fleet status --watch', 'again every two seconds'],
    [
      `box fleet status --json | jq -r '.nodes[] | select(.beneath != "ACTIVE") | .node'`,
      'who is not active',
    ],
  ],
  'box node history': [
    ['box node history muse', 'the last 20 repairs: before, after, how long, did it help'],
    ['box node history muse --lines 100 --json', 'more of them, for programs'],
  ],
  'box node pause': [
    ['box node pause muse --for 2h --reason "signing in by hand"', 'keep every supervisor off for two hours'],
    ['box node resume muse', 'end the pause now'],
  ],
  'cdp-queue': [
    ['cdp-queue run muse -- ./screenshot.sh', 'wait for one of the two slots, then run'],
    ['cdp-queue run muse --priority low --timeout 300 -- ./backup.sh', 'let everybody else go first'],
    ['cdp-queue depth', 'who is inside, who waits, and since when'],
  ],
  'cdp-relay-watchdog': [
    ['cdp-relay-watchdog', 'look at every relay once, and repair what is broken'],
    ['cdp-relay-watchdog muse --dry-run', 'what it would do to one of them'],
  ],
  'chromebox-close': [
    ['chromebox-close 9410 4711', "what the browser's unit runs to stop it: DevTools port, main pid"],
  ],
  'chromebox-watchdog': [
    ['chromebox-watchdog muse', 'look once, repair if it is needed'],
    ['chromebox-watchdog muse --dry-run', 'what it would do, and which guard stops it'],
    [
      'chromebox-watchdog muse --why',
      'layers, last runs and attempts, how the last browser ended, what it printed',
    ],
    ['chromebox-watchdog release muse', 'end a hold-down once the cause is fixed'],
  ],
  'ensure-node-supervision': [
    ['ensure-node-supervision --check', 'change nothing: what is not as it should be'],
    ['ensure-node-supervision --all', 'fix all of that; prints only what it changed'],
    ['ensure-node-supervision muse', 'the same for one node'],
  ],
  'host-evidence': [
    ['host-evidence muse', 'why does the status say what it says?'],
    ['host-evidence --json', 'every active node, for programs'],
  ],
  'netvm-names': [
    ['netvm-names muse', 'its namespace, interfaces, addresses and port'],
    [`eval "$(netvm-names muse)"; ip netns exec "$NETNS" ip addr`, 'use them in a shell'],
  ],
  'netvm-netns': [
    ['systemctl restart netvm-netns@muse', "the unit that runs this; it restarts the node's browser too"],
  ],
  'netvm-node-down': [
    ['netvm-node-down muse', "retire the row, stop everything, keep the browser's profile"],
  ],
  'netvm-node-up': [
    ['netvm-node-up muse', 'create muse, or repair what is missing of it'],
    ['netvm-node-up muse --url https://chat.example/ --title Chat', 'with the page that it must show'],
    ['netvm-node-up muse --port 9410', 'a new row with a pinned DevTools port'],
  ],
  'netvm-topology': [
    ['netvm-topology', 'the fleet by connectivity, and what does not belong'],
    ['netvm-topology --json', 'the same for programs'],
  ],
  'netvm-tunnel': [
    ['systemctl restart netvm-tunnel@muse', 'the unit that runs this; the browser keeps running'],
  ],
} as const satisfies Record<string, readonly (readonly [string, string])[]>

/** What has a help: an executable, or a command of `box`. */
export type Described = keyof typeof EXAMPLES

type Meanings = Readonly<Partial<Record<ExitCode, string>>>

/** What exit statuses mean of every program, unless it has words of its own. */
const USUAL: Meanings = {
  [EXIT.OK]: 'done',
  [EXIT.USAGE]: 'usage error',
  [EXIT.LOCKED]: 'another run holds the lock',
  [EXIT.NEEDS_ROOT]: 'needs root',
  [EXIT.CONFIG]: 'configuration refused',
}
const SUPERVISOR: Meanings = { 0: 'healthy, recovered or nothing to do', 1: 'unhealthy', 2: 'unknown' }
const FLEET: Meanings = { 0: 'all active', 1: 'something is down', 2: 'something is unknown' }

const OWN: Readonly<Partial<Record<Described, Meanings>>> = {
  'agent-health': SUPERVISOR,
  'chromebox-watchdog': SUPERVISOR,
  'cdp-relay-watchdog': SUPERVISOR,
  box: FLEET,
  'box fleet restart': {
    0: 'all restarted and healthy, but for paused ones',
    1: 'stopped at one that is not healthy',
  },
  'box fleet status': FLEET,
  'host-evidence': FLEET,
  'box approvals check': { 0: 'all OK', 1: 'something is down', 2: 'something is not verified' },
  'box node history': { 2: 'a log could not be read' },
  'cdp-queue': { 0: 'shown; run exits with the status of CMD', [EXIT.LOCKED]: 'no slot in time' },
  'ensure-node-supervision': { 0: 'as the registry says', 1: 'something is left to do', 2: 'unknown' },
  'netvm-node-down': { 0: 'nothing of it is left running', 1: 'something is', 2: 'unknown' },
  'netvm-node-up': { 0: 'everything answers', 1: 'something does not', 2: 'unknown' },
  'netvm-topology': { 0: 'clean', 1: 'something is broken or does not belong', 2: 'something was not seen' },
}

/** The examples as a block of lines. */
function examples(name: Described): string {
  const rows: readonly (readonly [string, string])[] = EXAMPLES[name]
  return ['', 'Examples:', ...rows.flatMap(([command, what]) => [`  ${command}`, `      ${what}`])].join('\n')
}

/** What stands below a help: the exit statuses and the examples. */
export function epilogue(name: Described): string {
  const words = Object.entries({ ...USUAL, ...OWN[name] }).map(([code, what]) => `${code} ${what}`)
  const usage = words.findIndex((word) => word.startsWith(`${EXIT.USAGE} `))
  return `\nExit status: ${words.slice(0, usage).join('; ')};\n  ${words.slice(usage).join('; ')}\n${examples(name)}`
}
