import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import {
  all,
  type Drift,
  drift,
  driftHost,
  driftTest,
  failWith,
  heals,
  quiet,
  REGISTRY,
  reload,
  SERVICE,
  state,
  TIMER,
  units,
} from '../kit/lab/drift.ts'
import { ok, sh, until, writeUnit } from '../kit/lab.ts'

// Each kind of drift, injected for real: --check says what is wrong, --all heals it in one line, and a
// second --all says nothing and reloads nothing.

driftHost()

const drifts: Drift[] = [
  {
    name: 'timer missing',
    inject: () => ok(['systemctl', 'disable', '--now', '--quiet', TIMER]) as never,
    says: /muse: chromebox-watchdog@muse\.timer is neither enabled nor started/,
    did: /: enabled and armed$/,
  },
  {
    name: 'timer disabled',
    inject: () => ok(['systemctl', 'disable', '--quiet', TIMER]) as never,
    says: /muse: chromebox-watchdog@muse\.timer is disabled/,
    did: /: enabled and armed$/,
  },
  {
    name: 'timer enabled, not started',
    inject: () => ok(['systemctl', 'stop', TIMER]) as never,
    says: /muse: chromebox-watchdog@muse\.timer is enabled but not started/,
    did: /: armed again$/,
  },
  {
    name: 'timer enabled but never elapsing',
    // A clock that was far ahead leaves a calendar timer like this; here it is made with one that has passed.
    inject: () => {
      writeUnit(`${TIMER}.d/zz-never.conf`, '[Timer]\nOnActiveSec=\nOnCalendar=2001-01-01\n')
      reload()
      ok(['systemctl', 'restart', TIMER])
      rmSync(`${units}/${TIMER}.d/zz-never.conf`)
      reload()
    },
    says: /muse: chromebox-watchdog@muse\.timer (is elapsed: it never elapses again|is waiting without a next elapse)/,
    did: /: armed again$/,
  },
  {
    name: 'unit settings that differ from the row',
    inject: () => {
      const file = '/etc/netvm/nodes/muse.env'
      writeFileSync(file, readFileSync(file, 'utf8').replace('9410', '9999'))
    },
    says: /muse: unit settings differ from the row \(settings\)/,
    did: /: written; netvm-node-up muse makes what runs follow$/,
  },
  {
    name: 'the relay’s drop-in gone',
    inject: () => {
      rmSync(`${units}/cdp-relay@muse.socket.d/netvm.conf`)
      reload()
    },
    says: /muse: unit settings are missing \(relay address\)/,
    did: /: written$/,
  },
  {
    name: 'the timer’s drop-in edited',
    inject: () => {
      writeUnit(`${TIMER}.d/netvm.conf`, '[Timer]\nOnUnitActiveSec=9999s\n')
      reload()
    },
    says: /muse: unit settings differ from the row \(timer offset\)/,
    did: /: written; netvm-node-up/,
  },
  {
    name: 'fleet-wide timer disabled',
    inject: () => ok(['systemctl', 'disable', '--now', '--quiet', 'agent-health.timer']) as never,
    says: /fleet: agent-health\.timer is neither enabled nor started/,
    did: /: enabled and armed$/,
  },
  {
    name: 'target not enabled',
    inject: () => ok(['systemctl', 'disable', '--quiet', 'netvm-node@muse.target']) as never,
    says: /muse: netvm-node@muse\.target is not enabled: a reboot would not bring the node back/,
    did: /: enabled$/,
  },
  {
    name: 'CDP queue gone',
    inject: () => rmSync('/run/netvm/cdp-queue/muse', { recursive: true }),
    says: /muse: its CDP queue is not there/,
    did: /: made$/,
  },
  {
    name: 'supervisor killed by its timeout',
    inject: async () => {
      await failWith('timeout', '[Service]\nExecStart=\nExecStart=/bin/sleep 60\nTimeoutStartSec=1s\n')
    },
    says: /muse: chromebox-watchdog@muse\.service failed \(timeout\)/,
    did: /: reset; journalctl -u chromebox-watchdog@muse\.service -n 30 says why$/,
  },
  {
    name: 'a run that hangs without a timeout',
    inject: async () => {
      const hang = '[Service]\nExecStartPre=/bin/sleep 600\nTimeoutStartSec=infinity\n'
      // 15 s of slack and two periods of 3 s: what a healthy run may take is counted from the period.
      writeUnit(`${TIMER}.d/zz-fast.conf`, '[Timer]\nOnActiveSec=\nOnActiveSec=1\nOnUnitActiveSec=3\n')
      writeUnit(`${SERVICE}.d/zz-fault.conf`, hang)
      reload()
      ok(['systemctl', 'restart', TIMER])
      await until('the run hangs', () => state(SERVICE) === 'activating', 10_000)
      await until('ensure calls it too long', () => drift().length > 0, 40_000, 1000)
    },
    cleanup: () => {
      rmSync(`${units}/${SERVICE}.d/zz-fault.conf`)
      rmSync(`${units}/${TIMER}.d/zz-fast.conf`)
      reload()
      sh(['systemctl', 'stop', SERVICE])
      sh(['systemctl', 'reset-failed', SERVICE])
      ok(['systemctl', 'restart', TIMER])
    },
    says: /muse: chromebox-watchdog@muse\.service has been activating for \d+s and blocks the runs after it/,
    did: /: stopped$/,
  },
]

