import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, HEAD, type Root, row } from '../kit/bad-input.ts'

// Bad input to every executable: one line that says what is wrong and what to do, the exit code of the contract,
// nothing changed.

const LONG = 'x'.repeat(5000)
const HOSTILE = 'mu\u001b[31mse\nrm -rf /\u0007\u009b'

/** Commands about one node; `NODE` is replaced. */
const ABOUT_A_NODE: readonly (readonly string[])[] = [
  ['agent-health', 'NODE'],
  ['agent-health', 'status', 'NODE'],
  ['agent-health', 'reset', 'NODE'],
  ['box', 'fleet', 'status', 'NODE'],
  ['box', 'approvals', 'check', 'NODE'],
  ['box', 'node', 'pause', 'NODE'],
  ['box', 'node', 'resume', 'NODE'],
  ['box', 'node', 'history', 'NODE'],
  ['cdp-queue', 'run', 'NODE', '--', 'true'],
  ['cdp-queue', 'depth', 'NODE'],
  ['cdp-relay-watchdog', 'NODE'],
  ['chromebox-watchdog', 'NODE'],
  ['chromebox-watchdog', 'release', 'NODE'],
  ['ensure-node-supervision', 'NODE'],
  ['ensure-node-supervision', '--check', 'NODE'],
  ['host-evidence', 'NODE'],
  ['netvm-names', 'NODE'],
  ['netvm-netns', 'up', 'NODE'],
  ['netvm-netns', 'down', 'NODE'],
  ['netvm-node-down', 'NODE'],
  ['netvm-node-up', 'NODE'],
  ['netvm-tunnel', 'up', 'NODE'],
  ['netvm-tunnel', 'down', 'NODE'],
]
const BAD_NAMES: readonly (readonly [string, RegExp])[] = [
  ['../x', /"\.\.\/x"/],
  ['', /""/],
  ['UP!', /"UP!"/],
  [LONG, /x{20}…/],
  [HOSTILE, /"muse rm -rf \/"/],
]
const withNode = (argv: readonly string[], node: string) => argv.map((a) => (a === 'NODE' ? node : a))

for (const argv of ABOUT_A_NODE)
  for (const [bad, names] of BAD_NAMES) check('a bad name', withNode(argv, bad), { code: 64, names })

/** Programs that go by a name alone, and those that make a node or take what is left of it. */
const NEEDS_NO_ROW = /^(netvm-names|netvm-netns|netvm-tunnel|netvm-node-up)/
for (const argv of ABOUT_A_NODE.filter(([p = '']) => !NEEDS_NO_ROW.test(p)))
  check('an unknown node', withNode(argv, 'musee'), { code: 64, names: /"musee".*muse/ })

for (const argv of ABOUT_A_NODE.filter(([p, v]) =>
  p === 'cdp-queue' ? v === 'run' : /^(agent-health|cdp-relay-watchdog)$/.test(p ?? ''),
))
  check('a retired node', withNode(argv, 'old'), { code: 64, names: /old .*retired/ })

/** Each program with its words in order, for what is wrong whatever the words are. */
const WHOLE: readonly (readonly string[])[] = [
  ...ABOUT_A_NODE.map((argv) => withNode(argv, 'muse')),
  ['agent-health'],
  ['box', 'fleet', 'status'],
  ['cdp-relay-watchdog'],
  ['ensure-node-supervision', '--all'],
  ['ensure-node-supervision', '--check'],
  ['host-evidence'],
  ['netvm-topology'],
]
const option = (argv: readonly string[], o: string) => {
  const at = argv.indexOf('--')
  return at < 0 ? [...argv, o] : [...argv.slice(0, at), o, ...argv.slice(at)]
}
for (const argv of [...WHOLE, ['chromebox-close', '9410', '4711']])
  check('an unknown option', option(argv, '--fast'), { code: 64, names: /--fast/ })
check('a long option', ['netvm-node-up', 'muse', `--${LONG}`], { code: 64, names: /--x{20}/ })
for (const argv of WHOLE) check('a hostile option', option(argv, `--${HOSTILE}`), { code: 64, names: /muse/ })

const ONE_NODE_ONLY = WHOLE.filter(
  ([p, v, w]) =>
    v !== undefined &&
    !['--all', '--check', 'fleet', 'approvals', 'status'].includes(v) &&
    (!/^(agent-health|cdp-relay-watchdog|host-evidence|cdp-queue)$/.test(p ?? '') ||
      v === 'reset' ||
      v === 'depth') &&
    w !== '--',
)
for (const argv of ONE_NODE_ONLY) {
  const names = /too many arguments|unexpected argument|pip/
  check('one argument too many', [...argv, 'pip'], { code: 64, names })
}
check('one argument too many', ['netvm-topology', 'pip'], { code: 64, names: /"pip"/ })
check('one argument too many', ['chromebox-close', '9410', '4711', '12'], { code: 64, names: /9410 4711 12/ })
check('a hostile argument', ['netvm-topology', HOSTILE], { code: 64, names: /muse rm/ })
check('a long argument', ['netvm-topology', LONG], { code: 64, names: /x{20}…/ })
check('an empty argument', ['netvm-topology', ''], { code: 64, names: /""/ })
for (const word of ['', LONG, HOSTILE, '0', '65536', '1e3', '-1'])
  check('a bad port', ['chromebox-close', word], { code: 64, names: /give a port and a main pid/ })
