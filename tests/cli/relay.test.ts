import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { needsRoot } from '../kit/needs-root.ts'
import { PORT, VETH, World } from '../kit/relay-world.ts'
import { logged, rx, says } from '../kit/says.ts'
import { patience } from '../kit/unit.ts'

const options = { skip: needsRoot('a network of its own'), timeout: patience(60_000) }
const SOCKET = 'cdp-relay@muse.socket'
const INACTIVE = says('relay-down', { socket: SOCKET, state: 'inactive' })
const watchdog = 'cdp-relay-watchdog'

test('healthy: exit 0, not a byte said, a receipt, no job and one ip for all', options, async (t) => {
  const w = await World.make(t)
  await w.listen('10.201.35.2', 'well')
  assert.deepEqual(w.run(watchdog), { code: 0, out: '', err: '' })
  assert.deepEqual([w.log, w.read('journal'), w.read('calls')], ['', '', ''])
  assert.deepEqual([w.receipt.verdict.state, w.receipt.verdict.code], ['healthy', 'ok'])
  const json = JSON.parse(w.run(watchdog, ['--json']).out)
  assert.deepEqual([json.exit, json.nodes[0].node, json.nodes[0].layers.at(-1).state], [0, 'muse', 'ok'])
})

test('by hand through a pipe: the timer, and the path with its marks', options, async (t) => {
  const w = await World.make(t)
  await w.listen('10.201.35.2', 'well')
  const ran = w.run(watchdog, [], { INVOCATION_ID: '' })
  assert.equal(ran.code, 0, ran.err)
  assert.match(ran.out, /^cdp-relay-watchdog\.timer .*\nmuse .*netns ✓.*relay ✓/)
})

test(
  'relay down: restarted, verified, said once, and the receipt tells what was done',
  options,
  async (t) => {
    const w = await World.make(t)
    await w.listen('127.0.0.1', 'well')
    w.socket('inactive')
    w.restartHelps()
    const dry = w.run(watchdog, ['--dry-run'])
    assert.deepEqual([dry.code, w.jobs, w.log], [1, [], ''])
    assert.match(dry.out, rx`${INACTIVE}\n.*would restart cdp-relay@muse\.socket`)
    assert.equal(w.run(watchdog).code, 0)
    assert.deepEqual(w.jobs, ['restart cdp-relay@muse.socket'])
    assert.match(
      w.log,
      rx`^WARN \[muse\] ${INACTIVE}; restarting the relay \{relay-down\}\nINFO \[muse\] ${says('relay-restart-ok', { took: /\d.*/ })}`,
    )
    assert.deepEqual(
      [w.receipt.verdict.state, w.receipt.actions.map((a) => [a.kind, a.helped])],
      ['healthy', [['restart-relay', true]]],
    )
    // What was seen below the relay stays seen: a shell that has only the receipt need not wait for the next run.
    assert.deepEqual(
      w.receipt.layers.map((l) => [l.layer, l.state]),
      ['netns', 'process', 'cdp', 'relay'].map((layer) => [layer, 'ok']),
    )
    const said = w.log
    assert.equal(w.run(watchdog).code, 0)
    assert.equal(w.log, said)
  },
)

test('failed at its limit: reset before the restart, and paged', options, async (t) => {
  const w = await World.make(t)
  await w.listen('127.0.0.1', 'well')
  w.socket('failed', 'trigger-limit-hit')
  w.restartHelps()
  assert.equal(w.run(watchdog).code, 0)
  assert.deepEqual(w.jobs, [
    'reset-failed cdp-relay@muse.socket cdp-relay@muse.service',
    'restart cdp-relay@muse.socket',
  ])
  assert.match(
    w.log,
    rx`PAGE \[muse\] relay-fault: ${says('relay-start-limit', { socket: SOCKET, limit: 'trigger-limit-hit' })}; ${says('relay-restart-ok')}.*; next: journalctl`,
  )
})

