import assert from 'node:assert/strict'
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { Host } from '../kit/chromebox-host.ts'
import { rx, says, textOf } from '../kit/says.ts'
import { until } from '../kit/until.ts'

let host: Host
beforeEach(async () => {
  host = await Host.make()
})
afterEach(() => host.close())

const OLD = 3600

test('a healthy tick: nothing said, nothing logged, no state, one child process, a receipt', async () => {
  await host.browser()
  host.calls()
  const ran = await host.run()
  assert.deepEqual(ran, { code: 0, out: '', err: '' })
  assert.equal(host.log(), '')
  assert.deepEqual(host.calls(), ['ip curl'])
  assert.ok(!host.has('var/lib/netvm/chromebox-watchdog/muse.json'))
  const { verdict, layers, node } = host.receipt()
  assert.equal(node, 'muse')
  assert.equal(verdict.state, 'healthy')
  assert.deepEqual(
    layers.map((l: { state: string }) => l.state),
    ['ok', 'not-configured', 'ok', 'ok', 'ok'],
  )
})

test('a healthy run by hand through a pipe: the timer, and the path with its marks', async () => {
  await host.browser()
  const { code, out } = await host.run(['muse'], {})
  assert.equal(code, 0)
  assert.match(out, /^muse: .*timer/)
  assert.match(out, / ✓ netns[\s\S]* ✓ page/)
})

test('no process: relaunched at once, verified, said', async () => {
  host.onStart({})
  const ran = await host.run()
  assert.equal(ran.code, 0, host.log())
  assert.match(host.log(), rx`FAIL \[muse\] ${says('no-process')}; relaunching \{no-process\}; next: `)
  assert.match(host.log(), rx`INFO \[muse\] ${says('relaunch-ok', { seconds: /\d+/ })} \{relaunch-ok\}`)
  const starts = host.calls().filter((c) => c.startsWith('systemctl start'))
  assert.deepEqual(starts, ['systemctl start chromebox@muse.service'])
  const receipt = host.receipt()
  assert.equal(receipt.verdict.state, 'healthy')
  assert.equal(receipt.actions[0].helped, true)
  assert.equal(host.state().failures, 0)
  assert.equal(host.state().attempts[0].result, 'ok')
})

test('a start that helps nothing: FAILED with how it ended, one attempt, then back-off', async () => {
  host.onStart({ mode: 'dies' })
  host.write(
    'ended',
    'Result=exit-code\nExecMainCode=1\nExecMainStatus=1\nExecMainExitTimestampMonotonic=5\n',
  )
  assert.equal((await host.run()).code, 1)
  assert.match(host.log(), rx`${says('relaunch-failed', { reason: textOf('no-process') })} `)
  assert.match(host.log(), /PAGE \[muse\] browser-fault: /)
  host.calls()
  assert.equal((await host.run()).code, 1)
  assert.match(
    host.log(),
    rx`${says('backoff', { failed: '1 failed relaunch', wait: '2m' })} \{no-process\}; next: `,
  )
  assert.ok(!host.calls().some((c) => c.startsWith('systemctl start')))
  assert.equal(host.state().failures, 1)
})

test('exit 21 and a lock of another host: the links go, and the second start helps', async () => {
  const profile = join(host.dir, 'var/lib/chromebox/muse')
  symlinkSync('elsewhere-77', join(profile, 'SingletonLock'))
  symlinkSync('12345', join(profile, 'SingletonCookie'))
  host.write(
    'ended',
    'Result=exit-code\nExecMainCode=1\nExecMainStatus=21\nExecMainExitTimestampMonotonic=5\n',
  )
  host.onStart({})
  const good = host.read('start').replace('#!/bin/bash', '')
  host.program(
    'start',
    `if [ -L "${profile}/SingletonLock" ]; then true & echo $! > "$HOST/main.pid"; ln -sfn /proc/$! "$HOST/proc/$!"; sleep 0.05; else ${good}\nfi`,
  )
  assert.equal((await host.run()).code, 0, host.log())
  assert.match(host.log(), /removed 2 Singleton links \(lock of elsewhere-77\)/)
})

test('a silent browser is confirmed, stopped and brought back; a young one is left alone', async () => {
  const pid = await host.browser({ mode: 'silent' })
  assert.equal((await host.run()).code, 1)
  assert.match(
    host.log(),
    rx`${says('cdp-unreachable', { port: host.port })} .*; ${says('fresh', { seconds: /\d+/ })} \{cdp-unreachable\}; next: `,
  )
  const dry = await host.run(['muse', '--dry-run'], {})
  assert.match(dry.out, /would relaunch; browser \d+ s old, eligible in \d+ s/)
  assert.equal(dry.code, 1)
  host.uptime(OLD)
  host.onStart({})
  const ran = await host.run()
  assert.equal(ran.code, 0, host.log())
  assert.match(host.log(), rx`${says('relaunch-ok')}`)
  assert.notEqual(Number(host.read('main.pid')), pid)
})

