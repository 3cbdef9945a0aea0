import assert from 'node:assert/strict'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  all,
  drift,
  driftHost,
  driftTest,
  quiet,
  reload,
  reports,
  SERVICE,
  TIMER,
  units,
} from '../kit/lab/drift.ts'
import { ok, sh, writeUnit } from '../kit/lab.ts'

// What a person, or a program of theirs, set on our units: it is told with the command that takes it away, and
// never taken away by itself.

driftHost()

interface Foreign {
  readonly name: string
  readonly unit: string
  /** Absent: a drop-in below /etc. */
  readonly file?: string
  readonly text: string
  readonly says: RegExp
  readonly next: RegExp
}

function writeFile(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const byTimer = /^rm \/\S+ && systemctl daemon-reload && systemctl restart \S+\.timer$/
const byService = /^rm \/\S+ && systemctl daemon-reload$/

const foreign: Foreign[] = [
  {
    name: 'a longer period',
    unit: TIMER,
    text: '[Timer]\nOnActiveSec=\nOnActiveSec=1\nOnUnitActiveSec=1d\n',
    says: /muse: chromebox-watchdog@muse\.timer may take 24h from one run to the next, the release says 2min/,
    next: byTimer,
  },
  {
    name: 'a longer period for all nodes, below /run',
    unit: TIMER,
    file: '/run/systemd/system/chromebox-watchdog@.timer.d/zz-slow.conf',
    text: '[Timer]\nOnActiveSec=\nOnActiveSec=1\nOnUnitActiveSec=30min\n',
    says: /muse: chromebox-watchdog@muse\.timer may take 30min/,
    next: byTimer,
  },
  {
    name: 'a random delay of weeks',
    unit: 'agent-health.timer',
    text: '[Timer]\nRandomizedDelaySec=30d\n',
    says: /fleet: agent-health\.timer may take 30d from one run to the next, the release says 5min/,
    next: byTimer,
  },
  {
    name: 'a first elapse in a month',
    unit: TIMER,
    text: '[Timer]\nOnActiveSec=\nOnActiveSec=30d\nOnUnitActiveSec=120\n',
    says: /muse: chromebox-watchdog@muse\.timer fires only 30d after it was armed/,
    next: byTimer,
  },
  {
    name: 'no first elapse',
    unit: TIMER,
    text: '[Timer]\nOnActiveSec=\nOnUnitActiveSec=120\n',
    says: /muse: chromebox-watchdog@muse\.timer has no OnActiveSec: after a boot it never fires/,
    next: byTimer,
  },
  {
    name: 'a calendar instead of a period',
    unit: TIMER,
    text: '[Timer]\nOnActiveSec=\nOnCalendar=2099-01-01\n',
    says: /muse: chromebox-watchdog@muse\.timer has no OnUnitActiveSec: it fires once and never again/,
    next: byTimer,
  },
  {
    name: 'another service to fire',
    unit: 'cdp-relay-watchdog.timer',
    text: '[Timer]\nUnit=agent-health.service\n',
    says: /fleet: cdp-relay-watchdog\.timer fires agent-health\.service instead of cdp-relay-watchdog\.service/,
    next: byTimer,
  },
  {
    name: 'a timer that systemd refuses',
    unit: TIMER,
    text: '[Timer]\nOnActiveSec=\n',
    says: /muse: chromebox-watchdog@muse\.timer cannot be loaded \(bad-setting\)/,
    next: byTimer,
  },
  {
    name: 'another program',
    unit: SERVICE,
    file: `/run/systemd/system/${SERVICE}.d/zz-test.conf`,
    text: '[Service]\nExecStart=\nExecStart=/bin/true --quiet\n',
    says: /muse: chromebox-watchdog@muse\.service runs \/bin\/true --quiet instead of \/usr\/local\/bin\/chromebox-watchdog muse/,
    next: byService,
  },
  {
    name: 'a unit file of the instance’s own',
    unit: SERVICE,
    file: `${units}/${SERVICE}`,
    text: '[Service]\nType=oneshot\nExecStart=/bin/true\n',
    says: /muse: chromebox-watchdog@muse\.service runs \/bin\/true instead of/,
    next: byService,
  },
  {
    name: 'another program for a loop',
    unit: 'agent-health.service',
    text: '[Service]\nExecStart=/bin/true\n',
    says: /fleet: agent-health\.service runs \/usr\/local\/bin\/agent-health, \/bin\/true instead of/,
    next: byService,
  },
  {
    name: 'a service that never ends',
    unit: SERVICE,
    text: '[Service]\nRemainAfterExit=yes\n',
    says: /muse: chromebox-watchdog@muse\.service stays active after a run, so its timer fires no other/,
    next: byService,
  },
  {
    name: 'a service that systemd refuses',
    unit: SERVICE,
    text: '[Service]\nExecStart=\n',
    says: /muse: chromebox-watchdog@muse\.service cannot be loaded \(bad-setting\)/,
    next: byService,
  },
  {
    name: 'another browser profile',
    unit: 'chromebox@muse.service',
    text: '[Service]\nExecStart=\nExecStart=/bin/true --user-data-dir=/tmp --remote-debugging-port=$CDP_PORT\n',
    says: /muse: chromebox@muse\.service runs without --user-data-dir=\/var\/lib\/chromebox\/muse/,
    next: byService,
  },
  {
    name: 'a browser in the host’s network',
    unit: 'chromebox@muse.service',
    text: '[Service]\nNetworkNamespacePath=\n',
    says: /muse: chromebox@muse\.service runs in the host's network instead of \/run\/netns\/warp-muse/,
    next: byService,
  },
  {
    name: 'a relay to another port',
    unit: 'cdp-relay@muse.service',
    text: '[Service]\nExecStart=\nExecStart=/usr/lib/systemd/systemd-socket-proxyd 127.0.0.1:9999\n',
    says: /muse: cdp-relay@muse\.service runs without 127\.0\.0\.1:9410/,
    next: byService,
  },
  {
    name: 'an address of the relay',
    unit: 'cdp-relay@muse.socket',
    text: '[Socket]\nListenStream=\nListenStream=10.201.35.2:9999\n',
    says: /muse: cdp-relay@muse\.socket listens on 10\.201\.35\.2:9999, the row says 10\.201\.35\.2:9410/,
    next: byService,
  },
]

for (const f of foreign) {
  driftTest(`foreign: ${f.name}`, async () => {
    const file = f.file ?? `${units}/${f.unit}.d/zz-fault.conf`
    try {
      await reports({
        ...f,
        inject: () => {
          writeFile(file, f.text)
          reload()
          // A timer that systemd refuses stays as it was.
          if (f.unit.endsWith('.timer')) sh(['systemctl', 'restart', f.unit])
        },
      })
      assert.ok(!existsSync(file), 'the printed command takes away what was put there')
    } finally {
      if (existsSync(file)) {
        rmSync(file)
        reload()
        if (f.unit.endsWith('.timer')) ok(['systemctl', 'restart', f.unit])
      }
    }
  })
}

driftTest('a condition that keeps the service from running', () =>
  reports({
    name: '',
    inject: () => {
      writeFile(`${units}/${SERVICE}.d/zz-fault.conf`, '[Unit]\nConditionPathExists=/nowhere\n')
      reload()
      ok(['systemctl', 'start', SERVICE])
    },
    says: /muse: chromebox-watchdog@muse\.service was not run: a condition of the unit is not met/,
    next: byService,
  }),
)

driftTest('masked for this boot only: the printed command unmasks it', () =>
  reports({
    name: '',
    inject: () => ok(['systemctl', 'mask', '--runtime', '--now', '--quiet', TIMER]) as never,
    says: /muse: chromebox-watchdog@muse\.timer is masked by hand/,
    next: /^systemctl unmask --runtime chromebox-watchdog@muse\.timer$/,
    afterwards: {
      // Which of the two depends on whether it was due in the meantime.
      says: /muse: chromebox-watchdog@muse\.timer (is enabled but not started|failed \(resources\))/,
      did: /: armed again$/,
    },
  }),
)

driftTest('what changes no supervision is theirs to set: a shorter period, a limit, a variable', () => {
  writeUnit(`${TIMER}.d/zz-a.conf`, '[Timer]\nOnActiveSec=\nOnActiveSec=30\nOnUnitActiveSec=60\n')
  writeUnit(`${SERVICE}.d/zz-a.conf`, '[Unit]\nDescription=x\n[Service]\nMemoryMax=1G\nEnvironment=A=b\n')
  reload()
  ok(['systemctl', 'restart', TIMER])
  assert.deepEqual(drift(), [])
  quiet()
  rmSync(`${units}/${TIMER}.d/zz-a.conf`)
  rmSync(`${units}/${SERVICE}.d/zz-a.conf`)
  reload()
})

driftTest(
  'a namespace that could not be made: told with the command, and that one with its own',
  async () => {
    ok(['ensure-node-supervision', '--add', 'n1'])
    writeFileSync('/run/netns/warp-n1', '')
    assert.notEqual(sh(['systemctl', 'start', 'netvm-netns@n1.service']).code, 0)
    const [line = '', ...more] = drift()
    assert.deepEqual(more, [])
    assert.match(line, /n1: netvm-netns@n1\.service failed \(exit-code\); next: netvm-node-up n1$/)
    const run = all()
    assert.deepEqual([run.code, run.stdout], [1, ''])
    assert.equal(run.stderr.trim(), line.replace(/^NOT MET +/, ''))
    const up = sh(['netvm-node-up', 'n1'])
    assert.notEqual(up.code, 0)
    const next = /next: (rm .*)$/m.exec(up.all)?.[1] ?? ''
    ok(['bash', '-c', next], { deadlineMs: 90_000 })
    assert.deepEqual(drift(), [])
    quiet()
    ok(['netvm-node-down', 'n1'])
    all()
    quiet()
  },
)