test(
  'a restart that does not help: FAILED and paged, then held back; a person who names the node is not',
  options,
  async (t) => {
    const w = await World.make(t)
    await w.listen('127.0.0.1', 'well')
    w.socket('inactive')
    assert.equal(w.run(watchdog).code, 1)
    assert.match(w.log, rx`FAIL \[muse\] ${says('relay-restart-failed')}.*; next: journalctl -n 20`)
    assert.equal(w.log.match(/PAGE/g)?.length, 1)
    assert.equal(w.run(watchdog).code, 1)
    assert.equal(w.jobs.length, 1)
    assert.match(w.log, rx`${says('relay-backoff', { restarts: '1 restart', wait: /(2m|\d+s)/ })}`)
    assert.equal(w.log.match(/PAGE/g)?.length, 1)
    assert.match(
      w.run(watchdog, ['--dry-run']).out,
      rx`held back: ${says('relay-backoff', { restarts: '1 restart' })}`,
    )
    w.restartHelps()
    assert.equal(w.run(watchdog, ['muse']).code, 0)
    assert.equal(w.jobs.length, 2)
  },
)

test('veth bare: FAIL_LOUD with the line that helps, no restart; the line helps', options, async (t) => {
  const w = await World.make(t)
  await w.listen('10.201.35.2', 'well')
  w.sh(`ip addr del 10.201.35.1/30 dev ${VETH}`)
  assert.equal(w.run(watchdog).code, 1)
  const next = new RegExp(
    `FAIL_LOUD \\[muse\\] ${says('veth-no-address', { veth: VETH, gw: '10.201.35.1' })} \\{veth-no-address\\}; next: (ip addr add .*)$`,
    'm',
  ).exec(w.log)?.[1]
  assert.deepEqual([w.jobs, next], [[], `ip addr add 10.201.35.1/30 dev ${VETH}`])
  w.sh(next ?? 'false')
  assert.equal(w.run(watchdog).code, 0)
})

test('browser silent behind a relay that connects: no restart', options, async (t) => {
  const w = await World.make(t)
  const relay = await w.listen('10.201.35.2', 'silent')
  w.inUnit(t, relay, 'cdp-relay@muse.service')
  await w.listen('127.0.0.1', 'silent')
  const ran = w.run(watchdog)
  assert.deepEqual([ran.code, w.jobs], [1, []])
  assert.match(
    w.log,
    rx`^WARN \[muse\] ${says('browser-down')} \{browser-down\}; next: chromebox-watchdog --why muse$`,
  )
})

test(
  '83: browser silent, and a stranger connects on the relay’s address: named, no restart',
  options,
  async (t) => {
    const w = await World.make(t)
    const stranger = await w.listen('10.201.35.2', 'silent')
    await w.listen('127.0.0.1', 'silent')
    const ran = w.run(watchdog)
    assert.deepEqual([ran.code, w.jobs], [1, []])
    assert.equal(w.receipt.verdict.code, 'browser-and-relay-down')
    assert.match(w.receipt.verdict.evidence.join('\n'), new RegExp(`held by node -e \\(pid ${stranger}[,)]`))
  },
)

test('a tool that is missing or fails: unknown, exit 2, nothing done', options, async (t) => {
  const w = await World.make(t)
  await w.listen('127.0.0.1', 'well')
  w.socket('inactive')
  w.program('bin/systemctl', 'echo "Failed to connect to bus" >&2; exit 1')
  assert.equal(w.run(watchdog).code, 2)
  assert.match(
    w.log,
    rx`^WARN \[muse\] ${says('relay-not-asked', { why: 'Failed to connect to bus' })} \{relay-not-asked\}; next: `,
  )
  assert.deepEqual([w.receipt.verdict.state, w.receipt.actions], ['unknown', []])
})

