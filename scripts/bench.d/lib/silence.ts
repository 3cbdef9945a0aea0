import { browser, cursor, logBytes, nodeUp, receipt, said, titles, until } from '../../../tests/kit/lab.ts'

// The reference fleet at its normal cadence for 20 minutes: not a byte in a log, not a line in the journal.
const FLEET = { muse: 9410, pip: 9420, '646': 9430, opm: 9440, def: 9450, dev: 9455 }
const MINUTES = 20
const SUPERVISORS = ['chromebox-watchdog', 'cdp-relay-watchdog', 'agent-health'] as const
const nodes = Object.keys(FLEET)
for (const [node, port] of Object.entries(FLEET)) nodeUp(node, { args: ['--port', String(port)] })
for (const node of nodes) await until(`${node} has its page`, () => titles(node)?.includes('Chat'), 30_000)

const position = cursor()
const bytes = SUPERVISORS.map(logBytes)
const before = nodes.map((node) => JSON.stringify(browser(node)))
const runs = new Map<string, Set<number>>()
const end = performance.now() + MINUTES * 60_000
while (performance.now() < end) {
  for (const supervisor of SUPERVISORS)
    for (const node of nodes) {
      const at = receipt(supervisor, node)?.at.bootMs
      const key = `${supervisor} ${node}`
      if (at !== undefined) runs.set(key, (runs.get(key) ?? new Set()).add(at))
    }
  await new Promise((resolve) => setTimeout(resolve, 5000))
}
const grown = SUPERVISORS.map((supervisor, i) => logBytes(supervisor) - (bytes[i] ?? 0))
const units = [
  ...nodes.map((node) => `chromebox-watchdog@${node}.service`),
  'cdp-relay-watchdog.service',
  'agent-health.service',
]
const lines = units.map((unit) => said(position, unit)).filter((text) => text !== '')
const touched = nodes.filter((node, i) => JSON.stringify(browser(node)) !== before[i])
process.stdout.write(
  `${MINUTES} min, runs per supervisor and node ${Math.min(...[...runs.values()].map((set) => set.size))} to ` +
    `${Math.max(...[...runs.values()].map((set) => set.size))}: log bytes ${grown.join('+')}, journal lines of ${lines.length} units, ` +
    `browsers touched ${touched.length} (limits 0)\n${lines.join('\n')}`,
)
process.exitCode = grown.every((size) => size === 0) && lines.length === 0 && touched.length === 0 ? 0 : 1
