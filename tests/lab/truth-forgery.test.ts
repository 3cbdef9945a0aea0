import { strict as assert } from 'node:assert'
import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { inShell, statusIn } from '../kit/lab/shells.ts'
import { prepare, runAll } from '../kit/lab/truth-table.ts'
import { browser, nodeUp, ok, receipt, sh, until, untilTitled } from '../kit/lab.ts'

// A dead node, and an ordinary user who would like the status to say that it lives; a living one, and a
// user who would like it to look dead. Nothing he can do changes a word.
const DEAD = 'dead'
const ALIVE = 'alive'

const env = (node: string, key: string): string =>
  new RegExp(`^${key}='?([^'\n]*)'?$`, 'm').exec(ok(['cat', `/etc/netvm/nodes/${node}.env`]))?.[1] ?? ''

const asUser = (script: string, background = false) => {
  const [file = '', ...args] = inShell('user', ['sh', '-c', script])
  if (!background) return sh([file, ...args])
  spawn(file, args, { stdio: 'ignore', cwd: '/tmp' }).unref()
  return undefined
}

/** Every shell that has any means to be fooled. */
const SHELLS = ['root', 'user', 'fake-root', 'hidepid', 'own-net', 'both', 'no-bus', 'logs-only'] as const

function nobodyIsFooled(trick: string): void {
  for (const shell of SHELLS) {
    test(`${trick}: ${shell} is not fooled`, () => {
      const dead = statusIn(shell, DEAD)
      assert.doesNotMatch(dead.beneath, /^ACTIVE/, dead.raw)
      // Not even the finding may change: nothing that a user does is a browser.
      if (shell !== 'logs-only') assert.equal(dead.word, 'STOPPED', dead.raw)
      const alive = statusIn(shell, ALIVE)
      assert.match(alive.word, shell === 'logs-only' ? /^UNKNOWN$/ : /^ACTIVE/, alive.raw)
    })
  }
}

test('one node is up; one is dead, and nobody brings it back', async () => {
  prepare()
  for (const node of [ALIVE, DEAD]) {
    nodeUp(node)
    await untilTitled(node)
    runAll(node)
  }
  // Paused, the watchdog does not start it again; then the pause goes, and it is simply dead.
  ok(['box', 'node', 'pause', DEAD])
  sh(['systemctl', 'stop', `chromebox@${DEAD}.service`])
  await until('no browser', () => browser(DEAD) === undefined, 20_000)
  runAll(DEAD)
  ok(['box', 'node', 'resume', DEAD])
  // PID 1 tells the journal how runs end; the lab boots with a log level that leaves that out.
  ok(['systemctl', 'log-level', 'info'])
})
nobodyIsFooled('nothing yet')

test('a user forges journal lines of healthy runs, and of failed ones', () => {
  for (const [node, id, code] of [
    [DEAD, '7ad2d189f7e94e70a38c781354912448', 'success'],
    [ALIVE, 'd9b373ed55a64feb8242e02dbe79a49c', 'exit-code'],
  ] as const) {
    const unit = `chromebox-watchdog@${node}.service`
    const fields = `MESSAGE=${unit}: ${code}\nMESSAGE_ID=${id}\nUNIT=${unit}\nOBJECT_SYSTEMD_UNIT=${unit}\nPRIORITY=3\n_PID=1\n_UID=0\nNETVM_NODE=${node}\nNETVM_LEVEL=FAIL\n`
    const done = asUser(`printf '%s' '${fields}' | logger --journald`)
    assert.equal(done?.code, 0, done?.all)
  }
  ok(['journalctl', '--sync'])
  assert.match(ok(['journalctl', '-o', 'cat', `UNIT=chromebox-watchdog@${DEAD}.service`]), /success/)
})
nobodyIsFooled('forged journal')

test('a user cannot write receipts, memories, pauses or logs', () => {
  for (const path of [
    `/run/netvm/receipts/chromebox-watchdog/${DEAD}.json`,
    `/var/lib/netvm/chromebox-watchdog/${DEAD}.json`,
    `/var/lib/netvm/intents/${ALIVE}.json`,
    '/var/log/netvm/chromebox-watchdog.log',
    '/run/netvm/boot-id',
  ])
    assert.notEqual(asUser(`echo '{}' >> ${path}`)?.code, 0, path)
})

