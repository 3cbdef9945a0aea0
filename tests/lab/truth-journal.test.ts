import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { prepare, runAll } from '../kit/lab/truth-table.ts'
import { nodeUp, ok, sh, tick, untilTitled } from '../kit/lab.ts'

// A shell that is blind, has no bus and no receipts, but may read the journal.
const HIDE = [
  'mount -t tmpfs -o mode=755 tmpfs /run/netvm/receipts',
  'mount -t tmpfs -o mode=755 tmpfs /run/dbus',
  'mount -t tmpfs -o mode=755 tmpfs /run/systemd',
  'exec "$@"',
].join('; ')

function blind(argv: readonly string[], group = 'systemd-journal') {
  const user = ['setpriv', '--reuid=tester', '--regid=tester', `--groups=${group}`]
  const r = sh([
    'unshare',
    '-m',
    '-n',
    '-p',
    '-f',
    '--mount-proc',
    '--',
    'sh',
    '-ec',
    HIDE,
    'sh',
    ...user,
    ...argv,
  ])
  return r
}

function status() {
  const r = blind(['box', 'fleet', 'status', 'muse', '--json'])
  assert.match(r.stdout, /^\{/, r.all)
  const [node] = JSON.parse(r.stdout).nodes
  return {
    word: node.text as string,
    source: node.source as string,
    unknowns: node.unknowns.join('; ') as string,
    raw: r.all,
  }
}

test('a node comes up, PID 1 tells how runs end', async () => {
  prepare()
  // The lab boots with a log level that leaves that out.
  ok(['systemctl', 'log-level', 'info'])
  nodeUp('muse')
  await untilTitled('muse')
  runAll('muse')
  ok(['journalctl', '--sync'])
})

test('healthy runs in the journal are evidence', () => {
  const s = status()
  assert.equal(s.word, 'ACTIVE [*]', s.raw)
  assert.equal(s.source, 'journal')
})

test('who may not read it does not know, and says why', () => {
  const r = blind(['box', 'fleet', 'status', 'muse', '--json'], 'tester')
  const [node] = JSON.parse(r.stdout).nodes
  assert.equal(node.word, 'UNKNOWN')
  assert.match(node.unknowns.join('; '), /journal: no permission/)
})

test('host-evidence says where it has it from', () => {
  const r = blind(['host-evidence', 'muse'])
  assert.equal(r.code, 0, r.all)
  assert.match(r.stdout, /chromebox-watchdog +healthy +\(journal, .* ago\)/)
})

test('suppressed lines of its unit make it unknown', () => {
  const dropin = '/run/systemd/system/chromebox-watchdog@muse.service.d/flood.conf'
  ok(['sh', '-c', `mkdir -p \${1%/*}; cat > $1`, 'sh', dropin], {
    input: `[Service]\nLogRateLimitIntervalSec=2s\nLogRateLimitBurst=1\nExecStartPre=/bin/sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo noise; done; sleep 2.2; echo more'\n`,
  })
  ok(['systemctl', 'daemon-reload'])
  tick('muse')
  ok(['journalctl', '--sync'])
  assert.match(
    ok(['journalctl', '-u', 'systemd-journald', '-o', 'cat']),
    /Suppressed \d+ messages from chromebox-watchdog@muse/,
  )
  const s = status()
  assert.equal(s.word, 'UNKNOWN', s.raw)
  assert.match(s.unknowns, /Suppressed/)
  ok(['rm', dropin])
  ok(['systemctl', 'daemon-reload'])
})

test('a vacuumed journal is unknown, and says so', () => {
  ok(['journalctl', '--rotate'])
  ok(['journalctl', '--vacuum-time=1s'])
  const s = status()
  assert.equal(s.word, 'UNKNOWN', s.raw)
  assert.match(s.unknowns, /begins only .* ago \(vacuumed/)
})

test('a failed run is heard, with its layer', () => {
  const pid = ok(['pgrep', '-o', '-u', 'chromebox', '-f', 'user-data-dir=/var/lib/chromebox/muse'])
  ok(['kill', '-STOP', pid])
  tick('muse')
  ok(['journalctl', '--sync'])
  assert.equal(status().word, 'DEGRADED cdp')
  ok(['kill', '-CONT', pid])
  runAll('muse')
  ok(['journalctl', '--sync'])
  assert.equal(status().word, 'ACTIVE [*]', status().raw)
})
