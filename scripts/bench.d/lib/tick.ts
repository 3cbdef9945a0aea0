import { cadence, nodeUp, receipt, stopTimers, untilTitled, writeConfig } from '../../../tests/kit/lab.ts'
import { cost } from './cpu.ts'
import { judge, median } from './stats.ts'

const PAIRS = 15
const tunnel = process.argv.includes('--tunnel')

let args: string[] = []
let where: { url: string; title: string } = { url: 'http://127.0.0.1:8080/', title: 'Chat' }
if (tunnel) {
  const { tunnelReady } = await import('../../lib/demo/tunnel-act.ts')
  const site = await tunnelReady('muse')
  where = site
  writeConfig({ NETVM_EGRESS_URLS: site.egressUrl })
  args = ['--port', '9410']
}
nodeUp('muse', { ...where, args })
await untilTitled('muse', where.title)
// Far in the future, so that no other run shares the machine with the measured one.
cadence('chromebox-watchdog@muse.timer', 3600)
stopTimers('muse')

// As systemd starts it; a manual run prints for a person, which is not measured.
process.env.INVOCATION_ID = '0'.repeat(32)
process.env.SYSTEMD_EXEC_PID = ''
const ticks: number[] = []
const bare: number[] = []
const ratios: number[] = []
const children: number[] = []
let peak = 0
for (let i = 0; i < PAIRS; i++) {
  const node = cost(['-e', '0'])
  const tick = cost(['/usr/local/bin/chromebox-watchdog', 'muse'])
  if (receipt('chromebox-watchdog', 'muse')?.verdict.state !== 'healthy')
    throw new Error('not a healthy tick')
  ticks.push(tick.ownMs)
  bare.push(node.ownMs)
  ratios.push(tick.ownMs / node.ownMs)
  children.push(tick.childrenMs)
  peak = Math.max(peak, tick.peakMiB)
}
process.stdout.write(
  `healthy tick${tunnel ? ' with a tunnel' : ''}: own CPU ${median(ticks).toFixed(1)} ms, node -e 0 ${median(bare).toFixed(1)} ms, ` +
    `its children ${median(children).toFixed(1)} ms (medians of ${PAIRS})\n`,
)
const met = [judge('own CPU / node -e 0', median(ratios), 1.8), judge('peak memory', peak, 64, ' MiB')]
process.exitCode = met.every(Boolean) ? 0 : 1
