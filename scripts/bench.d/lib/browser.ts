import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { nodeUp, ok, stopTimers, untilTitled, writeUnit } from '../../../tests/kit/lab.ts'
import { judge, median } from './stats.ts'

// One node as the unit has it and one whose Chromium keeps the pages of the address bar, started in turns.
const ROUNDS = 5
/** Browsers that run all the time, as on any host of a fleet: what all of them map, PSS divides among them. */
const NEIGHBOURS = ['pip', 'opm', 'def', 'dev']
const FIRST_MS = 15_000
const DROP_IN = 'chromebox@plain.service.d/bench.conf'
const FLAG = /^ *--disable-features=\S+ \\\n/m
/** Linux counts CPU in ticks of 1/100 s. */
const TICK_MS = 10

const unit = (node: string): string => `chromebox@${node}.service`

/** The start of the unit without its flag. */
function plainStart(): string {
  const text = readFileSync('/etc/systemd/system/chromebox@.service', 'utf8')
  const start = /^ExecStart=(?:.*\\\n)*.*$/m.exec(text)?.[0] ?? ''
  if (!FLAG.test(start)) throw new Error('the unit has no --disable-features line of its own')
  return start.replace(FLAG, '')
}

/** The processes of the node's browser: those of its unit's control group, whichever hierarchy it is in. */
function pidsOf(node: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => read(`/proc/${pid}/cgroup`).includes(`/${unit(node)}\n`))
    .map(Number)
}

/** Empty when the process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

const pssMiB = (node: string): number =>
  pidsOf(node).reduce(
    (sum, pid) => sum + Number(/^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) / 1024,
    0,
  )

/** CPU that its processes have used, with that of the children that have ended. Milliseconds. */
function cpuMs(node: string): number {
  return pidsOf(node).reduce((sum, pid) => {
    const stat = read(`/proc/${pid}/stat`)
    // utime, stime, cutime and cstime are fields 14 to 17; after the name in brackets the third comes first.
    const times = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15)
    return sum + times.reduce((all, ticks) => all + Number(ticks) * TICK_MS, 0)
  }, 0)
}

interface Cost {
  readonly pss: number
  readonly cpu: number
  readonly processes: number
}

/** One start of a node's browser alone, from systemd's start to 15 s later. */
async function started(node: string): Promise<Cost> {
  const begun = performance.now()
  ok(['systemctl', 'start', unit(node)])
  await untilTitled(node)
  await pause(FIRST_MS - (performance.now() - begun))
  const cost = { cpu: cpuMs(node), pss: pssMiB(node), processes: pidsOf(node).length }
  ok(['systemctl', 'stop', unit(node)])
  return cost
}

writeUnit(DROP_IN, `[Service]\nExecStart=\n${plainStart()}\n`)
ok(['systemctl', 'daemon-reload'])
const NODES = ['plain', 'muse'] as const
for (const node of [...NEIGHBOURS, ...NODES]) {
  nodeUp(node)
  stopTimers(node)
  await untilTitled(node)
}
for (const node of NODES) {
  // Else a stop by hand is looked at, and its browser started again.
  ok(['systemctl', 'mask', '--runtime', `chromebox-watchdog@${node}.service`])
  ok(['systemctl', 'stop', unit(node)])
}
const seen: Record<(typeof NODES)[number], Cost[]> = { plain: [], muse: [] }
for (let round = 0; round < ROUNDS; round++)
  for (const node of round % 2 === 0 ? NODES : NODES.toReversed()) seen[node].push(await started(node))
rmSync(`/etc/systemd/system/${DROP_IN}`)

const of = (node: (typeof NODES)[number], what: keyof Cost): number => median(seen[node].map((c) => c[what]))
for (const node of NODES)
  process.stdout.write(
    `${node === 'muse' ? 'the unit' : 'the unit without --disable-features'}: PSS ${of(node, 'pss').toFixed(0)} MiB, ` +
      `CPU of the first 15 s ${(of(node, 'cpu') / 1000).toFixed(2)} s, ${of(node, 'processes')} processes (medians of ${ROUNDS})\n`,
  )
const met = [
  judge('PSS with / without the flag', of('muse', 'pss') / of('plain', 'pss'), 0.8),
  judge('CPU of the first 15 s, with / without the flag', of('muse', 'cpu') / of('plain', 'cpu'), 0.6),
]
process.exitCode = met.every(Boolean) ? 0 : 1