test('a page with another title is brought back; its reason is the contract', async () => {
  await host.browser({ title: 'News' })
  host.uptime(OLD)
  host.onStart({})
  assert.equal((await host.run()).code, 0, host.log())
  assert.match(
    host.log(),
    rx`FAIL \[muse\] ${says('page-missing', { title: 'Muse' })} \(titles: News\); relaunching`,
  )
})

test('somebody else on the port: own reason, nobody is killed', async () => {
  host.config({ NETVM_RELAUNCH_INTERVAL: 0.5 })
  const squatter = await host.browser()
  rmSync(join(host.dir, `proc/${squatter}`))
  rmSync(join(host.dir, 'var/lib/chromebox/muse/ready'))
  rmSync(join(host.dir, 'main.pid'))
  host.onStart({ mode: 'deaf' })
  await host.run()
  host.uptime(OLD)
  const main = Number(host.read('main.pid'))
  host.calls()
  assert.equal((await host.run()).code, 1)
  assert.match(host.log(), rx`${says('port-squatted', { port: /\d+/ })}`)
  assert.ok(!host.calls().some((c) => /stop|start/.test(c)))
  for (const pid of [main, squatter]) process.kill(pid, 0)
  process.kill(squatter, 'SIGKILL')
})

test('a row with another port than its unit has: nothing is killed, and ensure is named', async () => {
  const pid = await host.browser()
  host.uptime(OLD)
  const other = host.port === 9411 ? 9412 : 9411
  const names = { NODE: 'muse', NETNS: 'warp-muse', VETH: 've-1', VPEER: 'vp-1', WG: 'wg-1' }
  const settings = { ...names, SUB: '10.0.0.0/30', GW: '10.0.0.1', PEER_IP: '10.0.0.2', CHAT_URL: '' }
  const text = Object.entries({ ...settings, CDP_PORT: host.port }).map(([key, v]) => `${key}='${v}'\n`)
  mkdirSync(join(host.dir, 'etc/netvm/nodes'))
  host.write('etc/netvm/nodes/muse.env', text.join(''))
  host.write('etc/netvm/NODES.md', host.read('etc/netvm/NODES.md').replaceAll(`${host.port}`, `${other}`))
  host.calls()
  assert.equal((await host.run()).code, 1)
  assert.match(
    host.log(),
    rx`${says('cdp-unreachable', { port: other })}.*; ${says('not-applied', { what: new RegExp(`the row says port ${other}.*`) })}`,
  )
  assert.match(host.log(), /FAIL \[muse\] .*; next: ensure-node-supervision muse\n/)
  assert.match(host.log(), rx`PAGE \[muse\] browser-fault: .*${says('not-applied')}`)
  assert.ok(!host.calls().some((c) => /stop|start/.test(c)))
  process.kill(pid, 0)
})

test('held: no attempt, says so, and release lets the next run act', async () => {
  host.setState({ failures: 5, held: { sinceWallMs: 1 }, last: { startBootMs: host.nowBootMs() - 60_000 } })
  assert.equal((await host.run()).code, 1)
  assert.match(
    host.log(),
    rx`${says('held', { failures: 5, wait: '29m' })} \{no-process\}; next: chromebox-watchdog release muse`,
  )
  assert.match(host.log(), rx`PAGE \[muse\] browser-fault: ${says('held-down')}`)
  const released = await host.run(['release', 'muse'], {})
  assert.equal(released.code, 0)
  assert.match(released.out, /released \(.*5 failed relaunches\)/)
  assert.equal((await host.run()).code, 0, host.log())
  assert.match((await host.run(['release', 'muse'], {})).out, /nothing to release/)
})

test('two runs at once: one relaunches, the other waits for it and finds it well', async () => {
  const both = await Promise.all([host.run(), host.run()])
  assert.deepEqual(
    both.map((r) => r.code),
    [0, 0],
    host.log(),
  )
  assert.equal(host.calls().filter((c) => c.startsWith('systemctl start')).length, 1)
  assert.equal(host.state().attempts.length, 1)
})