for (const pid of ['', '0', '1', 'x', LONG])
  check('a bad pid', ['chromebox-close', '9410', pid], { code: 64, names: /give a port and a main pid/ })

for (const argv of [['box'], ['box', 'fleet'], ['box', 'node'], ['cdp-queue'], ['cdp-queue', 'run', 'muse']])
  check('not enough', argv, { code: 64, names: /which command|run|status|pause/ })
for (const argv of [
  ['cdp-queue', 'run'],
  ['chromebox-close'],
  ['chromebox-watchdog'],
  ['ensure-node-supervision'],
  ['netvm-names'],
  ['netvm-netns'],
  ['netvm-netns', 'up'],
  ['netvm-node-down'],
  ['netvm-node-up'],
  ['netvm-tunnel'],
  ['netvm-tunnel', 'down'],
])
  check('not enough', argv, { code: 64, names: /node|up or down|port/ })
for (const word of ['', LONG, HOSTILE])
  for (const argv of [['box'], ['box', 'node'], ['cdp-queue'], ['netvm-netns'], ['netvm-tunnel']])
    check('an unknown command', [...argv, word, 'muse'], {
      code: 64,
      names: word === LONG ? /x{20}/ : word === '' ? /: / : /muse/,
    })

/** Options with a value, and values that do not fit. */
const VALUES: readonly (readonly [readonly string[], readonly string[], RegExp])[] = [
  [['netvm-node-up', 'muse', '--port'], ['99999', '80', '', 'x', LONG, HOSTILE], /--port/],
  [['netvm-node-up', 'pip', '--url'], ['notaurl', LONG, HOSTILE, 'https://x/\n'], /--url/],
  [['netvm-node-up', 'pip', '--api'], ['notapath', '//other', LONG, HOSTILE], /--api/],
  [['netvm-node-up', 'pip', '--title'], [LONG, HOSTILE], /--title/],
  [
    ['box', 'node', 'pause', 'muse', '--for'],
    ['30x', '8d', '0s', '', LONG, HOSTILE],
    /duration|longer than 7d/,
  ],
  [['box', 'node', 'history', 'muse', '--lines'], ['x', '-1', '0', '', LONG, HOSTILE], /--lines/],
  [['cdp-queue', 'depth', 'muse', '--timeout'], ['3'], /unknown option '--timeout'/],
]
for (const [argv, values, names] of VALUES)
  for (const value of values) check('a bad value', [...argv, value], { code: 64, names })
for (const [o, values] of [
  ['--timeout', ['1e3', '-1', '', LONG, HOSTILE]],
  ['--priority', ['urgent', '', LONG, HOSTILE]],
] as const)
  for (const value of values)
    check('a bad value', ['cdp-queue', 'run', 'muse', o, value, '--', 'true'], {
      code: 64,
      names: new RegExp(o.slice(2)),
    })
check(
  'a bad value in the environment',
  ['netvm-node-up', 'pip'],
  { code: 64, names: /CDP_PORT_OVERRIDE/ },
  { env: () => ({ CDP_PORT_OVERRIDE: HOSTILE }) },
)

/** What every program reads. A name alone is enough for some, and a queue that is there goes on being used. */
const READS_FILES = WHOLE.filter(([p = '']) => !/^netvm-(names|netns|tunnel)$/.test(p))
for (const argv of READS_FILES) {
  const registry = (root: Root) => join(root.dir, 'etc/netvm/NODES.md')
  const config = (root: Root, text: string) => root.write('etc/netvm/netvm.env', text)
  const bad = (name: string, names: RegExp, before: (root: Root) => void) =>
    check(name, argv, { code: 78, names }, { before })
  bad('no registry', /no registry at .*NODES\.md/, (r) => rmSync(registry(r)))
  bad('a registry without a table', /NODES\.md: no table/, (r) => writeFileSync(registry(r), 'x'))
  bad('an unknown key in the configuration', /netvm\.env: line 1: unknown key NETVM_X/, (r) =>
    config(r, 'NETVM_X=1\n'),
  )
  bad('a hostile configuration', /netvm\.env: line 1: /, (r) =>
    config(r, `${HOSTILE.replace('\n', '')}${LONG}\n`),
  )
  bad('a configuration that cannot be read', /netvm\.env: EISDIR/, (r) =>
    mkdirSync(join(r.dir, 'etc/netvm/netvm.env')),
  )
}

/** The row of the node itself is refused. */
for (const argv of ABOUT_A_NODE.filter(([p = '']) => !/^netvm-(names|netns|tunnel)$/.test(p)))
  check(
    'a refused row',
    withNode(argv, 'bent'),
    { code: 78, names: /bent.*NODES\.md line 5/ },
    {
      before: (r) =>
        r.write('etc/netvm/NODES.md', `# Nodes\n\n${HEAD}${row('bent', 10).replace(' 9410 ', ' 99 ')}`),
    },
  )
