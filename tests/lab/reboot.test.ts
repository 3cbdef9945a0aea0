import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { cadence, cursor, logBytes, nodeUp, ok, receipt, said, sh, titles, until } from '../kit/lab.ts'

// Six real browsers, every timer on, a reboot, and no hand laid on anything.
const FLEET = { muse: 9410, pip: 9420, '646': 9430, opm: 9440, def: 9450, dev: 9455 }
const NODES = Object.keys(FLEET)
const LOOPS = ['cdp-relay-watchdog', 'agent-health'] as const

/** Seconds since the lab's systemd started. In a container /proc/uptime is the machine's, not the lab's. */
function sinceBoot(): number {
  const started = Number(ok(['systemctl', 'show', '-p', 'UserspaceTimestampMonotonic', '--value']))
  return Number(process.hrtime.bigint() / 1000n - BigInt(started)) / 1e6
}

if (process.env.LAB_BOOT === '1') {
  test('six nodes come up, then the host reboots', async () => {
    for (const [node, port] of Object.entries(FLEET)) nodeUp(node, { args: ['--port', String(port)] })
    for (const node of NODES)
      await until(`${node} has its page`, () => titles(node)?.includes('Chat'), 30_000)
    writeFileSync('/var/tmp/lab-reboot', '')
    ok(['sync'])
    sh(['systemctl', 'reboot'])
    await new Promise((resolve) => setTimeout(resolve, 60_000))
    assert.fail('the lab did not reboot within 60 s')
  })
} else {
  test('every browser answers within 20 s of the boot', async (t) => {
    for (const node of NODES)
      await until(
        `${node} has its page`,
        () => titles(node)?.includes('Chat'),
        Math.max(1, 20_000 - sinceBoot() * 1000),
      )
    t.diagnostic(`all six at ${sinceBoot().toFixed(1)} s`)
    assert.ok(sinceBoot() <= 20, `the last one answered at ${sinceBoot().toFixed(1)} s`)
  })

  test('every supervisor has run within 45 s', async (t) => {
    const ran = (): boolean =>
      NODES.every((node) => receipt('chromebox-watchdog', node)?.verdict.state === 'healthy') &&
      LOOPS.every((loop) => NODES.every((node) => receipt(loop, node) !== undefined))
    await until('a receipt of each', ran, Math.max(1, 45_000 - sinceBoot() * 1000), 200)
    t.diagnostic(`first runs done at ${sinceBoot().toFixed(1)} s`)
    assert.ok(sinceBoot() <= 45)
  })

  test('--check is content within 90 s', async (t) => {
    let last = ''
    const content = (): boolean => {
      const checked = sh(['ensure-node-supervision', '--check'])
      last = checked.all
      return checked.code === 0
    }
    await until('--check exit 0', content, Math.max(1, 90_000 - sinceBoot() * 1000), 1000).catch((error) => {
      throw new Error(`${error}\n${last}`)
    })
    t.diagnostic(`--check 0 at ${sinceBoot().toFixed(1)} s`)
  })

  test('30 ticks per node say nothing', { timeout: 240_000 }, async (t) => {
    for (const node of NODES) cadence(`chromebox-watchdog@${node}.timer`, 3)
    for (const loop of LOOPS) cadence(`${loop}.timer`, 5)
    const position = cursor()
    const bytes = ['chromebox-watchdog' as const, ...LOOPS].map(logBytes)
    const seen = new Map(NODES.map((node) => [node, new Set<number>()]))
    await until(
      '30 runs of each',
      () => {
        for (const node of NODES) seen.get(node)?.add(receipt('chromebox-watchdog', node)?.at.bootMs ?? 0)
        return [...seen.values()].every((runs) => runs.size > 30)
      },
      200_000,
      250,
    )
    t.diagnostic(`runs seen per node: ${[...seen.values()].map((runs) => runs.size).join(' ')}`)
    assert.deepEqual(['chromebox-watchdog' as const, ...LOOPS].map(logBytes), bytes)
    for (const node of NODES) assert.equal(said(position, `chromebox-watchdog@${node}.service`), '')
    for (const loop of LOOPS) assert.equal(said(position, `${loop}.service`), '')
  })
}
