import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'
import { loadConfig } from '../../lib/base/config.ts'
import { paths } from '../../lib/base/paths.ts'
import { repairTunnel } from '../../lib/egress/repair.ts'
import { findNode, readRegistry } from '../../lib/registry/read.ts'
import { inPage } from '../kit/lab/browser.ts'
import { curlInside, FAST, guardBrowser, nodeSetting, tunnelNode } from '../kit/lab/egress.ts'
import { Capture, hostLinks, leaks, type Packet, routeAnything, tryEverything } from '../kit/lab/leak.ts'
import { CANARY, SITE, UPLINK, type WgServer, wgServer } from '../kit/lab/wg-server.ts'
import { ok, sh, stopTimers, titles, until, untilTitled, writeConfig } from '../kit/lab.ts'

// While the browser loads pages and everything else is tried from its namespace, every interface of the host is
// watched. The host routes and masquerades, so that whatever came out of the namespace would go on.
let server: WgServer
let capture: Capture
let same: () => void
let borders: Parameters<typeof leaks>[1]
const TUNNEL = 'netvm-tunnel@muse.service'

before(async () => {
  server = await wgServer()
  server.conf('muse')
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: `http://${SITE}/` })
  routeAnything()
  tunnelNode('muse', server.url)
  await untilTitled('muse')
  stopTimers('muse')
  same = guardBrowser('muse')
  borders = {
    veth: nodeSetting('muse', 'VETH'),
    gw: nodeSetting('muse', 'GW'),
    peer: nodeSetting('muse', 'PEER_IP'),
    uplink: UPLINK,
    wireguardPort: 51820,
  }
  assert.deepEqual(
    hostLinks().toSorted(),
    ['lo', UPLINK, borders.veth].toSorted(),
    'every host interface is known',
  )
  capture = await Capture.start()
})

after(() => capture?.stop())

const CONF = '/etc/netvm/wireguard/muse.conf'
let good = ''
// Whatever the test before left: a node that is made, with a tunnel that carries.
beforeEach(async () => {
  good ||= readFileSync(CONF, 'utf8')
  writeFileSync(CONF, good, { mode: 0o600 })
  ok(['netvm-netns', 'up', 'muse'])
  if (curlInside('muse', `http://${SITE}/`, 2) === 0) return
  ok(['systemctl', 'restart', TUNNEL])
  await until('the tunnel carries', () => curlInside('muse', `http://${SITE}/`, 2) === 0)
})

let count = 0
/** The browser asks for pages, by name and by address, over TCP and UDP; processes beside it try the rest. */
async function browse(): Promise<void> {
  count++
  const page = `http://leak${count}.lab/?${count}`
  await inPage(
    'muse',
    `
    const peer = new RTCPeerConnection({ iceServers: [{ urls: 'stun:${CANARY}:3478' }, { urls: 'stun:stun.lab:3478' }] })
    peer.createDataChannel('x'); peer.createOffer().then((offer) => peer.setLocalDescription(offer))
    for (const url of ['${page}', 'http://${CANARY}/?${count}', 'https://${CANARY}/', 'http://[fd00:201:253::99]/', 'http://${borders.gw}/', 'http://10.201.254.1/'])
      fetch(url, { mode: 'no-cors' }).catch(() => {})
    new WebSocket('ws://${CANARY}/')
    1`,
  )
  tryEverything('muse', borders.gw, CANARY)
}

/** The capture since the last look, without anything that has no business there. */
async function assertTight(): Promise<Packet[]> {
  const seen = await capture.packets()
  const out = leaks(seen, borders)
  assert.deepEqual(out, [], out.map((p) => `${p.link} ${p.text}`).join('\n'))
  same()
  return seen
}

const wireguard = (seen: readonly Packet[]): number =>
  seen.filter((packet) => packet.link === UPLINK && /\.51820(:| >)/.test(packet.text)).length

test('up: what the browser asks for leaves as WireGuard and as nothing else', async () => {
  await capture.packets()
  await browse()
  const seen = await assertTight()
  assert.ok(wireguard(seen) > 0, 'the capture sees the tunnel at work')
})

