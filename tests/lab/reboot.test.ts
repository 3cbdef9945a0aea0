import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { state } from '../kit/lab/browser.ts'
import {
  cadence,
  cursor,
  logBytes,
  nodeUp,
  ok,
  patience,
  receipt,
  said,
  sh,
  titles,
  until,
} from '../kit/lab.ts'

// Six real browsers, every timer on, a reboot, and no hand laid on anything. How soon they are back is the machine's
// affair and told; that nobody had to help, and that no supervisor looks later than it should, is ours.
const FLEET = { muse: 9410, pip: 9420, '646': 9430, opm: 9440, def: 9450, dev: 9455 }
const NODES = Object.keys(FLEET)
const LOOPS = ['cdp-relay-watchdog', 'agent-health'] as const

/** Seconds since the lab's systemd started. In a container /proc/uptime is the machine's, not the lab's. */
function sinceBoot(): number {
  const started = Number(ok(['systemctl', 'show', '-p', 'UserspaceTimestampMonotonic', '--value']))
  return Number(process.hrtime.bigint() / 1000n - BigInt(started)) / 1e6
}

/** When a timer fires for the first time after a boot, at the latest, in seconds. */
function firstDueS(timer: string): number {
  const shown = ok(['systemctl', 'show', '-p', 'TimersMonotonic,RandomizedDelayUSec,AccuracyUSec', timer])
  const due = /OnActiveUSec=([^;]*?) ;/.exec(shown)?.[1] ?? 'none'
  const more = [...shown.matchAll(/^(?:RandomizedDelayUSec|AccuracyUSec)=(.*)$/gm)].map((m) => m[1] ?? '')
  return [due, ...more].reduce((sum, span) => sum + spanS(span), 0)
}

/** A time span as systemd prints it (`1min 30s`, `500ms`, `0`), in seconds. */
function spanS(span: string): number {
  const unit: Record<string, number> = { us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86_400 }
  if (span === '0') return 0
  const parts = [...span.matchAll(/([\d.]+)(us|ms|s|min|h|d)/g)]
  return parts.length === 0
    ? Number.NaN
    : parts.reduce((sum, m) => sum + Number(m[1]) * (unit[m[2] ?? ''] ?? 0), 0)
}

if (process.env.LAB_BOOT === '1') {
  test('six nodes come up, then the host reboots', async () => {
    for (const [node, port] of Object.entries(FLEET)) nodeUp(node, { args: ['--port', String(port)] })
    for (const node of NODES)
      await until(`${node} has its page`, () => titles(node)?.includes('Chat'), 30_000)
    writeFileSync('/var/tmp/lab-reboot', '')
    ok(['sync'])
    sh(['systemctl', 'reboot'])
    await new Promise((resolve) => setTimeout(resolve, patience(60_000)))
    assert.fail('the lab did not reboot')
  })
} else {
  test('every browser answers after the boot, helped by nobody', async (t) => {
    for (const node of NODES)
      await until(`${node} has its page`, () => titles(node)?.includes('Chat'), 60_000)
    t.diagnostic(`all six at ${sinceBoot().toFixed(1)} s`)
    for (const node of NODES) assert.deepEqual(state(node).attempts, [], `${node} was relaunched`)
  })

  test('every supervisor is due within 45 s of the boot, and runs', async (t) => {
    const timers = [
      ...NODES.map((node) => `chromebox-watchdog@${node}.timer`),
      ...LOOPS.map((l) => `${l}.timer`),
    ]
    for (const timer of timers)
      assert.ok(firstDueS(timer) <= 45, `${timer} is first due at ${firstDueS(timer)} s`)
    const ran = (): boolean =>
      NODES.every((node) => receipt('chromebox-watchdog', node)?.verdict.state === 'healthy') &&
      LOOPS.every((loop) => NODES.every((node) => receipt(loop, node) !== undefined))
    await until('a receipt of each', ran, 120_000, 200)
    t.diagnostic(`first runs done at ${sinceBoot().toFixed(1)} s`)
    for (const node of NODES) assert.deepEqual(state(node).attempts, [], `${node} was relaunched`)
  })

  test('--check is content', async (t) => {
    let last = ''
    const content = (): boolean => {
      const checked = sh(['ensure-node-supervision', '--check'])
      last = checked.all
      return checked.code === 0
    }
    await until('--check exit 0', content, 180_000, 1000).catch((error) => {
      throw new Error(`${error}\n${last}`)
    })
    t.diagnostic(`--check 0 at ${sinceBoot().toFixed(1)} s`)
  })

  test('30 ticks per node say nothing', { timeout: patience(400_000) }, async (t) => {
    for (const node of NODES) cadence(`chromebox-watchdog@${node}.timer`, 2)
    for (const loop of LOOPS) cadence(`${loop}.timer`, 4)
    const position = cursor()
    const bytes = ['chromebox-watchdog' as const, ...LOOPS].map(logBytes)
    const seen = new Map(NODES.map((node) => [node, new Set<number>()]))
    await until(
      '30 runs of each',
      () => {
        for (const node of NODES) seen.get(node)?.add(receipt('chromebox-watchdog', node)?.at.bootMs ?? 0)
        return [...seen.values()].every((runs) => runs.size > 30)
      },
      300_000,
      250,
    )
    t.diagnostic(`runs seen per node: ${[...seen.values()].map((runs) => runs.size).join(' ')}`)
    assert.deepEqual(['chromebox-watchdog' as const, ...LOOPS].map(logBytes), bytes)
    for (const node of NODES) assert.equal(said(position, `chromebox-watchdog@${node}.service`), '')
    for (const loop of LOOPS) assert.equal(said(position, `${loop}.service`), '')
  })
}
