import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { before, beforeEach, test } from 'node:test'
import type { Code } from '../../lib/report/codes.ts'
import {
  addresses,
  answers,
  identities,
  nextCommand,
  relayDown,
  relayFleet,
  squat,
  sweep,
} from '../kit/lab/relay.ts'
import { browser, logText, ok, sh, until, writeUnit } from '../kit/lab.ts'
import { logged, says } from '../kit/says.ts'

// Every line of the relay's supervisor that tells of a fault ends with a command. Here each is made to be
// printed by a real fault, and is then run as it stands, by a shell, the way a tired person pastes it.

const socket = 'cdp-relay@muse.socket'
const DROP_IN = 'cdp-relay@muse.service.d/zz-lab.conf'
/** The two ends of the veth, as the table's texts take them. */
const host = { veth: /ve-\w+/, gw: '10.201.35.1' }
const inside = { veth: /vp-\w+/, netns: 'warp-muse' }
let browsers: ReturnType<typeof identities>

before(async () => {
  await relayFleet('muse')
  browsers = identities('muse')
  assert.equal(sweep().exit, 0)
})

/** Whatever a test that failed left broken is no other one's beginning. */
beforeEach(async () => {
  if (sweep().exit === 0 && answers('muse')) return
  sh(['systemctl', 'unmask', '--runtime', socket])
  rmSync(`/etc/systemd/system/${DROP_IN}`, { force: true })
  sh(['systemctl', 'daemon-reload'])
  sh(['netvm-node-up', 'muse'], { deadlineMs: 150_000 })
  await until('the relay answers', () => answers('muse'))
  browsers = identities('muse')
})

/** One run, what it must have said (level, code and the table's words with these values), and the printed command, run. */
function run(level: string, code: Code, words: string, command: RegExp): void {
  const { log } = sweep()
  const told = logged(log)
  const line = told.find((l) => l.level === level && (l.code === code || l.cause === code))
  assert.match(line?.text ?? log, new RegExp(words))
  // What is being mended now asks nobody for anything.
  const mending = told.filter((l) => l.level !== 'INFO' && l.code !== 'listener-removed')
  for (const l of mending.filter((x) => !/restarting the relay$/.test(x.text)))
    assert.notEqual(l.next, '', l.text)
  const next = nextCommand(log)
  assert.match(next, command)
  const ran = sh(['bash', '-c', next], { deadlineMs: 120_000 })
  assert.equal(ran.code, 0, `${next}: ${ran.all}`)
}

/** After the printed command everything is well, and the browser is the one it was. */
function well(sameBrowser = true): void {
  const after = sweep()
  assert.equal(after.exit, 0, after.log)
  assert.ok(answers('muse'))
  if (sameBrowser) assert.deepEqual(identities('muse'), browsers)
}

test("the host's end of the veth lost its address", () => {
  const { veth, gw } = addresses('muse')
  ok(['ip', 'addr', 'del', `${gw}/30`, 'dev', veth])
  run(
    'FAIL_LOUD',
    'veth-no-address',
    says('veth-no-address', host),
    /^ip addr add 10\.201\.35\.1\/30 dev ve-/,
  )
  well()
})

test("the host's end of the veth is down, with and without its address", () => {
  const { veth, gw } = addresses('muse')
  ok(['ip', 'link', 'set', veth, 'down'])
  run('FAIL_LOUD', 'veth-down', says('veth-down', { veth: /ve-\w+/ }), /^ip link set dev/)
  well()
  ok(['ip', 'link', 'set', veth, 'down'])
  ok(['ip', 'addr', 'del', `${gw}/30`, 'dev', veth])
  run('FAIL_LOUD', 'veth-no-address', says('veth-no-address', host), /^ip link set dev .* up && ip addr add/)
  well()
})

test("the namespace's end of the veth lost its address, or is down", () => {
  const { vpeer, peer } = addresses('muse')
  ok(['ip', '-n', 'warp-muse', 'addr', 'del', `${peer}/30`, 'dev', vpeer])
  run(
    'FAIL_LOUD',
    'peer-no-address',
    says('peer-no-address', { ...inside, peer: '10.201.35.2' }),
    /^ip -n warp-muse addr add/,
  )
  well()
  ok(['ip', '-n', 'warp-muse', 'link', 'set', vpeer, 'down'])
  run('FAIL_LOUD', 'peer-down', says('peer-down', inside), /^ip -n warp-muse link set/)
  well()
})