test(
  'a corrupt memory delays a restart and is kept; a refused row is told once and costs nothing',
  options,
  async (t) => {
    const w = await World.make(t)
    await w.listen('127.0.0.1', 'well')
    w.socket('inactive')
    w.registry('| bent | a | warp-bent | 99 | 10.201.36.1 | 10.201.36.2 | 127.0.0.1:99 | active |\n')
    w.sh(
      `mkdir -p ${w.dir}/var/lib/netvm/cdp-relay-watchdog; printf '\\0\\0' > ${w.dir}/var/lib/netvm/cdp-relay-watchdog/muse.json`,
    )
    assert.equal(w.run(watchdog).code, 1)
    assert.deepEqual(w.jobs, [])
    assert.match(w.log, rx`WARN \[muse\] ${says('state-corrupt', { why: /.*NULs/, kept: /.*corrupt-.*/ })}`)
    assert.equal(w.run(watchdog).code, 1)
    assert.equal(logged(w.log).filter((l) => l.node === 'bent' && l.code === 'row-refused').length, 1)
    assert.match(w.read('run/netvm/receipts/cdp-relay-watchdog/bent.json'), /row-refused/)
  },
)

test(
  'bad input: one line that says what and what to do, the exit code of the contract, nothing changed',
  options,
  async (t) => {
    const w = await World.make(t)
    const fails = (code: number, line: RegExp, args: string[] = []) => {
      const ran = w.run(watchdog, args)
      assert.deepEqual([ran.code, ran.out, ran.err.trim().split('\n').length], [code, '', 1])
      assert.match(ran.err, line)
    }
    fails(64, /^cdp-relay-watchdog: no node "nope" in /, ['nope'])
    fails(64, /^cdp-relay-watchdog: unknown option '--frob'; next: cdp-relay-watchdog --help/, ['--frob'])
    w.registry(
      `| old | a | warp-old | ${PORT + 1} | 10.201.36.1 | 10.201.36.2 | 127.0.0.1:${PORT + 1} | retired |\n`,
    )
    fails(64, /node old is retired/, ['old'])
    w.write('etc/netvm/netvm.env', 'NETVM_NONSENSE=1\n')
    fails(78, /unknown key NETVM_NONSENSE/)
    w.write('etc/netvm/netvm.env', '')
    rmSync(join(w.dir, 'etc/netvm/NODES.md'))
    fails(78, /no registry at/)
    assert.deepEqual(w.jobs, [])
    assert.equal(w.run(watchdog, ['--help']).code, 0)
  },
)

test('not root: 77, and what to run', options, async (t) => {
  const w = await World.make(t)
  const ran = w.run(watchdog, [], { NETVM_ROOT: '' }, [
    'setpriv',
    '--reuid=65534',
    '--regid=65534',
    '--clear-groups',
  ])
  assert.deepEqual([ran.code, ran.out], [77, ''])
  assert.match(ran.err, /^cdp-relay-watchdog: .*needs root.*; next: sudo cdp-relay-watchdog\n$/)
})

test(
  'netvm-topology: the node by connectivity, a stray with its command, and what it does not take',
  options,
  async (t) => {
    const w = await World.make(t)
    await w.listen('10.201.35.2', 'well')
    w.sh('ip netns add warp-ghost')
    const seen = JSON.parse(w.run('netvm-topology', ['--json']).out)
    assert.equal(seen.exit, 1)
    assert.ok(seen.strays.some((s: { remove: string }) => s.remove === 'ip netns del warp-ghost'))
    const states = Object.fromEntries(
      seen.nodes[0].parts.map((m: { part: string; state: string }) => [m.part, m.state]),
    )
    assert.deepEqual(
      [states.veth, states.netns, states.peer, states.relay, states.process],
      ['ok', 'ok', 'ok', 'ok', 'fail'],
    )
    assert.match(
      w.run('netvm-topology').out,
      /namespace warp-ghost: no row owns it; remove: ip netns del warp-ghost/,
    )
    assert.equal(w.run('netvm-topology', ['muse']).code, 64)
  },
)
