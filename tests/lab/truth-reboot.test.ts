import { strict as assert } from 'node:assert'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Receipt, Supervisor } from '../../lib/base/types.ts'
import { statusIn } from '../kit/lab/shells.ts'
import { everyShell, prepare, runAll } from '../kit/lab/truth-table.ts'
import { nodeUp, ok, receipt, sh, untilTitled } from '../kit/lab.ts'

// A host that has just booted: the node is up again, and no supervisor has run yet (their timers wait an
// hour here). Then the same with receipts of this boot that are too old.
const KEPT = '/var/tmp/receipts-before'
const AGENTS: readonly Supervisor[] = ['chromebox-watchdog', 'cdp-relay-watchdog', 'agent-health']

/** What the receipts of before would look like had they been written in this boot, `ageMs` ago. */
function writeReceipts(ageMs: number, bootId: string): void {
  const uptimeMs = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000
  const ns = (kind: string) => Number(/\d+/.exec(ok(['readlink', `/proc/1/ns/${kind}`]))?.[0])
  for (const supervisor of AGENTS) {
    const old = JSON.parse(readFileSync(`${KEPT}/${supervisor}/muse.json`, 'utf8')) as Receipt
    const bootMs = uptimeMs - ageMs
    const at = { wallMs: Date.now() - ageMs, bootMs, bootId }
    const made = { ...old, at, hostNs: { net: ns('net'), pid: ns('pid') }, nextDueBootMs: bootMs + 240_000 }
    mkdirSync(`/run/netvm/receipts/${supervisor}`, { recursive: true })
    writeFileSync(`/run/netvm/receipts/${supervisor}/muse.json`, JSON.stringify(made))
  }
}

const bootId = (): string => readFileSync('/run/netvm/boot-id', 'utf8').trim()

if (process.env.LAB_BOOT === '1') {
  test('a node comes up, its supervisors have run, the host reboots', async () => {
    prepare()
    nodeUp('muse')
    await untilTitled('muse')
    runAll('muse')
    cpSync('/run/netvm/receipts', KEPT, { recursive: true })
    // Tells scripts/lab that the end of this run is a reboot.
    writeFileSync('/var/tmp/lab-reboot', '')
    ok(['sync'])
    sh(['systemctl', 'reboot'])
    await new Promise((resolve) => setTimeout(resolve, 60_000))
    assert.fail('the lab did not reboot within 60 s')
  })
} else {
  test('the node is back, and nobody has looked at it', async () => {
    await untilTitled('muse')
    assert.equal(receipt('chromebox-watchdog', 'muse'), undefined)
  })
  everyShell('rebooted', 'muse')

  test('receipts of the boot before lie there', () => {
    writeReceipts(1000, '0123456789abcdef0123456789abcdef')
    assert.match(statusIn('both', 'muse').unknowns.join('; '), /another boot/)
  })
  everyShell('rebooted', 'muse')

  test('fresh receipts of this boot would say that it is up', () => {
    // The node was started after the host: only what is younger than that may count.
    writeReceipts(0, bootId())
    assert.equal(statusIn('both', 'muse').word, 'ACTIVE [*]')
  })

  test('receipts of this boot, older than three periods', () => {
    writeReceipts(20 * 60_000, bootId())
    assert.match(statusIn('both', 'muse').unknowns.join('; '), /older than 3 periods/)
  })
  everyShell('receipts-old', 'muse')
}