test("the socket's settings name another address", () => {
  const dropIn = `/etc/systemd/system/${socket}.d/netvm.conf`
  const text = readFileSync(dropIn, 'utf8')
  writeFileSync(dropIn, text.replace('10.201.35.2', '10.201.35.3'))
  ok(['systemctl', 'daemon-reload'])
  relayDown('muse')
  ok(['systemctl', 'start', socket])
  const wrong = { socket, listen: /10\.201\.35\.3:\d+/, endpoint: /10\.201\.35\.2:\d+/ }
  run('FAIL', 'relay-unit-address', says('relay-unit-address', wrong), /^ensure-node-supervision muse$/)
  assert.equal(readFileSync(dropIn, 'utf8'), text)
  well()
})

test('the socket is masked by hand', () => {
  relayDown('muse')
  ok(['systemctl', 'mask', '--runtime', socket])
  run(
    'FAIL',
    'relay-masked',
    says('relay-masked', { masked: new RegExp(`${socket}.*`) }),
    /^systemctl unmask/,
  )
  ok(['systemctl', 'unmask', '--runtime', socket])
  well()
})

test('a restart that does not help: where to read why', () => {
  writeUnit(DROP_IN, '[Service]\nExecStart=\nExecStart=/bin/sleep infinity\nType=exec\n')
  ok(['systemctl', 'daemon-reload'])
  relayDown('muse')
  // An open page is not repeated, and this one has to speak.
  rmSync('/var/lib/netvm/pages/muse.relay-fault.json', { force: true })
  run(
    'PAGE',
    'relay-restart-failed',
    `^relay-fault: ${says('relay-restart-failed')}`,
    /^journalctl -n 20 -u cdp-relay@muse\.socket/,
  )
  rmSync(`/etc/systemd/system/${DROP_IN}`)
  ok(['systemctl', 'daemon-reload'])
  relayDown('muse')
  ok(['systemctl', 'start', socket])
  well()
})

test("a browser of another profile has the relay's address: what to look at", async () => {
  const { peer, port } = addresses('muse')
  relayDown('muse')
  const squatter = await squat('warp-muse', peer, port, false, '--user-data-dir=/tmp/other')
  run('FAIL', 'foreign-kept', says('foreign-kept'), /^ip netns exec warp-muse ss -ltnp$/)
  squatter.kill('SIGKILL')
  await until('it is gone', () => squatter.exitCode !== null || squatter.signalCode !== null)
  ok(['systemctl', 'start', socket])
  well()
})

test('the browser is frozen: ask its own supervisor why', () => {
  const pid = browser('muse')?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  try {
    const { log } = sweep()
    const next = nextCommand(log)
    assert.equal(next, 'chromebox-watchdog --why muse')
    const why = sh(['bash', '-c', next])
    // It tells, and its exit code is the node's.
    assert.ok(why.stdout.length > 100 && (why.code ?? 99) <= 2, why.all)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
})

test('the veth is gone, and the namespace is gone: node-up repairs both', async () => {
  ok(['ip', 'link', 'del', addresses('muse').veth])
  run('FAIL_LOUD', 'veth-missing', says('veth-missing', host), /^netvm-node-up muse$/)
  await until('the relay answers', () => answers('muse'))
  well(false)
  ok(['ip', 'netns', 'del', 'warp-muse'])
  ok(['ip', 'link', 'del', addresses('muse').veth])
  run('FAIL_LOUD', 'veth-missing', says('veth-missing', host), /^netvm-node-up muse$/)
  await until('the relay answers', () => answers('muse'))
  well(false)
  const paged = logged(logText('cdp-relay-watchdog')).filter((l) => l.level === 'PAGE')
  // One page for as long as faults of the veth come and go: the first of this file opened it.
  assert.ok(paged.some((l) => /^veth-/.test(l.code)))
})
