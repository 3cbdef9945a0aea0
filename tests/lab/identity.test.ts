import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { afterEach, before, test } from 'node:test'
import { linesSince, logMark, quietNode, untilIdle, untilOlder, wellAgain } from '../kit/lab/browser.ts'
import { actions, addresses, answers, relayDown, sweep, verdict } from '../kit/lab/relay.ts'
import { browser, ok, receipt, sh, tick, until } from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

const WATCHDOG = 'chromebox-watchdog@muse.service'
const strangers: ChildProcess[] = []

before(() => quietNode('muse'))

afterEach(async () => {
  for (const child of strangers.splice(0)) child.kill('SIGKILL')
  sh(['systemctl', 'unmask', '--runtime', WATCHDOG])
  sh(['systemctl', 'start', 'cdp-relay@muse.socket'])
  // One that could not have its port has no other way to it than a new start.
  sh(['systemctl', 'restart', 'chromebox@muse.service'])
  await wellAgain('muse')
})

const listens = (address: string) =>
  sh(['ip', 'netns', 'exec', 'warp-muse', 'ss', '-Hltn']).stdout.includes(
    ` ${address}:${addresses('muse').port} `,
  )

/** A program in the node's namespace. */
function inside(argv: readonly string[]): ChildProcess {
  const child = spawn('ip', ['netns', 'exec', 'warp-muse', ...argv], { stdio: 'ignore' })
  strangers.push(child)
  return child
}

const script = (listen: string, code: string, ...args: string[]) =>
  inside(['node', '-e', `${code}.listen(${addresses('muse').port}, '${listen}')`, ...args])

const SILENT = "require('net').createServer(() => {})"
const http = (body: string) => `require('http').createServer((_, r) => r.end('${body}'))`

/** Another browser: another profile, the node's port, a page with the node's title. */
function chromium(): ChildProcess {
  rmSync('/tmp/stranger', { recursive: true, force: true })
  mkdirSync('/tmp/stranger')
  return inside([
    '/usr/lib/chromium/chromium',
    '--headless=new',
    '--no-sandbox',
    '--user-data-dir=/tmp/stranger',
    `--remote-debugging-port=${addresses('muse').port}`,
    'data:text/html,<title>Chat</title>',
  ])
}

/** Ours is started while somebody else has what it needs, and is left alone until a test has it looked at. */
async function startBeside(stranger: () => ChildProcess, address?: string): Promise<ChildProcess> {
  ok(['systemctl', 'mask', '--runtime', WATCHDOG])
  ok(['systemctl', 'stop', 'chromebox@muse.service'])
  // The relay's socket has the port too, so nobody could have it on every address.
  if (address === '0.0.0.0' || address === '*') relayDown('muse')
  const child = stranger()
  if (address !== undefined) await until(`it listens on ${address}`, () => listens(address), 30_000)
  ok(['systemctl', 'start', 'chromebox@muse.service'])
  ok(['systemctl', 'unmask', '--runtime', WATCHDOG])
  await untilOlder('muse')
  return child
}

const alive = (child: ChildProcess) => child.exitCode === null && child.signalCode === null

const PORT: readonly (readonly [string, string, () => ChildProcess])[] = [
  ['another browser with such a page', '127.0.0.1', chromium],
  ['a program that says nothing', '127.0.0.1', () => script('127.0.0.1', SILENT)],
  ['a program that answers {"ok":true}', '127.0.0.1', () => script('127.0.0.1', http('{"ok":true}'))],
  ['one on every address of IPv4', '0.0.0.0', () => script('0.0.0.0', SILENT)],
  ['one on every address, both protocols', '*', () => script('::', http('{"ok":true}'))],
]
for (const [what, address, stranger] of PORT)
  test(`45: the port is held by ${what}: named, nothing killed, nothing closed`, async () => {
    const other = await startBeside(stranger, address)
    const pid = browser('muse')?.pid
    assert.ok(pid)
    const mark = logMark()
    for (let i = 0; i < 2; i++) {
      assert.equal(tick('muse').status, '1')
      assert.equal(receipt('chromebox-watchdog', 'muse')?.verdict.code, 'port-squatted')
    }
    const lines = linesSince(mark, 'muse').join('\n')
    assert.match(lines, rx`FAIL \[muse\] ${says('port-squatted', { port: /\d+/ })}`)
    assert.match(lines, new RegExp(`from pid ${other.pid} \\([^)]*(chromium|node)`))
    sweep()
    assert.equal(verdict('muse')?.code, 'port-squatted')
    assert.deepEqual(actions('muse'), [])
    assert.doesNotMatch(sh(['box', 'fleet', 'status']).stdout, /muse .*ACTIVE/)
    assert.equal(browser('muse')?.pid, pid)
    ok(['systemctl', 'stop', 'chromebox@muse.service'])
    assert.equal(existsSync(`/proc/${pid}`), false)
    await untilIdle('muse')
    assert.ok(alive(other))
  })

test('84: a program with the profile flag that is no Chromium is not taken for the browser, and not ended', async () => {
  const flag = '--user-data-dir=/var/lib/chromebox/muse'
  const other = await startBeside(() => inside(['node', '-e', 'setInterval(() => {}, 1e6)', '--', flag]))
  const pid = browser('muse')?.pid ?? 0
  await until('ours is healthy', () => tick('muse').status === '0', 30_000)
  assert.equal(browser('muse')?.pid, pid)
  process.kill(pid, 'SIGKILL')
  await until('relaunched', () => (browser('muse')?.pid ?? pid) !== pid, 60_000)
  await untilIdle('muse')
  assert.equal(receipt('chromebox-watchdog', 'muse')?.verdict.state, 'healthy')
  assert.ok(alive(other))
})

test("83: the browser is frozen and a stranger has the relay's address: no working relay is spoken of", async () => {
  const { peer, port } = addresses('muse')
  relayDown('muse')
  const other = script(peer, SILENT)
  await until('it listens', () => listens(peer), 30_000)
  const pid = browser('muse')?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  try {
    assert.equal(sweep().exit, 1)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  const said = verdict('muse')
  assert.deepEqual([said?.code, actions('muse')], ['browser-and-relay-down', []])
  assert.match(
    said?.evidence.join('\n') ?? '',
    new RegExp(`${peer}:${port} in warp-muse held by node -e \\(pid ${other.pid}`),
  )
  assert.ok(alive(other))
})

test("45: another browser answers at the relay's address: not healthy, removed, and the relay is back", async () => {
  const { peer, port } = addresses('muse')
  relayDown('muse')
  const version = `{"Browser":"Chrome/156","webSocketDebuggerUrl":"ws://${peer}:${port}/devtools/browser/x"}`
  const other = script(peer, http(version))
  await until('it answers', () => answers('muse'), 30_000)
  const run = sweep()
  assert.match(run.log, rx`${says('foreign-listener', { where: /\S+ in warp-muse held by node -e .*/ })}`)
  assert.ok(run.log.includes(`pid ${other.pid}`))
  assert.deepEqual(actions('muse'), ['remove-listener', 'restart-relay'])
  assert.equal(verdict('muse')?.state, 'healthy')
})
