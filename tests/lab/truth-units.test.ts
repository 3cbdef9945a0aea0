import { strict as assert } from 'node:assert'
import { mkdirSync, symlinkSync } from 'node:fs'
import { before, test } from 'node:test'
import { clocks } from '../../lib/base/clock.ts'
import type { Look } from '../../lib/base/types.ts'
import type { UnitFacts } from '../../lib/evidence/types.ts'
import { lookAtUnits, readUnits } from '../../lib/evidence/units.ts'
import { show } from '../../lib/host/systemd.ts'
import { nodeUp, ok, sh, stopTimers, tick, until, untilTitled } from '../kit/lab.ts'

// What the status gets from systemd property by property is what `systemctl show` prints of all units in full.
const NODE = 'muse'
/** A node that is in no unit's memory. */
const NEVER = 'pip'
const DEADLINE_MS = 20_000
const ONLY_BUS = '/run/only-bus'
const FLEET = ['cdp-relay-watchdog', 'agent-health'].flatMap((u) => [`${u}.service`, `${u}.timer`])
const PROPERTIES = [
  ...['LoadState', 'UnitFileState', 'ActiveState', 'SubState', 'Result', 'NextElapseUSecMonotonic'],
  ...['ExecMainStatus', 'ConditionResult'],
  ...['ActiveEnter', 'InactiveEnter', 'Condition', 'ExecMainExit'].flatMap((name) => [
    `${name}Timestamp`,
    `${name}TimestampMonotonic`,
  ]),
]

const unitsOf = (node: string): string[] => [
  ...['netvm-netns@', 'chromebox@', 'netvm-tunnel@', 'chromebox-watchdog@'].map((u) => `${u}${node}.service`),
  `cdp-relay@${node}.socket`,
  `chromebox-watchdog@${node}.timer`,
  ...FLEET,
]

/** Nothing is decided by when the socket of a relay started to listen, and nobody is asked for it. */
function withoutRelaySince(look: Look<UnitFacts>): Look<UnitFacts> {
  if (!look.seen) return look
  const { sinceBootMs: _, ...relay } = look.value.relay
  return { seen: true, value: { ...look.value, relay } }
}

/** Both answers about both nodes, once from PID 1 and once over the bus, until they were given at one moment. */
async function same(): Promise<void> {
  for (const root of ['', ONLY_BUS])
    for (const aheadMs of [0, 3_600_000])
      for (const node of [NODE, NEVER]) {
        let last = ''
        const agree = async () => {
          const at = { ...clocks(), aheadMs }
          const shown = await show(unitsOf(node), PROPERTIES, DEADLINE_MS)
          assert.ok(shown.seen, JSON.stringify(shown))
          const told = (await lookAtUnits({ root }, [NODE, NEVER], at, DEADLINE_MS))(node)
          const wanted = withoutRelaySince(readUnits(shown.value, node, at))
          last = `${JSON.stringify(told)}\ninstead of\n${JSON.stringify(wanted)}`
          try {
            assert.deepEqual(told, wanted)
            return true
          } catch {
            return false
          }
        }
        await until('both say the same', agree, 10_000).catch((err: Error) => {
          throw new Error(`${node}, below ${root}/run: ${err.message}: ${last}`)
        })
      }
}

before(async () => {
  nodeUp(NODE)
  await untilTitled(NODE)
  stopTimers()
  mkdirSync(`${ONLY_BUS}/run/dbus`, { recursive: true })
  symlinkSync('/run/dbus/system_bus_socket', `${ONLY_BUS}/run/dbus/system_bus_socket`)
})

const STATES: readonly (readonly [string, () => void])[] = [
  ['up', () => {}],
  [
    'with its timers armed',
    () => void ok(['systemctl', 'start', 'agent-health.timer', `chromebox-watchdog@${NODE}.timer`]),
  ],
  ['looked at', () => void tick(NODE)],
  [
    'paused, its browser killed',
    () => {
      ok(['box', 'node', 'pause', NODE])
      sh(['systemctl', 'kill', '--signal=KILL', `chromebox@${NODE}.service`])
    },
  ],
  ['without its relay', () => void ok(['systemctl', 'stop', `cdp-relay@${NODE}.socket`])],
  [
    'with a timer that is masked',
    () => {
      ok(['systemctl', 'stop', `chromebox-watchdog@${NODE}.timer`])
      ok(['systemctl', 'mask', '--runtime', `chromebox-watchdog@${NODE}.timer`])
    },
  ],
  ['without its namespace', () => void ok(['systemctl', 'stop', `netvm-netns@${NODE}.service`])],
]
for (const [state, make] of STATES)
  test(`a node that is ${state}`, async () => {
    make()
    await same()
  })
