import assert from 'node:assert/strict'
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, before, test } from 'node:test'
import {
  actions,
  addresses,
  answers,
  identities,
  invocation,
  relayDown,
  relayFleet,
  squat,
  sweep,
  verdict,
} from '../kit/lab/relay.ts'
import { logBytes, ok, sh, until, withDropIns } from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

const endpoint = /10\.201\.35\.2:\d+/

const socket = 'cdp-relay@muse.socket'
let browsers: ReturnType<typeof identities>

before(async () => {
  await relayFleet('muse', 'pip')
  browsers = identities('muse', 'pip')
  assert.equal(sweep().exit, 0)
})

// Whatever was wrong with a relay, no browser was touched, and the next run is silent.
afterEach(() => {
  const was = browsers
  browsers = identities('muse', 'pip')
  assert.deepEqual(browsers, was)
  const bytes = logBytes('cdp-relay-watchdog')
  const run = sweep()
  assert.deepEqual([run.exit, logBytes('cdp-relay-watchdog') - bytes, run.journal], [0, 0, ''], run.log)
})

/** One run that must have brought muse's relay back. */
function repaired(cause: RegExp): string {
  const run = sweep()
  assert.equal(run.exit, 0, run.log)
  assert.match(run.log, cause)
  assert.match(run.log, rx`INFO \[muse\] ${says('relay-restart-ok')} \{relay-restart-ok\}`)
  assert.match(run.journal, /\{relay-restart-ok\}/)
  assert.ok(answers('muse'))
  assert.deepEqual([verdict('muse')?.state, verdict('pip')?.state], ['healthy', 'healthy'])
  assert.deepEqual(actions('pip'), [])
  return run.log
}

test('a healthy fleet: a receipt each, nothing written', () => {
  assert.deepEqual([verdict('muse')?.code, verdict('pip')?.code], ['ok', 'ok'])
})

test('socket stopped', () => {
  relayDown('muse')
  assert.equal(answers('muse'), false)
  repaired(rx`WARN \[muse\] ${says('relay-down', { socket, state: 'inactive' })}; restarting the relay`)
})

test('relay process frozen: it connects and never answers', async () => {
  assert.ok(answers('muse'))
  const pid =
    /MainPID=(\d+)/.exec(ok(['systemctl', 'show', '-p', 'MainPID', 'cdp-relay@muse.service']))?.[1] ?? ''
  ok(['kill', '-STOP', pid])
  assert.equal(answers('muse', 0.5), false)
  repaired(rx`${says('relay-silent', { endpoint })}`)
})

for (const stubborn of [false, true]) {
  test(`another program has the address and port${stubborn ? ' and ignores TERM' : ''}: named, removed, restarted`, async () => {
    const { peer, port } = addresses('muse')
    relayDown('muse')
    const squatter = await squat('warp-muse', peer, port, stubborn)
    const log = repaired(
      rx`${says('foreign-listener', { where: /10\.201\.35\.2:\d+ in warp-muse held by node -e \(pid \d+.*/ })}`,
    )
    assert.match(
      log,
      stubborn ? /removed node -e \(pid \d+\) .*\(SIGKILL\)/ : /removed node -e \(pid \d+\) .*\(SIGTERM\)/,
    )
    assert.ok(log.includes(`pid ${squatter.pid}`))
    assert.equal(existsSync(`/proc/${squatter.pid}/exe`), false)
    assert.deepEqual(actions('muse'), ['remove-listener', 'restart-relay'])
  })
}

test("this relay's port served on another node's address: removed there, restarted here, the other untouched", async () => {
  const { port } = addresses('muse')
  relayDown('muse')
  const squatter = await squat('warp-pip', addresses('pip').peer, port)
  const before = invocation('cdp-relay@pip.socket')
  const log = repaired(
    rx`${says('relay-wrong-address', { where: /10\.201\.87\.2:\d+ in warp-pip held by node -e .*/, endpoint })}`,
  )
  assert.ok(log.includes(`pid ${squatter.pid}`))
  assert.equal(invocation('cdp-relay@pip.socket'), before)
})

test('a program beside it, on another port or on loopback, is left alone', async () => {
  const { peer, port } = addresses('muse')
  const beside = [await squat('warp-muse', peer, port + 1), await squat('warp-pip', '127.0.0.1', port)]
  relayDown('muse')
  repaired(/\{relay-down\}/)
  for (const child of beside) {
    assert.equal(child.exitCode, null)
    child.kill('SIGKILL')
  }
})

test('the socket is bound in a namespace that is gone', async () => {
  ok(['ip', 'netns', 'add', 'gone'])
  try {
    await withDropIns({ [socket]: '[Socket]\nNetworkNamespacePath=/run/netns/gone\n' }, () => {
      relayDown('muse')
      ok(['systemctl', 'start', socket])
    })
  } finally {
    ok(['ip', 'netns', 'del', 'gone'])
  }
  repaired(rx`${says('relay-stale-namespace', { socket })}`)
})

