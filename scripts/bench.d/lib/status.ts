import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inShell, makeUser } from '../../../tests/kit/lab/shells.ts'
import { nodeUp, ok, sh, stopTimers, tick, untilTitled } from '../../../tests/kit/lab.ts'
import type { Shell } from '../../../tests/kit/truth-table.ts'
import { judgeWall } from './status-wall.ts'

// Six real browsers; the supervisors have run and are stopped, so that only the status is measured.
const NODES = ['muse', 'pip', '646', 'opm', 'def', 'dev']
const FILL = fileURLToPath(new URL('./journal-fill.py', import.meta.url))
const STATUS = ['box', 'fleet', 'status']
const met: boolean[] = []

makeUser()
ok(['systemctl', 'log-level', 'info'])
for (const node of NODES) {
  nodeUp(node)
  await untilTitled(node)
}

function runsOfAll(): void {
  for (const node of NODES) tick(node)
  for (const loop of ['cdp-relay-watchdog', 'agent-health']) sh(['systemctl', 'start', `${loop}.service`])
  ok(['journalctl', '--sync'])
}

/** The words of all nodes, each once, as in `ACTIVE ACTIVE [*]`. */
const words = (json: string): string =>
  [...new Set((JSON.parse(json).nodes as { text: string }[]).map((n) => n.text))].join(' ')

type In = (argv: readonly string[]) => readonly string[]

function measure(what: string, inside: In, expected: string, limit: number): void {
  const said = words(sh([...inside([...STATUS, '--json'])]).stdout)
  if (said !== expected) throw new Error(`${what}: ${said} instead of ${expected}`)
  met.push(judgeWall(what, inside, STATUS, limit).met)
}

const as =
  (shell: Shell): In =>
  (argv) =>
    inShell(shell, argv)
/** Multiples of `node -e 0` in the same shell. A blind shell asks systemd and reads the host's records. */
const SIGHTED = 4
const BLIND = 6

runsOfAll()
stopTimers()
for (const shell of ['root', 'user'] as const)
  measure(`six nodes, sighted (${shell})`, as(shell), 'ACTIVE', SIGHTED)
measure('six nodes, blind, no big journal', as('both'), 'ACTIVE [*]', BLIND)

mkdirSync('/etc/systemd/journald.conf.d', { recursive: true })
writeFileSync(
  '/etc/systemd/journald.conf.d/bench.conf',
  '[Journal]\nStorage=persistent\nRateLimitBurst=0\nSystemMaxUse=3G\nSystemKeepFree=1M\nSystemMaxFileSize=128M\nSyncIntervalSec=1h\n',
)
ok(['systemctl', 'restart', 'systemd-journald'])
for (let i = 0; i < 40; i++) {
  ok(['python3', FILL, '200'], { deadlineMs: 280_000 })
  ok(['journalctl', '--sync'])
  if (journalMiB() >= 1024) break
}
function journalMiB(): number {
  return Number(ok(['du', '-sm', '/var/log/journal']).split(/\s/)[0])
}
process.stdout.write(
  `the journal: ${journalMiB()} MiB, ${ok(['sh', '-c', 'ls /var/log/journal/*/*.journal | wc -l'])} files\n`,
)
runsOfAll()

measure('six nodes, sighted, journal 1 GiB', as('user'), 'ACTIVE', SIGHTED)
measure('six nodes, blind, journal 1 GiB', as('both'), 'ACTIVE [*]', BLIND)
// Blind, without a bus and without receipts: here the journal decides.
const hidden: In = (argv) => [
  'unshare',
  ...['-m', '-n', '-p', '-f', '--mount-proc', '--', 'sh', '-ec'],
  'for d in /run/netvm/receipts /run/dbus /run/systemd; do mount -t tmpfs -o mode=755 tmpfs $d; done; exec "$@"',
  ...['sh', 'setpriv', '--reuid=tester', '--regid=tester', '--groups=systemd-journal'],
  ...argv,
]
measure('six nodes, blind, only the journal speaks, 1 GiB', hidden, 'ACTIVE [*]', BLIND)
met.push(judgeWall('host-evidence of six nodes, journal 1 GiB', as('root'), ['host-evidence'], 10, 5).met)
process.exitCode = met.every(Boolean) ? 0 : 1
