import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { addresses } from '../../../tests/kit/lab/relay.ts'
import { nodeUp, ok, sh, stopTimers, until, untilTitled } from '../../../tests/kit/lab.ts'
import { judge, median } from './stats.ts'

const ROUNDS = 5
const LOAD = fileURLToPath(new URL('./cdp-load.ts', import.meta.url))

nodeUp('muse')
stopTimers('muse')
await untilTitled('muse')
const { peer, port } = addresses('muse')
const inside = ['ip', 'netns', 'exec', 'warp-muse']

interface Load {
  readonly requestsPerS: number
  readonly mbPerS: number
  readonly shotMB: number
}
const load = (prefix: readonly string[], host: string, at: number): Load =>
  JSON.parse(ok([...prefix, 'node', '--import', 'tsx', LOAD, host, String(at)], { deadlineMs: 120_000 }))

const ways: { name: string; run: () => Load; seen: Load[] }[] = [
  { name: 'direct, inside the namespace', run: () => load(inside, '127.0.0.1', port), seen: [] },
  { name: 'through systemd-socket-proxyd', run: () => load([], peer, port), seen: [] },
]
const socat = sh(['which', 'socat']).code === 0
if (socat) {
  spawn(
    'ip',
    [
      'netns',
      'exec',
      'warp-muse',
      'socat',
      `TCP-LISTEN:${port + 1},bind=${peer},fork,reuseaddr,nodelay`,
      `TCP:127.0.0.1:${port},nodelay`,
    ],
    { stdio: 'ignore', detached: true },
  ).unref()
  await until(
    'socat answers',
    () => sh(['curl', '-sf', '-m', '1', `http://${peer}:${port + 1}/json/version`]).code === 0,
    5000,
  )
  ways.push({ name: 'through socat', run: () => load([], peer, port + 1), seen: [] })
} else process.stdout.write('socat is not installed: its row is left out\n')

// In turns, so that a busy moment of the machine falls on all of them.
for (let i = 0; i < ROUNDS; i++) for (const way of ways) way.seen.push(way.run())
for (const { name, seen } of ways) {
  process.stdout.write(
    `${name.padEnd(30)} ${median(seen.map((s) => s.requestsPerS)).toFixed(0)} requests/s, ` +
      `${median(seen.map((s) => s.mbPerS)).toFixed(1)} MB/s of screenshots (${median(seen.map((s) => s.shotMB)).toFixed(1)} MB each; medians of ${ROUNDS})\n`,
  )
}
const ratio = (a: number, b: number, of: 'requestsPerS' | 'mbPerS') =>
  median((ways[a]?.seen ?? []).map((s, i) => s[of] / (ways[b]?.seen[i]?.[of] ?? Number.NaN)))
// Compared with no relay at all the relay may cost little; it must not be slower than socat.
const met = [judge('direct / relay, MB/s', ratio(0, 1, 'mbPerS'), 1.5)]
if (socat)
  met.push(
    judge('socat / relay, requests/s', ratio(2, 1, 'requestsPerS'), 1.1),
    judge('socat / relay, MB/s', ratio(2, 1, 'mbPerS'), 1.2),
  )
process.exitCode = met.every(Boolean) ? 0 : 1