test('receipts that are a user’s do not count, whoever let him write them', () => {
  const good = receipt('chromebox-watchdog', ALIVE)
  assert.ok(good)
  const forged = JSON.stringify({ ...good, node: DEAD })
  const path = `/run/netvm/receipts/chromebox-watchdog/${DEAD}.json`
  rmSync(path)
  ok(['sh', '-c', `cat > ${path}; chown tester ${path}`], { input: forged })
  for (const shell of SHELLS) {
    const screen = statusIn(shell, DEAD)
    assert.doesNotMatch(screen.word, /^ACTIVE/, screen.raw)
    if (shell !== 'logs-only') assert.match(screen.unknowns.join('; '), /not written by root/, screen.raw)
  }
  ok(['chown', 'root', path])
  ok(['chmod', '666', path])
  for (const shell of SHELLS) {
    const screen = statusIn(shell, DEAD)
    assert.doesNotMatch(screen.word, /^ACTIVE/, screen.raw)
    if (shell !== 'logs-only') assert.match(screen.unknowns.join('; '), /others may write/, screen.raw)
  }
  rmSync(path)
})

test('in a sandbox of his own a user puts his receipts over the real ones', () => {
  const good = receipt('chromebox-watchdog', ALIVE)
  const script = `mount -t tmpfs tmpfs /run/netvm/receipts
    for s in chromebox-watchdog cdp-relay-watchdog; do mkdir /run/netvm/receipts/$s; cat /tmp/forged-$s > /run/netvm/receipts/$s/${DEAD}.json; done
    exec box fleet status ${DEAD} --json`
  const relay = receipt('cdp-relay-watchdog', ALIVE)
  for (const [s, r] of [
    ['chromebox-watchdog', good],
    ['cdp-relay-watchdog', relay],
  ] as const)
    ok(['sh', '-c', `cat > /tmp/forged-${s}; chmod 644 /tmp/forged-${s}`], {
      input: JSON.stringify({ ...r, node: DEAD }),
    })
  const r = sh(inShell('user', ['unshare', '-U', '-r', '-m', '-n', '--', 'sh', '-ec', script]))
  const [node] = JSON.parse(r.stdout).nodes
  assert.doesNotMatch(node.word, /^ACTIVE/, r.all)
  assert.match(node.unknowns.join('; '), /not written by root/, r.all)
})

test('a user squats the port on loopback with a browser’s answer', async () => {
  const port = env(DEAD, 'CDP_PORT')
  const peer = env(DEAD, 'PEER_IP')
  const answer = '{"Browser":"Chrome/156","webSocketDebuggerUrl":"ws://x/devtools/browser/1"}'
  const serve = `require('http').createServer((q,r)=>r.end(q.url==='/json/list'?'[]':'${answer.replaceAll('"', '\\"')}')).listen(${port},process.argv[1])`
  asUser(`exec node -e "${serve.replaceAll('"', '\\"')}" 127.0.0.1`, true)
  await until(
    'he answers',
    () => sh(['curl', '-s', `http://127.0.0.1:${port}/json/version`]).stdout.includes('Chrome'),
    10_000,
  )
  // In a network of his own he can have the node's very address.
  const script = `ip link set lo up; ip addr add ${peer}/32 dev lo; ip addr add ${env(DEAD, 'GW')}/32 dev lo
    node -e "${serve.replaceAll('"', '\\"').replaceAll('$', '\\$')}" ${peer} & sleep 0.5
    curl -s http://${peer}:${port}/json/version >&2; box fleet status ${DEAD} --json; kill %1`
  const r = sh(inShell('user', ['unshare', '-U', '-r', '-n', '--', 'bash', '-c', script]))
  assert.match(r.stderr, /Chrome\/156/, 'the trick works')
  assert.doesNotMatch(JSON.parse(r.stdout).nodes[0].word, /^ACTIVE/, r.all)
})
nobodyIsFooled('squatted port')

test('a user runs what looks like the browser', async () => {
  const dir = `--user-data-dir=/var/lib/chromebox/${DEAD}`
  asUser(`exec node -e 'setTimeout(()=>{},1e6)' chromium ${dir}`, true)
  await until(
    'it is in the process table',
    () => sh(['pgrep', '-u', 'tester', '-f', 'user-data-dir']).code === 0,
    10_000,
  )
})
nobodyIsFooled('fake browser')