for (const d of drifts) driftTest(`drift: ${d.name}`, () => heals(d))

driftTest('masked by hand: reported with the command, not undone', () => {
  ok(['systemctl', 'mask', '--now', '--quiet', TIMER])
  const [line] = drift()
  assert.match(
    line ?? '',
    /muse: chromebox-watchdog@muse\.timer is masked by hand; next: systemctl unmask chromebox-watchdog@muse\.timer$/,
  )
  const run = all()
  assert.equal(run.code, 1)
  assert.equal(run.stdout, '')
  assert.match(run.stderr, /masked by hand/)
  assert.match(ok(['readlink', `${units}/${TIMER}`]), /null/)
  ok(['bash', '-c', /next: (.*)$/.exec(line ?? '')?.[1] ?? ''])
  assert.match(all().stdout, /enabled and armed|armed again/)
  quiet()
})

driftTest('a fleet-wide unit file gone: put back from the release, and armed', () => {
  ok(['systemctl', 'stop', 'agent-health.timer'])
  rmSync(`${units}/agent-health.timer`)
  reload()
  assert.match(drift().join('\n'), /fleet: the unit file .*\/agent-health\.timer is missing/)
  const run = all()
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, /^fleet: the unit file .*agent-health\.timer is missing: put back$/m)
  assert.equal(state('agent-health.timer'), 'active')
  quiet()
})

driftTest('a retired row still supervised: its timer goes; what runs is named', () => {
  const text = readFileSync(REGISTRY, 'utf8')
  writeFileSync(REGISTRY, text.replace(/(\| muse .*\|) active \|/, '$1 retired |'))
  assert.match(drift().join('\n'), /muse: still supervised, but its row is retired/)
  const run = all()
  assert.match(run.stdout, /^muse: still supervised, but its row is retired: supervision removed$/m)
  assert.match(run.stderr, /still running, but its row is retired; next: netvm-node-down muse/)
  assert.equal(state(TIMER), 'inactive')
  assert.ok(!existsSync(`${units}/timers.target.wants/${TIMER}`))
  writeFileSync(REGISTRY, text)
  assert.equal(all().code, 0)
  quiet()
})

driftTest('a removed row too; but a file that cannot be read as a registry removes nothing', () => {
  const text = readFileSync(REGISTRY, 'utf8')
  writeFileSync(REGISTRY, '# nothing here\n')
  assert.equal(all().code, 78)
  assert.equal(state(TIMER), 'active')
  writeFileSync(REGISTRY, text.replace(/^\| muse .*$/m, '| muse | broken'))
  const refused = all()
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /NODES\.md line \d+: /)
  assert.equal(state(TIMER), 'active', 'a row that was mistyped does not end supervision')
  writeFileSync(REGISTRY, text.replace(/^\| muse .*\n/m, ''))
  assert.match(all().stdout, /^muse: still supervised, but it has no row here: supervision removed$/m)
  assert.equal(state(TIMER), 'inactive')
  writeFileSync(REGISTRY, text)
  assert.equal(all().code, 0)
  quiet()
})
