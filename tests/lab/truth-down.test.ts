import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { everyShell, prepare, runAll } from '../kit/lab/truth-table.ts'
import { browser, nodeUp, ok, sh, tick, until, untilTitled, writeConfig, writeUnit } from '../kit/lab.ts'

// A node whose browser is dead, frozen, given up, or taken down on purpose.
const BASE = { NETVM_RELAUNCH_CHECKS: 1, NETVM_RELAUNCH_INTERVAL: 1, NETVM_CONFIRM_DELAY: 0.1 }

/** From now on the browser of the node does not start: systemd says started, and it is gone at once. */
function breakBrowser(node: string): void {
  writeUnit(`chromebox@${node}.service.d/zz-broken.conf`, '[Service]\nExecStart=\nExecStart=/bin/false\n')
  ok(['systemctl', 'daemon-reload'])
}

async function kill(node: string): Promise<void> {
  const found = browser(node)
  assert.ok(found)
  process.kill(found.pid, 'SIGKILL')
  await until(`${node} has no browser`, () => browser(node) === undefined, 10_000)
}

test('four nodes come up', async () => {
  prepare({ NETVM_FRESH_BROWSER: 3600 })
  for (const node of ['dead', 'frozen', 'held', 'torn']) {
    nodeUp(node)
    await untilTitled(node)
  }
  for (const node of ['dead', 'frozen', 'held', 'torn']) runAll(node)
})

test('one browser dies and cannot be started again', async () => {
  breakBrowser('dead')
  await kill('dead')
  runAll('dead')
})
everyShell('dead', 'dead')

test('one browser is stopped in its tracks, too young to be killed', () => {
  const found = browser('frozen')
  assert.ok(found)
  process.kill(found.pid, 'SIGSTOP')
  runAll('frozen')
})
everyShell('frozen', 'frozen')

test('the watchdog gives one up', async () => {
  writeConfig({ ...BASE, NETVM_HOLD_AFTER: 1, NETVM_BACKOFF_BASE: 0 })
  breakBrowser('held')
  await kill('held')
  await until(
    'the node is held',
    () => {
      tick('held')
      return /"held":\{/.test(sh(['cat', '/var/lib/netvm/chromebox-watchdog/held.json']).stdout)
    },
    60_000,
  )
})
everyShell('held-down', 'held')

test('one node is taken down', () => {
  ok(['netvm-node-down', 'torn'], { deadlineMs: 60_000 })
})
everyShell('torn-down', 'torn')
