import { inShell, makeUser } from '../../../tests/kit/lab/shells.ts'
import { cadence, ok, sh, writeUnit } from '../../../tests/kit/lab.ts'
import { judgeWall } from './status-wall.ts'
import { everywhere, makeWideFleet, rows, standIns } from './wide-fleet.ts'

// 200 rows, each with a namespace and a veth pair of its own; only the browsers and relays are stand-ins.
const STATUS = ['box', 'fleet', 'status', '--json']
/** Times `node -e 0` in the same shell. */
const LIMIT = 25

function setUp(): void {
  ok(['systemctl', 'stop', 'cdp-relay-watchdog.timer', 'agent-health.timer'])
  makeWideFleet()
}

/** Units of the fleet's names that do nothing, started: systemd has a thousand of them to tell about. */
function startUnits(): void {
  const nothing = '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n'
  writeUnit('netvm-netns@.service', nothing)
  writeUnit('chromebox@.service', nothing)
  writeUnit('chromebox-watchdog@.service', '[Service]\nType=oneshot\nExecStart=/bin/true\n')
  writeUnit('cdp-relay@.socket', '[Socket]\nListenStream=/run/bench-%i\n')
  cadence('chromebox-watchdog@.timer', 3600)
  for (const unit of [
    'netvm-netns@N.service',
    'chromebox@N.service',
    'cdp-relay@N.socket',
    'chromebox-watchdog@N.timer',
  ])
    ok(['systemctl', 'start', ...rows.map((r) => unit.replace('N', r.name))], { deadlineMs: 200_000 })
}

const live = (json: string): number =>
  (JSON.parse(json).nodes as { layers: { layer: string; state: string; source: string }[] }[]).filter((n) =>
    n.layers.some((l) => l.layer === 'relay' && l.state === 'ok' && l.source === 'live'),
  ).length

/** With a silent node the status waits its whole deadline, which no machine makes shorter: two seconds of ours. */
const SILENT = (nodeMs: number): number => LIMIT + 2000 / nodeMs

const met: boolean[] = []
makeUser()
setUp()
startUnits()
let end = await standIns(everywhere(() => false))
sh(['systemctl', 'start', 'cdp-relay-watchdog.service'], { deadlineMs: 120_000 })
for (const shell of ['root', 'user'] as const) {
  const seen = judgeWall(`200 nodes, sighted (${shell})`, (argv) => inShell(shell, argv), STATUS, LIMIT, 5)
  if (live(seen.out) !== 200) throw new Error(`${shell}: ${live(seen.out)} of 200 seen live`)
  met.push(seen.met)
}
met.push(judgeWall('200 nodes, blind', (argv) => inShell('both', argv), STATUS, LIMIT, 5).met)
end()
end = await standIns(everywhere(({ octet }) => octet % 2 === 1))
const half = judgeWall('200 nodes, 100 of them silent', (argv) => inShell('root', argv), STATUS, SILENT, 3)
if (live(half.out) !== 100) throw new Error(`${live(half.out)} of 100 seen live`)
met.push(half.met)
end()
process.exitCode = met.every(Boolean) ? 0 : 1
