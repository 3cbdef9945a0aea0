import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
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

// Every line of the relay's supervisor that tells of a fault ends with a command. Here each is made to be
// printed by a real fault, and is then run as it stands, by a shell, the way a tired person pastes it.

const socket = 'cdp-relay@muse.socket'
let browsers: ReturnType<typeof identities>

before(async () => {
  await relayFleet('muse')
  browsers = identities('muse')
  assert.equal(sweep().exit, 0)
})

/** One run, what it must have said, and the printed command, run. */
function run(line: RegExp, command: RegExp): void {
  const { log } = sweep()
  assert.match(log, line)
  const told = log.split('\n').filter((l) => /^\S+ (FAIL|FAIL_LOUD|PAGE|WARN) /.test(l))
  for (const l of told.filter((x) => !/restarting the relay$|removed /.test(x)))
    assert.match(l, /; next: \S/, l)
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
    /FAIL_LOUD \[muse\] veth ve-\w+ has no 10\.201\.35\.1\/30; next: ip addr add/,
    /^ip addr add 10\.201\.35\.1\/30 dev ve-/,
  )
  well()
})

test("the host's end of the veth is down, with and without its address", () => {
  const { veth, gw } = addresses('muse')
  ok(['ip', 'link', 'set', veth, 'down'])
  run(/veth ve-\w+ is down/, /^ip link set dev/)
  well()
  ok(['ip', 'link', 'set', veth, 'down'])
  ok(['ip', 'addr', 'del', `${gw}/30`, 'dev', veth])
  run(/has no 10\.201\.35\.1\/30/, /^ip link set dev .* up && ip addr add/)
  well()
})

test("the namespace's end of the veth lost its address, or is down", () => {
  const { vpeer, peer } = addresses('muse')
  ok(['ip', '-n', 'warp-muse', 'addr', 'del', `${peer}/30`, 'dev', vpeer])
  run(/FAIL_LOUD \[muse\] veth vp-\w+ in warp-muse has no 10\.201\.35\.2\/30/, /^ip -n warp-muse addr add/)
  well()
  ok(['ip', '-n', 'warp-muse', 'link', 'set', vpeer, 'down'])
  run(/veth vp-\w+ in warp-muse is down/, /^ip -n warp-muse link set/)
  well()
})

test("the socket's settings name another address", () => {
  const dropIn = `/etc/systemd/system/${socket}.d/netvm.conf`
  const text = readFileSync(dropIn, 'utf8')
  writeFileSync(dropIn, text.replace('10.201.35.2', '10.201.35.3'))
  ok(['systemctl', 'daemon-reload'])
  relayDown('muse')
  ok(['systemctl', 'start', socket])
  run(
    /FAIL \[muse\] cdp-relay@muse\.socket listens on 10\.201\.35\.3:\d+ instead of 10\.201\.35\.2:\d+/,
    /^ensure-node-supervision muse$/,
  )
  assert.equal(readFileSync(dropIn, 'utf8'), text)
  well()
})

test('the socket is masked by hand', () => {
  relayDown('muse')
  ok(['systemctl', 'mask', '--runtime', socket])
  run(/FAIL \[muse\] cdp-relay@muse\.socket is masked by hand/, /^systemctl unmask/)
  ok(['systemctl', 'unmask', '--runtime', socket])
  well()
})

test('a restart that does not help: where to read why', () => {
  writeUnit(
    'cdp-relay@muse.service.d/zz-lab.conf',
    '[Service]\nExecStart=\nExecStart=/bin/sleep infinity\nType=exec\n',
  )
  ok(['systemctl', 'daemon-reload'])
  relayDown('muse')
  // An open page is not repeated, and this one has to speak.
  rmSync('/var/lib/netvm/pages/muse.relay-fault.json', { force: true })
  run(/PAGE \[muse\] relay-fault: relay restart FAILED/, /^journalctl -n 20 -u cdp-relay@muse\.socket/)
  rmSync('/etc/systemd/system/cdp-relay@muse.service.d/zz-lab.conf')
  ok(['systemctl', 'daemon-reload'])
  relayDown('muse')
  ok(['systemctl', 'start', socket])
  well()
})

test("a browser of another profile has the relay's address: what to look at", async () => {
  const { peer, port } = addresses('muse')
  relayDown('muse')
  const squatter = await squat('warp-muse', peer, port, false, '--user-data-dir=/tmp/other')
  run(/not our relay on .*, which is not ours to end/, /^ip netns exec warp-muse ss -ltnp$/)
  squatter.kill('SIGKILL')
  await until('it is gone', () => squatter.exitCode !== null || squatter.signalCode !== null, 5000)
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
  run(
    /FAIL_LOUD \[muse\] veth ve-\w+ has no 10\.201\.35\.1\/30; next: netvm-node-up muse/,
    /^netvm-node-up muse$/,
  )
  await until('the relay answers', () => answers('muse'), 30_000)
  well(false)
  ok(['ip', 'netns', 'del', 'warp-muse'])
  ok(['ip', 'link', 'del', addresses('muse').veth])
  run(/FAIL_LOUD \[muse\] veth/, /^netvm-node-up muse$/)
  await until('the relay answers', () => answers('muse'), 30_000)
  well(false)
  assert.match(logText('cdp-relay-watchdog'), /PAGE \[muse\] relay-fault: veth/)
})
