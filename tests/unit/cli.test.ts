import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { UsageError } from '../../lib/base/errors.ts'
import { byHand, plainTick } from '../../lib/cli/cli.ts'
import { epilogue } from '../../lib/cli/help.ts'
import { verbAndNode } from '../../lib/cli/verb.ts'

const TICKS: [string[], string | undefined][] = [
  [['muse'], 'muse'],
  [['646'], '646'],
  [[], undefined],
  [[''], undefined],
  [['--json'], undefined],
  [['-'], undefined],
  [['muse', '--why'], undefined],
  [['release', 'muse'], undefined],
]
for (const [argv, expected] of TICKS) {
  test(`plainTick(${JSON.stringify(argv)}) is ${expected}`, () => assert.equal(plainTick(argv), expected))
}

const HANDS: [string, NodeJS.ProcessEnv, boolean, boolean][] = [
  ['a terminal', {}, true, true],
  ['a pipe of a login shell', {}, false, true],
  ['started by systemd', { INVOCATION_ID: 'a1', SYSTEMD_EXEC_PID: '77' }, false, false],
  ['started by a systemd before 248', { INVOCATION_ID: 'a1' }, false, false],
  [
    'started by systemd on a terminal (TTYPath=)',
    { INVOCATION_ID: 'a1', SYSTEMD_EXEC_PID: '77' },
    true,
    true,
  ],
  [
    'a pipe of a shell that a unit started, as in a desktop’s terminal',
    { INVOCATION_ID: 'a1', SYSTEMD_EXEC_PID: '12' },
    false,
    true,
  ],
  ['a pipe with the variables emptied', { INVOCATION_ID: '', SYSTEMD_EXEC_PID: '' }, false, true],
]
for (const [what, env, terminal, expected] of HANDS)
  test(`by hand: ${what}: ${expected}`, () => assert.equal(byHand(env, 77, terminal), expected))

/** Runs code with lib/cli/cli.ts imported as `cli`, its stdout a pipe or, through script(1), a terminal. */
function inProcess(code: string, opts: { env?: Record<string, string>; terminal?: boolean } = {}) {
  const url = new URL('../../lib/cli/cli.ts', import.meta.url).href
  const argv = [
    '--import',
    'tsx',
    '--input-type=module',
    '-e',
    `import * as cli from ${JSON.stringify(url)}; ${code}`,
  ]
  // CI says to chalk that no person looks; here one does.
  const { NO_COLOR: _, FORCE_COLOR: __, NETVM_ROOT: ___, CI: ____, ...clean } = process.env
  const env = { ...clean, TERM: 'xterm', CODE: argv.at(-1) ?? '', ...opts.env }
  if (opts.terminal !== true) return spawnSync(process.execPath, argv, { env, encoding: 'utf8' })
  const command = `"${process.execPath}" --import tsx --input-type=module -e "$CODE"`
  return spawnSync('script', ['-qec', command, '/dev/null'], { env, encoding: 'utf8' })
}

test('a reader that has gone does not end the work', () => {
  const url = new URL('../../lib/cli/cli.ts', import.meta.url).href
  const work = `import * as cli from ${JSON.stringify(url)}; cli.outliveReader()
    for (let i = 0; i < 50; i++) { console.log('x'); await new Promise((r) => setTimeout(r, 10)) }
    process.exitCode = 7`
  const command = `"${process.execPath}" --import tsx --input-type=module -e "$CODE" | true; exit "\${PIPESTATUS[0]}"`
  const r = spawnSync('bash', ['--norc', '-c', command], {
    env: { ...process.env, CODE: work },
    encoding: 'utf8',
  })
  assert.equal(r.status, 7, r.stderr)
  assert.equal(r.stderr, '')
})

test('without a terminal: no colour', () => {
  const r = inProcess(`console.log(String(cli.isTty()), (await cli.style()).red('x'))`)
  assert.equal(r.stdout, 'false x\n')
})

const COLOURS: [string, Record<string, string>, string][] = [
  ['colour', {}, '\u001b[31mx\u001b[39m'],
  ['NO_COLOR', { NO_COLOR: '1' }, 'x'],
  ['an empty NO_COLOR does not count', { NO_COLOR: '' }, '\u001b[31mx\u001b[39m'],
  ['a dumb terminal', { TERM: 'dumb' }, 'x'],
]
for (const [what, env, expected] of COLOURS) {
  test(`on a terminal: ${what}`, () => {
    const r = inProcess(`console.log(String(cli.isTty()), (await cli.style()).red('x'))`, {
      env,
      terminal: true,
    })
    assert.equal(r.stdout.trim(), `true ${expected}`)
  })
}

test('requireRoot: root passes, anybody else is told what can still be seen', () => {
  const as = (uid: number) => `process.geteuid = () => ${uid}
    try { cli.requireRoot('box', 'receipts'); console.log('passed') }
    catch (e) { console.log(e.name, e.exitCode, e.message, e.next) }`
  assert.equal(inProcess(as(0)).stdout, 'passed\n')
  assert.equal(
    inProcess(as(1000)).stdout,
    'RootError 77 box needs root (still seen without: receipts) sudo box\n',
  )
  assert.equal(inProcess(as(1000), { env: { NETVM_ROOT: '/tmp/x' } }).stdout, 'passed\n')
})

test('a help ends with the statuses that are its own, those of every program, and examples', () => {
  assert.match(
    epilogue('netvm-node-up'),
    /^\nExit status: 0 everything answers; 1 .*; 2 .*;\n {2}64 usage error; 75 another run holds the lock; 77 /,
  )
  assert.match(epilogue('cdp-queue'), /; 75 no slot in time; /)
  assert.match(
    epilogue('netvm-names'),
    /^\nExit status: 0 done;\n {2}64 .*\n\nExamples:\n {2}netvm-names muse\n {6}its /,
  )
})

const VERBS: [string[], RegExp | { verb: string; node: string }][] = [
  [['up', 'muse'], { verb: 'up', node: 'muse' }],
  [['down', '646'], { verb: 'down', node: '646' }],
  [[], /missing required argument 'up or down'/],
  [['up'], /missing required argument 'node'/],
  [['restart', 'muse'], /'restart' is invalid.*up, down/],
  [['up', 'muse', 'pip'], /too many arguments/],
  [['up', 'muse', '--fast'], /unknown option '--fast'/],
  [['up', '../x'], /bad node name/],
  [['up', ''], /bad node name/],
]
for (const [argv, expected] of VERBS)
  test(`verbAndNode(${JSON.stringify(argv)})`, async () => {
    const asked = verbAndNode('netvm-netns', 'about', argv)
    if (!(expected instanceof RegExp)) return assert.deepEqual(await asked, expected)
    await assert.rejects(asked, (err) => err instanceof UsageError && expected.test(err.message))
  })
