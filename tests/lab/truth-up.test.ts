import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { statusIn } from '../kit/lab/shells.ts'
import { everyShell, prepare, runAll } from '../kit/lab/truth-table.ts'
import { nodeUp, ok, sh, untilTitled } from '../kit/lab.ts'

// A node that is up, and everything that can befall those who watch it.
test('a node comes up and every supervisor has run', async () => {
  prepare()
  nodeUp('muse')
  await untilTitled('muse')
  runAll('muse')
})

everyShell('healthy', 'muse')

test('the journal is vacuumed', () => {
  ok(['journalctl', '--rotate'])
  ok(['journalctl', '--vacuum-time=1s'])
})
everyShell('journal-vacuumed', 'muse')

test('somebody pauses the node', () => {
  ok(['box', 'node', 'pause', 'muse', '--reason', 'by hand'])
})
everyShell('paused', 'muse')

test('the pause ends, the timer is disabled', () => {
  ok(['box', 'node', 'resume', 'muse'])
  ok(['systemctl', 'disable', '--now', 'chromebox-watchdog@muse.timer'])
})
everyShell('timer-disabled', 'muse')

test('an unarmed timer stands on the line of the node that is up', () => {
  assert.match(statusIn('user', 'muse').notes.join('; '), /timer of chromebox-watchdog unarmed/)
})

test('the timer is back, journald is stopped', () => {
  ok(['systemctl', 'enable', '--now', 'chromebox-watchdog@muse.timer'])
  sh(['systemctl', 'stop', 'systemd-journald.socket', 'systemd-journald-dev-log.socket'])
  sh(['systemctl', 'stop', 'systemd-journald-audit.socket', 'systemd-journald.service'])
  assert.notEqual(sh(['systemctl', 'is-active', 'systemd-journald.service']).stdout.trim(), 'active')
})
everyShell('journald-stopped', 'muse')
