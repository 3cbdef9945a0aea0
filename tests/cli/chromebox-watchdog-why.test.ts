import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { Host } from '../kit/chromebox-host.ts'
import { rx, says } from '../kit/says.ts'
import { until } from '../kit/until.ts'

let host: Host
beforeEach(async () => {
  host = await Host.make()
})
afterEach(() => host.close())

test('--why shows marks, attempts, the end of the last browser and its last lines', async () => {
  host.onStart({})
  host.write('printed', 'something it printed\u001b[31m\n')
  await host.run()
  const { out, code } = await host.run(['muse', '--why'], {})
  assert.equal(code, 0)
  for (const part of [
    /^muse: .*last acted \d\d:\d\d, helped/,
    /✓ process/,
    rx`^ {2}\S+Z ${says('no-process')} -> relaunch OK after \d+s`,
    /last browser: /,
  ]) {
    assert.match(out, part)
  }
  assert.match(out, / something it printed\n/)
  assert.ok(!out.includes('\u001b'))
})

const MISSING = says('netns-missing', { netns: 'warp-muse' })
const HISTORY = 'run/netvm/receipts/chromebox-watchdog/history/muse.json'

test('--why tells the last five runs that were news, with what they did and whether it helped', async () => {
  host.onStart({})
  await host.run()
  await host.run()
  await host.run()
  process.kill(Number(host.read('main.pid')), 'SIGKILL')
  await until('it has ended', () => !existsSync(`/proc/${host.read('main.pid').trim()}/exe`))
  rmSync(join(host.dir, 'run/netns/warp-muse'))
  for (let i = 0; i < 3; i++) await host.run()
  const { out } = await host.run(['muse', '--why'], {})
  const told = out.split('runs that found or did something new, newest last:\n')[1]?.split('\n') ?? []
  const time = String.raw`  \d{4}-\d\d-\d\dT[\d:.]+Z \([^)]+ ago\) `
  assert.match(told[0] ?? '', new RegExp(`^${time}healthy; relaunch-browser helped after .*s: before: `))
  assert.match(told[1] ?? '', new RegExp(`^${time}unhealthy: ${MISSING}$`))
  assert.match(told[2] ?? '', rx`^last run: .* unhealthy: ${MISSING}$`)
  assert.equal(JSON.parse(host.read(HISTORY)).receipts.length, 2)
})

test('a healthy tick after a healthy one keeps nothing; a look that does nothing keeps nothing', async () => {
  await host.browser()
  await host.run()
  const kept = host.read(HISTORY)
  assert.equal(JSON.parse(kept).receipts.length, 1)
  await host.run()
  rmSync(join(host.dir, 'run/netns/warp-muse'))
  await host.run(['muse', '--dry-run'], {})
  await host.run(['muse', '--why'], {})
  assert.equal(host.read(HISTORY), kept)
})

test('--why with a history that cannot be read says so and goes on', async () => {
  await host.browser()
  await host.run()
  host.write(HISTORY, '{"version":1,')
  const { out, code } = await host.run(['muse', '--why'], {})
  assert.equal(code, 0)
  assert.match(out, /newest last:\n {2}cannot be read: .*muse\.json: not JSON\nlast run: .* healthy\n/)
})
