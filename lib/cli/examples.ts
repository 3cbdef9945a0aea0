/** What `--help` shows of each executable in use: the command, and what it is for. */
const EXAMPLES = {
  'agent-health': [
    ['agent-health', 'look at every API once; silent while all is well'],
    ['agent-health muse --dry-run', 'what a run would do to muse, and what stops it'],
    ['agent-health status', 'strikes, circuits, and when the next probe is due'],
    ['agent-health reset muse', 'close a circuit by hand once the API is mended'],
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
    ['chromebox-watchdog release muse', 'end a hold-down once the cause is mended'],
  ],
  'ensure-node-supervision': [
    ['ensure-node-supervision --check', 'change nothing: what is not as it should be'],
    ['ensure-node-supervision --all', 'mend all of that; prints only what it changed'],
    ['ensure-node-supervision muse', 'the same for one node'],
  ],
  'netvm-names': [
    ['netvm-names muse', 'its namespace, interfaces, addresses and port'],
    [`eval "$(netvm-names muse)"; ip netns exec "$NETNS" ip addr`, 'use them in a shell'],
  ],
  'netvm-netns': [
    ['systemctl restart netvm-netns@muse', 'the unit that runs this; it takes the node’s browser along'],
  ],
  'netvm-node-down': [
    ['netvm-node-down muse', "retire the row, stop everything, keep the browser's profile"],
  ],
  'netvm-node-up': [
    ['netvm-node-up muse', 'make muse whole again, or make it'],
    ['netvm-node-up muse --url https://chat.example/ --title Chat', 'with the page that it must show'],
    ['netvm-node-up muse --port 9410', 'a new row with a pinned DevTools port'],
  ],
  'netvm-topology': [
    ['netvm-topology', 'the fleet by connectivity, and what does not belong'],
    ['netvm-topology --json', 'the same for programs'],
  ],
  'netvm-tunnel': [['systemctl restart netvm-tunnel@muse', 'the unit that runs this; the browser stays up']],
} as const satisfies Record<string, readonly (readonly [string, string])[]>

/** The examples of an executable as a block of lines that follows its help. */
export function examples(program: keyof typeof EXAMPLES): string {
  const rows: readonly (readonly [string, string])[] = EXAMPLES[program]
  return ['', 'Examples:', ...rows.flatMap(([command, what]) => [`  ${command}`, `      ${what}`])].join('\n')
}