test('the capture would see a leak: the same with a hole made on purpose', async () => {
  const inside = (...argv: string[]) => ok(['ip', 'netns', 'exec', 'warp-muse', ...argv])
  ok(['systemctl', 'stop', TUNNEL])
  inside('nft', 'delete', 'table', 'inet', 'netvm')
  inside('ip', 'route', 'add', 'default', 'via', borders.gw)
  await browse()
  const out = leaks(await capture.packets(), borders)
  inside('ip', 'route', 'del', 'default')
  ok(['netvm-netns', 'up', 'muse'])
  for (const link of [borders.veth, UPLINK])
    assert.ok(
      out.some((p) => p.link === link),
      `seen on ${link}`,
    )
  assert.ok(
    out.some((p) => p.text.includes(CANARY) && /UDP/i.test(p.text)),
    'UDP seen',
  )
  assert.ok(
    out.some((p) => /\.53: /.test(p.text)),
    'DNS seen',
  )
  // What the browser still had under way when the hole was closed has ended before the next look counts.
  await until('it is quiet', async () => leaks(await capture.packets(), borders).length === 0, 20_000, 1_500)
})

test('restart: while it stops and starts, over and over', async () => {
  for (let i = 0; i < 3; i++) {
    ok(['systemctl', 'restart', '--no-block', TUNNEL])
    await browse()
    await until('it is up', () => sh(['systemctl', 'is-active', TUNNEL]).stdout.trim() === 'active', 10_000)
    await assertTight()
  }
})

test('repair: while it is made anew the way a watchdog has it made', async () => {
  // Not by a whole run: the host's own probe of the uplink would stand in the capture.
  const p = paths()
  const config = loadConfig(p)
  const node = findNode(readRegistry(p, config), 'muse')
  for (let i = 0; i < 3; i++) {
    ok(['ip', '-n', 'warp-muse', 'link', 'del', nodeSetting('muse', 'WG')])
    const repairing = repairTunnel({ p, config }, node)
    await browse()
    const repair = await repairing
    assert.equal(repair.ok, true, repair.evidence.join('; '))
    await assertTight()
  }
})

test('wireguard-go crashes', async () => {
  process.kill(Number(ok(['systemctl', 'show', '-p', 'MainPID', '--value', TUNNEL])), 'SIGKILL')
  await until('it is gone', () => sh(['systemctl', 'is-active', TUNNEL]).code !== 0, 10_000)
  // What it had sent before its end does not count as sent after it.
  await assertTight()
  await browse()
  const seen = await assertTight()
  assert.equal(wireguard(seen), 0)
})

test('the interface is deleted', async () => {
  ok(['systemctl', 'restart', TUNNEL])
  ok(['ip', '-n', 'warp-muse', 'link', 'del', nodeSetting('muse', 'WG')])
  await browse()
  await assertTight()
})

test('down', async () => {
  ok(['systemctl', 'stop', TUNNEL])
  await capture.packets()
  await browse()
  const seen = await assertTight()
  assert.equal(wireguard(seen), 0)
})

test('half made: the start fails at its last step', async () => {
  ok(['systemctl', 'stop', TUNNEL])
  writeFileSync(CONF, good.replace(/^MTU/m, 'Address = ff02::1/128\nMTU'))
  const started = sh(['systemctl', 'start', TUNNEL])
  assert.notEqual(started.code, 0)
  await browse()
  await assertTight()
})

test('half made: every part of it, taken away one at a time', async () => {
  const wg = nodeSetting('muse', 'WG')
  const inside = (...argv: string[]) => ok(['ip', '-n', 'warp-muse', ...argv])
  for (const argv of [
    ['route', 'del', 'default', 'dev', wg],
    ['link', 'set', wg, 'down'],
    ['address', 'flush', 'dev', wg],
  ]) {
    const started = sh(['systemctl', 'restart', TUNNEL])
    assert.equal(started.code, 0, sh(['journalctl', '-u', TUNNEL, '-n', '30', '--no-pager']).all)
    inside(...argv)
    await browse()
    await assertTight()
  }
})

test('no configuration: the node has no way out at all', async () => {
  ok(['systemctl', 'stop', TUNNEL])
  rmSync(CONF)
  ok(['netvm-netns', 'up', 'muse'])
  await browse()
  await assertTight()
})

test('up again: the page is there, and it is still the same browser', async () => {
  await inPage('muse', `location.href = '${server.url}?again'; 1`)
  await until('its title', () => titles('muse')?.includes('Chat'), 15_000)
  await assertTight()
})
