import { availableParallelism } from 'node:os'
import { execa } from 'execa'
import {
  browser,
  browserAgeMs,
  cadence,
  nodeUp,
  stopTimers,
  tick,
  until,
  untilTitled,
  writeConfig,
} from '../../../tests/kit/lab.ts'

// 200 ticks against a healthy browser while every core is busy.
const TICKS = 200
writeConfig({ NETVM_FRESH_BROWSER: 1 })
nodeUp('muse')
await untilTitled('muse')
cadence('chromebox-watchdog@muse.timer', 3600)
stopTimers('muse')
await until('the guard no longer protects it', () => browserAgeMs('muse') > 2000, 20_000)

// Each ends after ten minutes, whatever becomes of us.
const burn = ['600', 'sh', '-c', 'while :; do :; done']
const burners = Array.from({ length: availableParallelism() }, () =>
  execa('timeout', burn, { stdio: 'ignore', reject: false }),
)
const before = browser('muse')
let healthy = 0
let touched = 0
for (let i = 0; i < TICKS; i++) {
  if (tick('muse').status === '0') healthy++
  const now = browser('muse')
  if (now?.pid !== before?.pid || now?.startTicks !== before?.startTicks) touched++
}
for (const burner of burners) burner.kill()
process.stdout.write(
  `${TICKS} ticks, every core busy: ${healthy} healthy, browser touched after ${touched} of them (limit 0)\n`,
)
process.exitCode = touched === 0 ? 0 : 1