test('killed in the middle of a relaunch: the attempt counts, the lock is free, the next run backs off', async () => {
  host.onStart({ mode: 'deaf' })
  const { child, done } = host.start()
  await until('it starts one', () => host.read('calls').includes('systemctl start'))
  // The attempt is in its middle once the browser that it started is one to look at.
  await until(
    'the browser is there',
    () =>
      host.has('main.pid') &&
      /--user-data-dir/.test(host.read(`proc/${host.read('main.pid').trim()}/cmdline`)),
  )
  child.kill('SIGKILL')
  await done
  assert.equal(host.state().attempts[0].result, 'pending')
  host.uptime(121)
  host.onStart({})
  assert.equal((await host.run()).code, 0, host.log())
  assert.match(host.log(), rx`${says('cdp-unreachable')} .*; relaunching`)
  assert.deepEqual(
    host.state().attempts.map((a: { result: string }) => a.result),
    ['pending', 'ok'],
  )
})

for (const [name, text] of [
  ['empty', ''],
  ['torn', '{"version":1,"boot'],
  ['full of NULs', '\0\0\0\0\0\0'],
] as const) {
  test(`a state file that is ${name}: kept, said, and no relaunch before the longest back-off`, async () => {
    host.write('var/lib/netvm/chromebox-watchdog/muse.json', text)
    assert.equal((await host.run()).code, 1)
    assert.match(host.log(), rx`WARN \[muse\] ${says('state-corrupt', { kept: /.*corrupt-.*/ })}`)
    assert.match(host.log(), rx`${says('no-process')}; ${says('cautious', { wait: '30m' })}`)
    assert.ok(!host.calls().some((c) => c.startsWith('systemctl start')))
    host.uptime(1801)
    assert.equal((await host.run()).code, 0, host.log())
  })
}

test('no namespace: FAIL_LOUD with the command, paged, nothing restarted', async () => {
  rmSync(join(host.dir, 'run/netns/warp-muse'))
  assert.equal((await host.run()).code, 1)
  assert.match(
    host.log(),
    rx`FAIL_LOUD \[muse\] ${says('netns-missing', { netns: 'warp-muse' })} \{netns-missing\}; next: netvm-node-up muse`,
  )
  assert.match(
    host.log(),
    rx`PAGE \[muse\] netns-fault: ${says('netns-missing', { netns: 'warp-muse' })} \{netns-missing\}; next: netvm-node-up muse`,
  )
  assert.ok(!host.calls().some((c) => c.startsWith('systemctl')))
})

test('--json is the receipt; a dry run adds what would be done and changes nothing', async () => {
  const dry = JSON.parse((await host.run(['muse', '--dry-run', '--json'], {})).out)
  assert.equal(dry.would[0].kind, 'relaunch-browser')
  assert.ok(!host.has('run/netvm/receipts/chromebox-watchdog/muse.json'))
  assert.equal(host.log(), '')
  const done = JSON.parse((await host.run(['muse', '--json'], {})).out)
  assert.equal(done.verdict.state, 'healthy')
  assert.equal(done.actions[0].kind, 'relaunch-browser')
})

test('a log that cannot be written: it acts all the same, and the journal has the line', async () => {
  rmSync(join(host.dir, 'var/log'), { recursive: true, force: true })
  host.write('var/log', 'a file where a folder should be')
  assert.equal((await host.run()).code, 0)
  assert.match(host.read('journal'), rx`${says('relaunch-ok')}`)
  assert.match(host.read('journal'), /not in .*chromebox-watchdog\.log/)
})

test('state that cannot be written: a dead browser comes back once, a living one is not touched', async () => {
  rmSync(join(host.dir, 'var/lib/netvm/chromebox-watchdog'), { recursive: true, force: true })
  host.write('var/lib/netvm/.there', '')
  // Nobody, root included, can make a file there.
  symlinkSync('/sys/kernel', join(host.dir, 'var/lib/netvm/chromebox-watchdog'))
  assert.equal((await host.run()).code, 0, host.log())
  assert.match(
    host.log(),
    /WARN \[muse\] cannot open .*muse\.json: permission denied \(EACCES\): .* \{state-not-kept\}; next: namei -l /,
  )
  process.kill(Number(host.read('main.pid')), 'SIGKILL')
  await until('it has ended', () => !existsSync(`/proc/${host.read('main.pid').trim()}/exe`))
  assert.equal((await host.run()).code, 1)
  assert.match(
    host.log(),
    rx`${says('no-process')}; not relaunched again so soon: cannot open .* permission denied`,
  )
  await host.browser({ title: 'News' })
  host.uptime(OLD)
  host.calls()
  assert.equal((await host.run()).code, 1)
  assert.match(host.log(), rx`${says('page-missing', { title: 'Muse' })}; .*cannot open .* permission denied`)
  assert.ok(!host.calls().some((c) => /stop|start/.test(c)))
})