test('the socket failed at its limit: reset, restarted, and paged', async () => {
  const faults = {
    'cdp-relay@muse.service': '[Service]\nExecStart=\nExecStart=/bin/false\n',
    // systemd's own limit is twenty in two seconds, which is nothing that a slow machine gets done.
    [socket]: '[Socket]\nTriggerLimitIntervalSec=1h\nTriggerLimitBurst=2\n',
  }
  await withDropIns(faults, async () => {
    relayDown('muse')
    ok(['systemctl', 'start', socket])
    const { peer, port } = addresses('muse')
    await until('the socket gives up', () => {
      sh(['curl', '-s', '-m', '1', `http://${peer}:${port}/`])
      return sh(['systemctl', 'is-failed', '--quiet', socket]).code === 0
    })
  })
  const log = repaired(rx`${says('relay-start-limit', { socket, limit: /[a-z-]+-limit-hit/ })}`)
  assert.match(log, /PAGE \[muse\] relay-fault: .*limit/)
})

test('browser frozen behind a working relay: said so, nothing restarted, and it is no relay fault', () => {
  const before = [invocation(socket), invocation('cdp-relay@muse.service')]
  const pid = browsers[0]?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  let run: ReturnType<typeof sweep>
  try {
    run = sweep()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  assert.equal(run.exit, 1)
  assert.match(
    run.log,
    rx`WARN \[muse\] ${says('browser-down')} \{[a-z-]+\}; next: chromebox-watchdog --why muse`,
  )
  assert.doesNotMatch(run.log, /PAGE/)
  assert.deepEqual(
    [verdict('muse')?.layer, verdict('muse')?.code, actions('muse')],
    ['cdp', 'browser-down', []],
  )
  assert.deepEqual([invocation(socket), invocation('cdp-relay@muse.service')], before)
})

test('a node that another run holds, a refused row and a paused node cost the others nothing', async () => {
  const registry = readFileSync('/etc/netvm/NODES.md', 'utf8')
  const bad = '| bent | x | warp-bent | 99 | 10.201.99.1 | 10.201.99.2 | 127.0.0.1:99 | active |'
  appendFileSync('/etc/netvm/NODES.md', `${bad}${' |'.repeat(4)}\n`)
  relayDown('muse')
  relayDown('pip')
  const now = Date.now()
  const boot = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000
  const bootId = readFileSync('/run/netvm/boot-id', 'utf8').trim().replaceAll('-', '')
  const intent = {
    version: 1,
    node: 'pip',
    kind: 'pause',
    reason: 'by hand',
    by: 'lab',
    since: { wallMs: now, bootMs: boot, bootId },
    untilBootMs: boot + 6_000_000,
    untilWallMs: now + 6_000_000,
  }
  ok(['mkdir', '-p', '/var/lib/netvm/intents'])
  writeFileSync('/var/lib/netvm/intents/pip.json', JSON.stringify(intent))
  try {
    const first = sweep()
    assert.equal(first.exit, 2, first.log)
    assert.match(first.log, rx`WARN \[bent\] ${says('row-refused', { line: /\d+/ })} \{row-refused\}`)
    assert.match(first.log, rx`\[muse\] ${says('relay-restart-ok')}`)
    assert.doesNotMatch(first.log, /\[pip\]/)
    assert.deepEqual(
      [verdict('pip')?.state, actions('pip'), verdict('bent')?.code],
      ['unhealthy', [], 'row-refused'],
    )
    // Told once, and a fault that somebody must see at every run.
    const second = sweep()
    assert.deepEqual([second.exit, /bent/.test(second.log)], [2, false], second.log)
  } finally {
    writeFileSync('/etc/netvm/NODES.md', registry)
    rmSync('/var/lib/netvm/intents/pip.json')
  }
  // Held by another run: pip is left to it, and is no fault of this one.
  const held = sh([
    'flock',
    '/run/netvm/locks/node-pip.lock',
    'systemctl',
    'start',
    'cdp-relay-watchdog.service',
  ])
  assert.equal(held.code, 0, held.all)
  assert.match(ok(['systemctl', 'show', '-p', 'ExecMainStatus', 'cdp-relay-watchdog.service']), /=75/)
  assert.deepEqual([verdict('pip')?.code, verdict('muse')?.code], ['locked', 'ok'])
  assert.match(sweep().log, rx`\[pip\] ${says('relay-restart-ok')}`)
})

test('a relay that cannot be brought back: FAILED, paged, and not restarted at every run', async () => {
  // The page of the start limit is still open: a node that comes and goes is one fault with one page.
  rmSync('/var/lib/netvm/pages/muse.relay-fault.json', { force: true })
  const mute = '[Service]\nExecStart=\nExecStart=/bin/sleep infinity\nType=exec\n'
  try {
    await withDropIns({ 'cdp-relay@muse.service': mute }, () => {
      relayDown('muse')
      const run = sweep()
      assert.equal(run.exit, 1)
      assert.match(run.log, rx`FAIL \[muse\] ${says('relay-restart-failed')}.*; next: journalctl `)
      assert.match(run.journal, rx`PAGE \[muse\] relay-fault: ${says('relay-restart-failed')}`)
      assert.ok(answers('pip'))
      const before = invocation(socket)
      const held = sweep()
      assert.equal(held.exit, 1)
      assert.match(held.log, rx`${says('relay-backoff', { restarts: '1 restart' })}`)
      assert.equal(invocation(socket), before)
    })
  } finally {
    relayDown('muse')
    ok(['systemctl', 'start', socket])
  }
})
