import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import {
  all,
  drift,
  driftHost,
  driftTest,
  heals,
  quiet,
  reload,
  reports,
  SERVICE,
  state,
  TIMER,
  units,
} from '../kit/lab/drift.ts'
import { cadence, ok, scaled, until, writeUnit } from '../kit/lab.ts'

// Timers that do not fire although they are enabled and started, each made so without touching a clock.

driftHost()

/** Of the timer that others put off, in seconds of a quick machine: longer than one run takes. */
const PERIOD_S = 4
const FAST = '[Timer]\nOnActiveSec=\nOnActiveSec=1\nOnUnitActiveSec=1\n'
const dropIn = (unit: string) => `${units}/${unit}.d/zz-fault.conf`
const lastTrigger = (unit: string) =>
  ok(['systemctl', 'show', '-p', 'LastTriggerUSecMonotonic', '--value', unit])

function put(unit: string, text: string): void {
  writeUnit(`${unit}.d/zz-fault.conf`, text)
  reload()
}

function take(unit: string): void {
  rmSync(dropIn(unit))
  reload()
}

driftTest('last trigger older than three periods: its service has not ended since', async () => {
  // What never triggers because others start its service more often than it would is no drift, so both run at once.
  const timer = 'cdp-relay-watchdog.timer'
  cadence(timer, PERIOD_S)
  await until('it triggered', () => !['', '0'].includes(lastTrigger(timer)), 10_000)
  const loop = 'while :; do systemctl start cdp-relay-watchdog.service; sleep 0.2; done'
  const others = spawn('bash', ['-c', loop], { stdio: 'ignore' })
  try {
    const triggered = lastTrigger(timer)
    const since = performance.now()
    await heals({
      name: '',
      inject: async () => {
        put(SERVICE, '[Service]\nType=simple\nExecStart=\nExecStart=/bin/sleep infinity\n')
        put(TIMER, FAST)
        ok(['systemctl', 'restart', TIMER])
        await until('it runs', () => state(SERVICE) === 'active', 10_000)
        take(SERVICE)
        await until('ensure calls the timer dead', () => drift().length > 0, 40_000, 500)
        // Three periods and 15 s of slack.
        const old = 3 * scaled(PERIOD_S * 1000) + 16_000
        await until('the other would be too old as well', () => performance.now() - since > old, old + 10_000)
      },
      says: /muse: chromebox-watchdog@muse\.timer last triggered \d+s ago, its period is 1s: chromebox-watchdog@muse\.service has not ended since/,
      did: /: chromebox-watchdog@muse\.service stopped$/,
      cleanup: () => {
        assert.equal(lastTrigger(timer), triggered, 'this one was to be put off all the time')
        take(TIMER)
      },
    })
  } finally {
    others.kill('SIGKILL')
    rmSync(`${units}/${timer}.d/zz-lab.conf`)
    reload()
    ok(['systemctl', 'restart', timer])
  }
})

for (const f of [
  {
    scope: 'muse',
    timer: TIMER,
    spoil: () => ok(['systemctl', 'mask', '--quiet', SERVICE]) as never,
    says: /muse: chromebox-watchdog@muse\.service is masked by hand/,
    next: /^systemctl unmask chromebox-watchdog@muse\.service$/,
  },
  {
    scope: 'fleet',
    timer: 'agent-health.timer',
    spoil: () => put('agent-health.service', '[Service]\nExecStart=\n'),
    says: /fleet: agent-health\.service cannot be loaded \(bad-setting\)/,
    next: /^rm \S+ && systemctl daemon-reload$/,
  },
]) {
  driftTest(
    `timer failed (${f.scope}): told and left while its service cannot be loaded, then healed`,
    async () => {
      put(f.timer, FAST)
      ok(['systemctl', 'restart', f.timer])
      f.spoil()
      await until('the timer fails', () => state(f.timer) === 'failed', 20_000)
      take(f.timer)
      await reports({
        ...f,
        name: '',
        inject: () => {},
        afterwards: {
          says: new RegExp(`${f.scope}: ${f.timer} failed \\(resources\\)`),
          did: /: armed again$/,
        },
      })
    },
  )
}

// systemd reckons a timer anew whenever it reads its settings, so a far or missing elapse lasts only as long as the
// settings that made it are in force: here they are gone from the disk, and systemd has not read that yet.
for (const [name, text, says] of [
  [
    'due absurdly far',
    'RandomizedDelaySec=3650d',
    /^muse: chromebox-watchdog@muse\.timer is due only in \d+d: armed again$/,
  ],
  [
    'waiting without a next elapse',
    'OnActiveSec=\nOnCalendar=2099-01-01',
    /^muse: chromebox-watchdog@muse\.timer is waiting without a next elapse: armed again$/,
  ],
] as const) {
  driftTest(`timer ${name}, by settings that are gone but still in force`, () => {
    put(TIMER, `[Timer]\n${text}\n`)
    ok(['systemctl', 'restart', TIMER])
    rmSync(dropIn(TIMER))
    const seen = drift().map((line) => line.replace(/^NOT MET +/, ''))
    assert.equal(seen.length, 2, seen.join('\n'))
    const run = all()
    const lines = run.all.trim().split('\n')
    assert.equal(lines.length, 2, run.all)
    assert.match(
      lines[0] ?? '',
      /^fleet: systemd has not read the newest chromebox-watchdog@muse\.timer: reloaded$/,
    )
    assert.match(lines[1] ?? '', says)
    assert.equal(run.code, 0)
    assert.deepEqual(drift(), [])
    quiet()
  })
}

driftTest('a timer that cannot be started costs the others nothing, and no line claims it', () => {
  put(TIMER, '[Unit]\nAssertPathExists=/nowhere\n')
  ok(['systemctl', 'stop', TIMER])
  ok(['systemctl', 'disable', '--now', '--quiet', 'agent-health.timer'])
  const run = all()
  assert.equal(run.code, 1)
  assert.equal(
    run.stdout.trim(),
    'fleet: agent-health.timer is neither enabled nor started: enabled and armed',
  )
  assert.match(
    run.stderr.trim(),
    /^muse: chromebox-watchdog@muse\.timer is enabled but not started, and still is: systemctl .*: exit 1: Assertion failed.*; next: systemctl status chromebox-watchdog@muse\.timer$/,
  )
  take(TIMER)
  assert.match(
    all().stdout,
    /^muse: chromebox-watchdog@muse\.timer is enabled but not started: armed again\n$/,
  )
  quiet()
})
