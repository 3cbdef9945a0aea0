import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { ifNames } from '../../../lib/registry/names.ts'
import { ok } from '../../../tests/kit/lab.ts'

/** Number of nodes in the measurements of a whole fleet: one per octet. */
const NODES = 200
const PORT = 20_000
const STAND_INS = fileURLToPath(new URL('./stand-ins.py', import.meta.url))

export const rows = Array.from({ length: NODES }, (_, i) => {
  const octet = i + 10
  return { name: `b${octet}`, octet, port: PORT + octet, gw: `10.201.${octet}.1`, peer: `10.201.${octet}.2` }
})

/** Makes a namespace and a veth pair for every row, and writes the registry that has them. In the lab only. */
export function makeWideFleet(): void {
  const host = rows.flatMap((row) => {
    const { veth, vpeer } = ifNames(row.name)
    return [
      `netns add warp-${row.name}`,
      `link add ${veth} type veth peer name ${vpeer} netns warp-${row.name}`,
      `addr add ${row.gw}/30 dev ${veth}`,
      `link set ${veth} up`,
    ]
  })
  ok(['ip', '-batch', '-'], { input: `${host.join('\n')}\n`, deadlineMs: 120_000 })
  for (const row of rows) {
    const { vpeer } = ifNames(row.name)
    const inside = ['link set lo up', `addr add ${row.peer}/30 dev ${vpeer}`, `link set ${vpeer} up`]
    ok(['ip', '-n', `warp-${row.name}`, '-batch', '-'], { input: `${inside.join('\n')}\n` })
  }
  const cells = rows.map(
    (r) =>
      `| ${r.name} | bench | warp-${r.name} | ${r.port} | ${r.gw} | ${r.peer} | 127.0.0.1:${r.port} | active |`,
  )
  const head =
    '| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status |'
  writeFileSync('/etc/netvm/NODES.md', `${head}\n|${'---|'.repeat(8)}\n${cells.join('\n')}\n`)
}

export interface StandIn {
  readonly netns: string
  readonly host: string
  readonly port: number
  readonly silent: boolean
}

/** A stand-in for the relay and one for the browser of every row. */
export const everywhere = (silent: (row: (typeof rows)[number]) => boolean): StandIn[] =>
  rows.flatMap((row) =>
    [row.peer, '127.0.0.1'].map((host) => ({
      netns: `warp-${row.name}`,
      host,
      port: row.port,
      silent: silent(row),
    })),
  )

/** Starts stand-ins, all in one process; returns what ends them. */
export async function standIns(list: readonly StandIn[]): Promise<() => void> {
  const file = '/run/stand-ins.json'
  writeFileSync(file, JSON.stringify(list))
  const child = execa('python3', [STAND_INS, file], { stdin: 'ignore', stderr: 'inherit', reject: false })
  const ended = child.then(({ shortMessage }) => {
    throw new Error(`the stand-ins ended: ${shortMessage}`)
  })
  await Promise.race([once(child.stdout, 'data'), ended])
  return () => child.kill('SIGKILL')
}
