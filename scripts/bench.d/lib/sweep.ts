import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { execa } from 'execa'
import { logText, ok, receipt, sh, writeUnit } from '../../../tests/kit/lab.ts'
import { receipt as example, proved } from '../../../tests/kit/truth-model.ts'
import { judge, median } from './stats.ts'
import { everywhere, makeWideFleet, rows, standIns } from './wide-fleet.ts'

// 200 rows, each with a namespace and a veth pair of its own; only the browsers and relays are stand-ins.

const NODES = 200
const PORT = 20_000
type Row = (typeof rows)[number]

interface Cost {
  readonly wallS: number
  readonly cpuMs: number
  readonly peakMiB: number
  readonly code: number
}

const METER = `import resource,subprocess,sys,time
t=time.monotonic()
c=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL).returncode
w=time.monotonic()-t
r=resource.getrusage(resource.RUSAGE_CHILDREN)
print(w,(r.ru_utime+r.ru_stime)*1000,r.ru_maxrss/1024,c)`

/** Wall clock, CPU and peak memory of a command, its children included. */
function cost(...argv: string[]): Cost {
  const printed = ok(['python3', '-c', METER, ...argv], { deadlineMs: 290_000 })
  const [wallS = 0, cpuMs = 0, peakMiB = 0, code = -1] = printed.split(' ').map(Number)
  return { wallS, cpuMs, peakMiB, code }
}

function setUp(): void {
  ok(['systemctl', 'stop', 'cdp-relay-watchdog.timer', 'agent-health.timer'])
  makeWideFleet()
}

const stateOf = (row: Row) => receipt('cdp-relay-watchdog', row.name)?.verdict
const count = (state: string) => rows.filter((row) => stateOf(row)?.state === state).length

/** A restart by the sweep also looks before and verifies after; eight run at a time. */
const STORM = 3

/** What a run of chromebox-watchdog leaves: that it has proved whose browser answers (stand-ins.py gives all one id). */
function proveBrowsers(): void {
  const dir = '/run/netvm/receipts/chromebox-watchdog'
  mkdirSync(dir, { recursive: true })
  for (const { name } of rows) {
    const extra = proved('00000000-0000-4000-8000-000000000000')
    const proof = example('chromebox-watchdog', undefined, { node: name, extra })
    writeFileSync(`${dir}/${name}.json`, JSON.stringify(proof), { mode: 0o644 })
  }
}

setUp()
proveBrowsers()
const met: boolean[] = []

// All of them healthy: what one healthy node costs, beside one curl process.
let end = await standIns(everywhere(() => false))
const healthy: Cost[] = []
const curls: number[] = []
for (let i = 0; i < 7; i++) {
  healthy.push(cost('/usr/local/bin/cdp-relay-watchdog'))
  const urls = rows
    .slice(0, 20)
    .map((r) => `curl -s -m 5 -o /dev/null http://${r.peer}:${r.port}/json/version`)
  // exec: the shell itself is not what is measured, and dash forks for each line anyway.
  const shell = cost('sh', '-c', ':').cpuMs
  curls.push((cost('sh', '-c', urls.join('\n')).cpuMs - shell) / urls.length)
}
if (count('healthy') !== NODES) throw new Error('not a healthy fleet')
const perNode = median(healthy.map((w) => w.cpuMs / NODES))
const curl = median(curls)
process.stdout.write(
  `200 healthy nodes: ${median(healthy.map((w) => w.wallS)).toFixed(2)} s wall, ${perNode.toFixed(2)} ms CPU a node with all children; ` +
    `one curl process ${curl.toFixed(2)} ms (medians of 7)\n`,
)
met.push(judge('CPU per healthy node / one curl', perNode / curl, 0.2))
if (logText('cdp-relay-watchdog') !== '') throw new Error('a healthy fleet was not silent')
end()

