import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, before } from 'node:test'
import { browser, cursor, entries, nodeUp, ok, sh, until, untilTitled, writeUnit } from './harness.ts'

export const TIMER = 'chromebox-watchdog@muse.timer'
export const SERVICE = 'chromebox-watchdog@muse.service'
export const REGISTRY = '/etc/netvm/NODES.md'
export const units = '/etc/systemd/system'
export const check = () => sh(['ensure-node-supervision', '--check'])
export const all = () => sh(['ensure-node-supervision', '--all'])
export const reload = () => ok(['systemctl', 'daemon-reload'])
export const drift = (): string[] =>
  check()
    .stdout.split('\n')
    // What has no run yet is no drift: these tests are faster than a period.
    .filter(
      (line) =>
        line.startsWith('NOT MET') && !/: (chromebox-watchdog|cdp-relay-watchdog|agent-health): /.test(line),
    )

/** A run of --all that says nothing and after which systemd has not reloaded. */
export function quiet(): void {
  const position = cursor()
  const run = all()
  assert.equal(run.all, '')
  assert.equal(run.code, 0)
  const reloads = entries(position, undefined).filter((e) => /^Reloading/.test(e.MESSAGE ?? ''))
  assert.deepEqual(
    reloads.map((e) => e.MESSAGE),
    [],
  )
}

export const state = (unit: string) => sh(['systemctl', 'is-active', unit]).stdout.trim()

/** Runs the watchdog's service once with a drop-in that makes it fail, and takes the drop-in away. */
export async function failWith(result: string, dropIn: string): Promise<void> {
  writeUnit(`${SERVICE}.d/zz-fault.conf`, dropIn)
  reload()
  sh(['systemctl', 'start', SERVICE])
  await until(result, () => ok(['systemctl', 'show', '-p', 'Result', '--value', SERVICE]) === result, 10_000)
  rmSync(`${units}/${SERVICE}.d/zz-fault.conf`)
  reload()
}

/** One node for the whole file. No heal may touch its browser. */
export function driftHost(): void {
  let was: ReturnType<typeof browser>
  before(async () => {
    nodeUp('muse', { args: ['--port', '9410'] })
    await untilTitled('muse')
    was = browser('muse')
    // The lab's systemd is told to say little; a host's says when it reloads and how runs end.
    ok(['systemd-analyze', 'log-level', 'info'])
    quiet()
  })
  after(() => assert.deepEqual(browser('muse'), was, 'the browser was touched'))
}
