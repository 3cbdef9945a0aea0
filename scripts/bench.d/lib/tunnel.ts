import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { loadConfig } from '../../../lib/base/config.ts'
import { paths } from '../../../lib/base/paths.ts'
import { repairTunnel } from '../../../lib/egress/repair.ts'
import { findNode, readRegistry } from '../../../lib/registry/read.ts'
import { FAST, nodeSetting, tunnelNode, watched } from '../../../tests/kit/lab/egress.ts'
import { SITE, stubBrowsers, wgServer } from '../../../tests/kit/lab/wg-server.ts'
import { ok, sh, stopTimers, until, writeConfig } from '../../../tests/kit/lab.ts'
import { judge, median } from './stats.ts'
import { wgQuick } from './wg-quick.ts'

const PAIRS = 25
/** Repaired and verified, beside the least that ip, wg and wireguard-go need for the same. */
const LIMIT = 1.5
const NODE = 'muse'
const NETNS = `warp-${NODE}`
const UNIT = `netvm-tunnel@${NODE}.service`

const server = await wgServer()
server.conf(NODE)
stubBrowsers(NODE)
writeConfig({ ...FAST, NETVM_EGRESS_URLS: `http://${SITE}/` })
tunnelNode(NODE, server.url)
stopTimers(NODE)
const wg = nodeSetting(NODE, 'WG')
const socket = `/run/wireguard/${wg}.sock`
const p = paths()
const config = loadConfig(p)
const node = findNode(readRegistry(p, config), NODE)

/** The file without what only wg-quick knows, and with the name resolved, as `wg setconf` wants it. */
const conf = ok(['cat', `/etc/netvm/wireguard/${NODE}.conf`])
const addresses = /^Address = (.*)$/m.exec(conf)?.[1]?.split(/,\s*/) ?? []
writeFileSync(
  '/run/bare.conf',
  conf.replace(/^(?:Address|DNS|MTU) = .*\n/gm, '').replace('wg.lab', '10.201.254.7'),
  { mode: 0o600 },
)
const answers = (): boolean =>
  sh(['ip', 'netns', 'exec', NETNS, 'curl', '-q', '-sf', '-o', '/dev/null', '-m', '1', `http://${SITE}/`])
    .code === 0
const deleteLink = (): number | null => sh(['ip', '-n', NETNS, 'link', 'del', wg]).code

/** What a person with a shell does at best: no checks, no retries, one command after the other. */
async function bareUp(): Promise<void> {
  const stdio = 'ignore'
  const env = { ...process.env, LOG_LEVEL: 'silent', WG_PROCESS_FOREGROUND: '1' }
  spawn('wireguard-go', [wg], { stdio, env, detached: true }).unref()
  await until('wg takes it', () => sh(['wg', 'setconf', wg, '/run/bare.conf']).code === 0, 5_000, 2)
  ok(['ip', 'link', 'set', wg, 'netns', NETNS])
  const lines = [...addresses.map((a) => `address add ${a} dev ${wg}`), `link set ${wg} mtu 1380 up`]
  ok(['ip', '-n', NETNS, '-batch', '-'], {
    input: `${lines.join('\n')}\nroute replace 0.0.0.0/0 dev ${wg}\nroute replace ::/0 dev ${wg}\n`,
  })
  await until('it answers', answers, 5_000, 2)
}

async function bareDown(): Promise<void> {
  deleteLink()
  // The next wireguard-go is refused while this one serves its socket.
  await until('the socket is gone', () => !existsSync(socket), 5_000, 2)
}

async function timed(what: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await what()
  return performance.now() - began
}

/** The product: the unit restarted by its watchdog's repair, verified by a probe. */
async function repaired(): Promise<void> {
  const repair = await repairTunnel({ p, config }, node)
  if (!repair.ok) throw new Error(repair.evidence.join('; '))
}

/** By hand with the product's own program, without systemd, supervision or a look at what is wrong. */
async function byHand(): Promise<void> {
  ok(['netvm-tunnel', 'down', NODE])
  ok(['netvm-tunnel', 'up', NODE])
  await until('it answers', answers, 5_000, 2)
}

const gone = { bare: [] as number[], ours: [] as number[] }
const cut = { bare: [] as number[], ours: [] as number[], hand: [] as number[] }
for (let i = 0; i < PAIRS; i++) {
  ok(['systemctl', 'stop', UNIT])
  // The tunnel is gone: nothing to take down on either side.
  gone.bare.push(await timed(bareUp))
  // It is there and carries nothing: taken down and created again, on either side.
  cut.bare.push(
    await timed(async () => {
      await bareDown()
      await bareUp()
    }),
  )
  await bareDown()
  ok(['systemctl', 'start', UNIT])
  deleteLink()
  await until('the unit has ended', () => sh(['systemctl', 'is-active', UNIT]).code === 3, 5_000)
  gone.ours.push(await timed(repaired))
  ok(['wg', 'set', wg, 'peer', ok(['wg', 'show', wg, 'peers']), 'remove'])
  cut.ours.push(await timed(repaired))
  ok(['systemctl', 'stop', UNIT])
  ok(['netvm-tunnel', 'up', NODE])
  cut.hand.push(await timed(byHand))
  ok(['netvm-tunnel', 'down', NODE])
}
ok(['systemctl', 'start', UNIT])
deleteLink()
const run = watched(NODE)
if (!run.restarted || run.receipt.verdict.state !== 'healthy')
  throw new Error('one run did not restore the tunnel')
ok(['systemctl', 'stop', UNIT])
const quick = await wgQuick(server, PAIRS)

const ms = (values: readonly number[]): string => `${median(values).toFixed(0)} ms`
const ratio = (ours: readonly number[], other: readonly number[]): number =>
  median(ours.map((value, i) => value / (other[i] ?? Number.NaN)))
process.stdout.write(
  `tunnel gone: repaired and verified ${ms(gone.ours)}, the least that ip, wg and wireguard-go need ${ms(gone.bare)}; ` +
    `cut with its interface in place: ${ms(cut.ours)}, down and up with the least ${ms(cut.bare)} (medians of ${PAIRS})\n` +
    `for information: netvm-tunnel down and up by hand ${ms(cut.hand)}, wg-quick down and up ${ms(quick)}, ` +
    `repaired / wg-quick ${ratio(cut.ours, quick).toFixed(2)}; the whole run that saw it: ${run.seconds.toFixed(2)} s\n`,
)
const met = [
  judge('cut: repaired / bare down and up with a handshake', ratio(cut.ours, cut.bare), LIMIT),
  judge('gone: repaired / bare up with a handshake', ratio(gone.ours, gone.bare), LIMIT),
]
process.exitCode = met.every(Boolean) ? 0 : 1
