import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import {
  browser,
  cadence,
  nodeUp,
  ok,
  setSite,
  sh,
  stopTimers,
  titles,
  until,
  untilTitled,
  writeConfig,
} from '../../../tests/kit/lab.ts'
import { judge, median } from './stats.ts'
import { nodeMs } from './status-wall.ts'

// How long Chromium takes from spawn to a titled page, compared with the time the product adds.
const ROUNDS = 9
const NODE = 'muse'
const UNIT = `chromebox@${NODE}.service`

writeConfig({ NETVM_FRESH_BROWSER: 1, NETVM_CONFIRM_DELAY: 0 })
setSite(NODE, { title: 'Chat' })
nodeUp(NODE)
await untilTitled(NODE)
cadence(`chromebox-watchdog@${NODE}.timer`, 3600)
stopTimers(NODE)

// As systemd starts it; a manual run would first print the timer's state.
process.env.INVOCATION_ID = '0'.repeat(32)
process.env.SYSTEMD_EXEC_PID = ''

const titled = async (): Promise<void> => {
  await until('a titled page', () => titles(NODE)?.includes('Chat'), 60_000, 10)
}
const seconds = (since: number): number => (performance.now() - since) / 1000

/** Ends the browser with SIGKILL while nothing watches. Both compared starts then find the same unclean profile. */
async function dead(): Promise<void> {
  ok(['systemctl', 'mask', '--runtime', `chromebox-watchdog@${NODE}.service`])
  process.kill(browser(NODE)?.pid ?? Number.NaN, 'SIGKILL')
  await until(
    'dead',
    () => browser(NODE) === undefined && sh(['systemctl', 'is-active', UNIT]).code !== 0,
    20_000,
  )
  ok(['systemctl', 'unmask', '--runtime', `chromebox-watchdog@${NODE}.service`])
}

/** The unit started manually. */
async function bare(): Promise<number> {
  await dead()
  const begun = performance.now()
  ok(['systemctl', 'start', UNIT])
  await titled()
  return seconds(begun)
}

/** A tick that finds the browser dead: from the tick's start to its report that it is healthy. */
async function tick(): Promise<number> {
  await dead()
  const begun = performance.now()
  ok(['chromebox-watchdog', NODE])
  const took = seconds(begun)
  await titled()
  return took
}

/** SIGKILL while its unit is watched: from the signal to a titled page. */
async function killed(): Promise<number> {
  const begun = performance.now()
  const before = browser(NODE)?.pid ?? Number.NaN
  process.kill(before, 'SIGKILL')
  await until(
    'another browser',
    () => browser(NODE) !== undefined && browser(NODE)?.pid !== before,
    60_000,
    10,
  )
  await titled()
  const took = seconds(begun)
  await until(
    'the run ended',
    () =>
      ok(['systemctl', 'show', '-p', 'ActiveState', '--value', `chromebox-watchdog@${NODE}.service`]) ===
      'inactive',
    60_000,
  )
  return took
}

const old = async (): Promise<void> => {
  await until(
    'past the guard',
    () => {
      const found = browser(NODE)
      const uptime = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0])
      return found !== undefined && uptime - Number(found.startTicks) / 100 > 2
    },
    20_000,
  )
}

const own: number[] = []
const ticks: number[] = []
const kills: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  own.push(await bare())
  await old()
  ticks.push(await tick())
  await old()
  kills.push(await killed())
  await old()
}
process.stdout.write(
  `Chromium's own start ${median(own).toFixed(2)} s, tick's start to healthy ${median(ticks).toFixed(2)} s, ` +
    `SIGKILL to titled page ${median(kills).toFixed(2)} s (medians of ${ROUNDS})\n`,
)
const beyond = (median(kills) - median(own)) * 1000
const met = [
  judge("tick to healthy / Chromium's own start", median(ticks) / median(own), 1.2),
  judge("SIGKILL to titled page less Chromium's own start / node -e 0", beyond / nodeMs(), 35),
]
process.exitCode = met.every(Boolean) ? 0 : 1