// Every second one never answers, nor does its browser: accepted connections, and silence.
end = await standIns(everywhere((row) => row.octet % 2 === 1))
const tenth = rows.slice(0, NODES / 10)
const looped = execa(
  'sh',
  ['-c', tenth.map((r) => `curl -s -m 5 -o /dev/null http://${r.peer}:${r.port}/json/version`).join('\n')],
  { stdin: 'ignore', reject: false },
)
const half = cost('/usr/local/bin/cdp-relay-watchdog')
if (count('healthy') !== 100 || count('unhealthy') !== 100 || half.code !== 1)
  throw new Error('not a hundred and a hundred')
process.stdout.write(
  `200 nodes, 100 of them silent: ${half.wallS.toFixed(1)} s wall, ${half.peakMiB.toFixed(0)} MiB\n`,
)
met.push(judge('sweep, peak memory', half.peakMiB, 120, ' MiB'))
const tenthS = (await looped).durationMs / 1000
met.push(judge('sweep / sequential curl over a tenth of its nodes', half.wallS / tenthS, 0.3))
process.stdout.write(
  `sequential curl -m 5 over a tenth of them, meanwhile: ${tenthS.toFixed(1)} s, so ${(tenthS * 10).toFixed(0)} s for all\n`,
)
end()

// A hundred relays down at once, their browsers healthy: all brought back in one run. Plain units without the
// product's sandbox, because ending a hundred seccomp filters at once is not what is measured.
writeUnit(
  'cdp-relay@.service',
  '[Unit]\nRequires=cdp-relay@%i.socket\nAfter=cdp-relay@%i.socket\n[Service]\nType=notify\nNetworkNamespacePath=/run/netns/warp-%i\nEnvironmentFile=/run/bench/%i.env\nExecStart=/usr/lib/systemd/systemd-socket-proxyd $TARGET\n',
)
writeUnit(
  'cdp-relay@.socket',
  '[Socket]\nListenStream=127.0.0.1:9\nFreeBind=yes\nNetworkNamespacePath=/run/netns/warp-%i\n',
)
mkdirSync('/run/bench', { recursive: true })
const down = rows.filter((row) => row.octet % 2 === 1)
for (const row of down) {
  writeFileSync(`/run/bench/${row.name}.env`, `TARGET=127.0.0.1:${row.port}\n`)
  writeUnit(
    `cdp-relay@${row.name}.socket.d/netvm.conf`,
    `[Socket]\nListenStream=\nListenStream=${row.peer}:${row.port}\n`,
  )
}
ok(['systemctl', 'daemon-reload'])
rmSync('/var/lib/netvm/cdp-relay-watchdog', { recursive: true, force: true })
end = await standIns(
  everywhere(() => false).filter(({ host, port }) => host === '127.0.0.1' || (port - PORT) % 2 === 0),
)
const storm = cost('/usr/local/bin/cdp-relay-watchdog')
const back = down.filter((row) => receipt('cdp-relay-watchdog', row.name)?.actions[0]?.helped === true).length
process.stdout.write(
  `100 of 200 relays down at once: ${back} brought back in ${storm.wallS.toFixed(1)} s, ${storm.peakMiB.toFixed(0)} MiB\n`,
)
for (const row of down.filter((r) => stateOf(r)?.state !== 'healthy'))
  process.stdout.write(`${row.name}: ${stateOf(row)?.reason}\n`)
const restart = down
  .slice(0, 10)
  .map((row) => cost('systemctl', 'restart', `cdp-relay@${row.name}.socket`).wallS)
const one = median(restart)
process.stdout.write(`one systemctl restart of a relay's socket alone: ${one.toFixed(3)} s (median of 10)\n`)
met.push(
  judge('relays not brought back', 100 - back, 0),
  judge('storm / a hundred restarts one after the other', storm.wallS / (100 * one), STORM),
)
for (const row of down)
  sh(['systemctl', 'stop', `cdp-relay@${row.name}.socket`, `cdp-relay@${row.name}.service`])
end()
process.exitCode = met.every(Boolean) ? 0 : 1
