import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  all,
  check,
  driftHost,
  driftTest,
  quiet,
  REGISTRY,
  reload,
  SERVICE,
  state,
  TIMER,
  units,
} from '../kit/lab/drift.ts'
import { cursor, entries, ok, sh, until, writeUnit } from '../kit/lab.ts'

// What ensure must leave alone, must not lose, and must not do twice.

driftHost()

driftTest(
  'legacy supervision is named, ours is not armed against it, and the printed command ends it',
  () => {
    writeUnit('chromebox-watchdog-muse.service', '[Service]\nType=oneshot\nExecStart=/bin/true\n')
    writeUnit(
      'chromebox-watchdog-muse.timer',
      '[Timer]\nOnUnitActiveSec=60\nOnActiveSec=60\n[Install]\nWantedBy=timers.target\n',
    )
    reload()
    ok(['systemctl', 'enable', '--now', '--quiet', 'chromebox-watchdog-muse.timer'])
    const run = all()
    assert.equal(run.code, 1)
    assert.match(run.stdout, /^muse: supervised by chromebox-watchdog-muse\.timer as well: .*stopped/m)
    assert.equal(state(TIMER), 'inactive')
    const again = all()
    assert.equal(again.stdout, '')
    assert.equal(state(TIMER), 'inactive')
    const next = /next: (.*)$/m.exec(again.stderr)?.[1] ?? ''
    ok(['bash', '-c', next])
    reload()
    assert.match(all().stdout, /armed again$/m)
    quiet()
  },
)

driftTest(
  'cron lines, user timers and a stray browser: each named with the command that ends it',
  async () => {
    const cron = '/etc/cron.d/old'
    mkdirSync('/etc/cron.d', { recursive: true })
    writeFileSync(cron, '# agent-health\n*/2 * * * * root chromebox-watchdog muse\n')
    const mine = '/root/.config/systemd/user/agent-health.timer'
    mkdirSync(dirname(mine), { recursive: true })
    const timer = '[Timer]\nOnUnitActiveSec=60\nOnActiveSec=60\n[Install]\nWantedBy=timers.target\n'
    writeFileSync(mine, timer)
    const everybody = '/etc/systemd/user/cdp-relay-watchdog.timer'
    mkdirSync(dirname(everybody), { recursive: true })
    writeFileSync(everybody, timer)
    ok(['systemctl', '--global', '--quiet', 'enable', 'cdp-relay-watchdog.timer'])
    const asBrowser = `exec -a /opt/chromium node -e 'setInterval(() => {}, 1e6)' -- --remote-debugging-port=9410`
    const stray = spawn('ip', ['netns', 'exec', 'warp-muse', 'bash', '-c', asBrowser], { stdio: 'ignore' })
    const ended = new Promise((resolve) => stray.once('exit', resolve))
    try {
      await until('the stray is seen', () => /a browser outside/.test(check().all), 10_000)
      const [first, second] = [all(), all()]
      const timers = [TIMER, 'agent-health.timer', 'cdp-relay-watchdog.timer']
      for (const unit of timers) {
        assert.match(first.stdout, new RegExp(` as well: ${unit} stopped until it is gone: `))
        assert.equal(state(unit), 'inactive')
      }
      assert.deepEqual([first.code, second.code, second.stdout], [1, 1, ''])
      const left = second.stderr.trim().split('\n').sort()
      assert.equal(left.length, 4, second.stderr)
      assert.match(
        left[1] ?? '',
        /^fleet: .*user root's agent-health\.timer.*; next: systemctl --user -M root@ disable/,
      )
      assert.match(
        left[0] ?? '',
        /^fleet: .*the user unit cdp-relay-watchdog\.timer as well; next: systemctl --global/,
      )
      assert.match(
        left[2] ?? '',
        /^muse: .*a browser outside chromebox@muse\.service \(pid \d+, \/opt\/chromium\) .*kill/,
      )
      assert.match(
        left[3] ?? '',
        /^muse: .*a chromebox-watchdog line in \/etc\/cron\.d\/old as well; next: editor/,
      )
      for (const line of [left[0], left[2]]) ok(['bash', '-c', /next: (.*)$/.exec(line ?? '')?.[1] ?? ''])
      await ended
      assert.ok(!existsSync(everybody))
      // An editor needs a person, and the user's own manager a login.
      rmSync(cron)
      rmSync(mine)
      assert.equal(all().stdout.trim().split('\n').length, 3)
      for (const unit of timers) assert.equal(state(unit), 'active')
      quiet()
    } finally {
      stray.kill('SIGKILL')
    }
  },
)

driftTest('two runs at once, while a person edits the registry: nothing is lost', async () => {
  ok(['systemctl', 'disable', '--now', '--quiet', TIMER])
  const script = `
    ensure-node-supervision --add n1 & ensure-node-supervision --add n2 & ensure-node-supervision --all &
    for i in $(seq 20); do printf '\\nnote %s\\n' $i >> ${REGISTRY}; sleep 0.02; done; wait`
  const run = sh(['bash', '-c', script], { deadlineMs: 60_000 })
  const text = readFileSync(REGISTRY, 'utf8')
  for (const n of ['n1', 'n2', 'muse']) assert.match(text, new RegExp(`^\\| ${n} `, 'm'), run.all)
  for (let i = 1; i <= 20; i++) assert.match(text, new RegExp(`^note ${i}$`, 'm'))
  for (const n of ['n1', 'n2', 'muse']) assert.equal(state(`chromebox-watchdog@${n}.timer`), 'active')
  for (const n of ['n1', 'n2']) sh(['netvm-node-down', n])
})

driftTest('start-limit-hit: reset once, told and paged; a second time left to a person', async () => {
  mkdirSync(`${units}/${SERVICE}.d`, { recursive: true })
  const limited =
    '[Unit]\nStartLimitIntervalSec=300\nStartLimitBurst=1\n[Service]\nExecStart=\nExecStart=/bin/true\n'
  writeUnit(`${SERVICE}.d/zz-fault.conf`, limited)
  reload()
  rmSync('/var/lib/netvm/ensure/resets.json', { force: true })
  const hit = async () => {
    for (let i = 0; i < 5; i++) sh(['systemctl', 'start', SERVICE])
    await until(
      'the limit',
      () => ok(['systemctl', 'show', '-p', 'Result', '--value', SERVICE]) === 'start-limit-hit',
      5000,
    )
  }
  await hit()
  const position = cursor()
  const first = all()
  assert.match(first.stdout, /^muse: chromebox-watchdog@muse\.service failed \(start-limit-hit.*reset/m)
  assert.ok(entries(position).some((e) => e.PRIORITY === '2' && /PAGE \[muse\]/.test(e.MESSAGE ?? '')))
  await hit()
  const second = all()
  assert.equal(second.code, 1)
  assert.match(second.stderr, /again after a reset \d+s ago; next: journalctl/)
  assert.equal(state(SERVICE), 'failed')
  rmSync(`${units}/${SERVICE}.d/zz-fault.conf`)
  reload()
  ok(['systemctl', 'reset-failed', SERVICE])
})
