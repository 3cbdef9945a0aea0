import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { loadConfig } from '../../../lib/config.ts'
import { repairTunnel } from '../../../lib/egress/repair.ts'
import { paths } from '../../../lib/paths.ts'
import { findNode, readRegistry } from '../../../lib/registry.ts'
import { FAST, nodeSetting, tunnelNode, watched } from '../../../tests/lab/egress-kit.ts'
import { ok, sh, stopTimers, until, writeConfig } from '../../../tests/lab/harness.ts'
import { SITE, stubBrowsers, wgServer } from '../../../tests/lab/wg-server.ts'
import { judge, median } from './stats.ts'

const PAIRS = 11
const NODE = 'muse'
const NETNS = `warp-${NODE}`

const server = await wgServer()
server.conf(NODE)
stubBrowsers(NODE)
writeConfig({ ...FAST, NETVM_EGRESS_URLS: `http://${SITE}/` })
tunnelNode(NODE, server.url)
stopTimers(NODE)
const wg = nodeSetting(NODE, 'WG')
const p = paths()
const config = loadConfig(p)
const node = findNode(readRegistry(p, config), NODE)

/** The file without what only wg-quick knows, and with the name resolved, as `wg setconf` wants it. */
const conf = ok(['cat', `/etc/netvm/wireguard/${NODE}.conf`])
const addresses = /^Address = (.*)$/m.exec(conf)?.[1]?.split(/,\s*/) ?? []
writeFileSync(
  '/run/bare.conf',
  conf.replace(/^(?:Address|DNS|MTU) = .*\n/gm, '').replace('wg.lab', '10.201.254.7'),
  {
    mode: 0o600,
  },
)
const answers = (): boolean =>
  sh(['ip', 'netns', 'exec', NETNS, 'curl', '-q', '-sf', '-o', '/dev/null', '-m', '1', `http://${SITE}/`])
    .code === 0

/** What a person with a shell does at best: no checks, no retries, one command after the other. */
async function bare(): Promise<number> {
  const began = performance.now()
  sh(['ip', '-n', NETNS, 'link', 'del', wg])
  const stdio = 'ignore'
  const env = { ...process.env, LOG_LEVEL: 'silent', WG_PROCESS_FOREGROUND: '1' }
  const child = spawn('wireguard-go', [wg], { stdio, env, detached: true })
  child.unref()
  await until('wg takes it', () => sh(['wg', 'setconf', wg, '/run/bare.conf']).code === 0, 5_000, 2)
  ok(['ip', 'link', 'set', wg, 'netns', NETNS])
  const lines = [...addresses.map((a) => `address add ${a} dev ${wg}`), `link set ${wg} mtu 1380 up`]
  ok(['ip', '-n', NETNS, '-batch', '-'], {
    input: `${lines.join('\n')}\nroute replace 0.0.0.0/0 dev ${wg}\n`,
  })
  await until('it answers', answers, 5_000, 2)
  return performance.now() - began
}

/** The same by hand with the product's own program, and without systemd, supervision or a look at what is wrong. */
async function byHand(): Promise<number> {
  const began = performance.now()
  ok(['netvm-tunnel', 'down', NODE])
  ok(['netvm-tunnel', 'up', NODE])
  await until('it answers', answers, 5_000, 2)
  return performance.now() - began
}

/** The same fault repaired by the product: restart of the unit, verified by a probe. */
async function ours(): Promise<number> {
  ok(['systemctl', 'stop', `netvm-tunnel@${NODE}.service`])
  sh(['systemctl', 'start', `netvm-tunnel@${NODE}.service`])
  ok(['ip', '-n', NETNS, 'link', 'del', wg])
  const began = performance.now()
  const repair = await repairTunnel({ p, config }, node)
  if (!repair.ok) throw new Error(repair.evidence.join('; '))
  return performance.now() - began
}

const times = { raw: [] as number[], hand: [] as number[], ours: [] as number[] }
const ratios = { raw: [] as number[], hand: [] as number[] }
for (let i = 0; i < PAIRS; i++) {
  ok(['systemctl', 'stop', `netvm-tunnel@${NODE}.service`])
  const raw = await bare()
  sh(['ip', '-n', NETNS, 'link', 'del', wg])
  ok(['netvm-tunnel', 'up', NODE])
  const hand = await byHand()
  ok(['netvm-tunnel', 'down', NODE])
  const mended = await ours()
  times.raw.push(raw)
  times.hand.push(hand)
  times.ours.push(mended)
  ratios.raw.push(mended / raw)
  ratios.hand.push(mended / hand)
}
ok(['ip', '-n', NETNS, 'link', 'del', wg])
const run = watched(NODE)
if (!run.restarted || run.receipt.verdict.state !== 'healthy')
  throw new Error('one run did not restore the tunnel')
process.stdout.write(
  `tunnel repaired and verified: ${median(times.ours).toFixed(0)} ms; netvm-tunnel down and up by hand, with handshake: ` +
    `${median(times.hand).toFixed(0)} ms; the least that ip, wg and wireguard-go need: ${median(times.raw).toFixed(0)} ms ` +
    `(medians of ${PAIRS}); the whole run that saw it: ${run.seconds.toFixed(2)} s\n`,
)
process.stdout.write(
  `for information: repaired / bare ip and wg commands: ${median(ratios.raw).toFixed(2)}\n`,
)
process.exitCode = judge('repaired / netvm-tunnel down and up by hand', median(ratios.hand), 1.5) ? 0 : 1
