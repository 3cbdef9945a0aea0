import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { test } from 'node:test'
import { all, driftHost, quiet, REGISTRY, reload, SERVICE, state, TIMER, units } from './drift-kit.ts'
import { cursor, entries, ok, sh, until, writeUnit } from './harness.ts'

// What ensure must leave alone, must not lose, and must not do twice.

driftHost()

test('legacy supervision is named, ours is not armed against it, and the printed command ends it', () => {
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
})

test('two runs at once, while a person edits the registry: nothing is lost', async () => {
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

test('start-limit-hit: reset once, told and paged; a second time left to a person', async () => {
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
