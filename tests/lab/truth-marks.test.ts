import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { text } from '../../lib/report/codes.ts'
import { inPage } from '../kit/lab/browser.ts'
import { FAST, tunnelNode } from '../kit/lab/egress.ts'
import { inShell } from '../kit/lab/shells.ts'
import { prepare, runAll } from '../kit/lab/truth-table.ts'
import { SITE as WG_SITE, wgServer } from '../kit/lab/wg-server.ts'
import { nodeUp, ok, sh, tick, titles, until, untilTitled, writeConfig } from '../kit/lab.ts'
import { SHELLS } from '../kit/truth-table.ts'

// What the marks of a node without a tunnel say, in states in which the word alone is right.
const NODE = 'bare'

interface Look {
  readonly uplink: string
  readonly word: string
  readonly marks: Readonly<Record<string, string>>
  readonly raw: string
}

function lookFrom(shell: (typeof SHELLS)[number]): Look {
  const r = sh(inShell(shell, ['box', 'fleet', 'status', NODE, '--json']), { deadlineMs: 20_000 })
  assert.match(r.stdout, /^\{/, `${shell}: ${r.all}`)
  const { host, nodes } = JSON.parse(r.stdout)
  const layers = nodes[0].layers as { layer: string; state: string }[]
  const marks = Object.fromEntries(layers.map((l) => [l.layer, l.state]))
  return { uplink: host.uplink, word: nodes[0].text, marks, raw: r.stdout }
}

function everyShell(state: string, judge: (look: Look, shell: (typeof SHELLS)[number]) => void): void {
  for (const shell of SHELLS)
    test(`${state}, seen by ${shell}`, () => {
      const look = lookFrom(shell)
      assert.notEqual(look.marks.egress, 'ok', look.raw)
      assert.notEqual(look.uplink, 'ok', look.raw)
      judge(look, shell)
    })
}

const netns = (...argv: string[]) => ok(['ip', 'netns', 'exec', `warp-${NODE}`, ...argv])

test('a node without a tunnel comes up; nobody has run', async () => {
  prepare()
  nodeUp(NODE)
  await untilTitled(NODE)
  sh(['rm', '-rf', '/run/netvm/receipts'])
  ok(['systemd-tmpfiles', '--create'])
})
everyShell('before the first run', (look, shell) => {
  // Without a bus and without root nobody says whether there is a tunnel.
  const told = !['no-bus', 'logs-only'].includes(shell)
  assert.equal(look.marks.egress, told ? 'absent' : 'unknown', look.raw)
})

test('receipts cannot be written, and a line in the log is fresh', () => {
  runAll(NODE)
  sh(['rm', '-rf', '/run/netvm/receipts'])
  ok(['mkdir', '-p', '-m', '755', '/run/netvm/receipts'])
  ok(['mount', '-t', 'tmpfs', '-o', 'ro,mode=755', 'tmpfs', '/run/netvm/receipts'])
  const at = new Date().toISOString()
  ok([
    'sh',
    '-c',
    `echo '${at} FAIL [${NODE}] CDP unreachable on :1' >> /var/log/netvm/chromebox-watchdog.log`,
  ])
  tick(NODE)
})
everyShell('receipts cannot be written', () => {})

test('receipts are back, and everybody has run', () => {
  ok(['umount', '/run/netvm/receipts'])
  ok(['systemd-tmpfiles', '--create'])
  runAll(NODE)
  sh(['systemctl', 'start', 'agent-health.service'], { deadlineMs: 120_000 })
})
everyShell('well', (look, shell) => {
  if (shell === 'logs-only') return
  assert.deepEqual(look.marks, {
    netns: 'ok',
    egress: 'absent',
    process: 'ok',
    cdp: 'ok',
    page: 'ok',
    relay: 'ok',
    api: 'ok',
  })
})

test('the namespace’s end of the veth loses its address', () => {
  const vpeer = /VPEER='?([^'\s]+)/.exec(ok(['netvm-names', NODE]))?.[1] ?? ''
  netns('ip', 'addr', 'flush', 'dev', vpeer)
  runAll(NODE)
})
everyShell('peer address gone', (look, shell) => {
  assert.equal(look.marks.netns, 'fail', look.raw)
  // The line about CDP above is all that is known of the browser there.
  if (shell !== 'logs-only') assert.equal(look.word, 'DEGRADED netns', look.raw)
  assert.notEqual(look.marks.relay, 'ok', look.raw)
})

// A site may be titled with its own host name; so is the browser's error page.
const SITE = 'site'
const lookAt = (): { word: string; page: string } => {
  const r = sh(['box', 'fleet', 'status', SITE, '--json'], { deadlineMs: 20_000 })
  const [n] = JSON.parse(r.stdout).nodes
  const page = n.layers.find((l: { layer: string }) => l.layer === 'page')
  return { word: n.text, page: page.state }
}
const go = async (url: string, title: string) => {
  await inPage(SITE, `location.href = ${JSON.stringify(url)}; 1`)
  await until(`titled ${title}`, () => titles(SITE)?.includes(title), 20_000)
}

test('a page that is titled with its host name is the page', async () => {
  nodeUp(SITE, { title: '127.0.0.1' })
  await untilTitled(SITE, '127.0.0.1')
  runAll(SITE)
  assert.deepEqual(lookAt(), { word: 'ACTIVE', page: 'ok' })
})
test('the same page when it does not answer: nobody can tell', async () => {
  await inPage(SITE, 'setTimeout(() => { while (1); }, 50); 1')
  await until('it loops', () => lookAt().word !== 'ACTIVE', 10_000)
  assert.deepEqual(lookAt(), { word: 'UNKNOWN', page: 'unknown' })
})
for (const [url, title] of [
  ['http://127.0.0.1:1/', '127.0.0.1'],
  ['http://x.127.0.0.1.example/', 'x.127.0.0.1.example'],
  ['http://m\u00fcse-127.0.0.1.example/', 'm\u00fcse-127.0.0.1.example'],
] as const)
  test(`a failed navigation to ${url} is not the page`, async () => {
    ok(['systemctl', 'restart', `chromebox@${SITE}.service`])
    await untilTitled(SITE, '127.0.0.1')
    await go(url, title)
    await until('the error page', () => lookAt().page !== 'ok', 10_000)
    assert.deepEqual(lookAt(), { word: 'DEGRADED page', page: 'fail' })
  })

test('a namespace that lost its name is missing, though its browser answers', () => {
  ok(['ip', 'netns', 'del', `warp-${SITE}`])
  for (const shell of ['root', 'user', 'no-bus'] as const) {
    const r = sh(inShell(shell, ['box', 'fleet', 'status', SITE, '--json']), { deadlineMs: 20_000 })
    const [n] = JSON.parse(r.stdout).nodes
    assert.deepEqual(
      [n.text, n.reason],
      ['DEGRADED netns', text('netns-missing', { netns: `warp-${SITE}` })],
      r.stdout,
    )
  }
})

const WIRED = 'wired'
const egressOf = (shell: (typeof SHELLS)[number]): { word: string; egress: string; uplink: string } => {
  const r = sh(inShell(shell, ['box', 'fleet', 'status', WIRED, '--json']), { deadlineMs: 20_000 })
  const { host, nodes } = JSON.parse(r.stdout)
  const k = nodes[0].layers.find((l: { layer: string }) => l.layer === 'egress')
  return { word: nodes[0].text, egress: k.state, uplink: host.uplink }
}
const withoutReceipts = () => sh(['rm', '-f', `/run/netvm/receipts/chromebox-watchdog/${WIRED}.json`])
const CONF = `/etc/netvm/wireguard/${WIRED}.conf`

test('a tunnel that works is ✓ once somebody looked', async () => {
  const server = await wgServer()
  server.conf(WIRED)
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: `"http://${WG_SITE}/"` })
  tunnelNode(WIRED, server.url)
  await untilTitled(WIRED)
  ok(['systemctl', 'start', `chromebox-watchdog@${WIRED}.timer`])
  runAll(WIRED)
  for (const shell of ['root', 'user'] as const)
    assert.deepEqual(egressOf(shell), { word: 'ACTIVE', egress: 'ok', uplink: 'ok' })
})
test('its configuration is taken away, and no receipt tells what the next run found', () => {
  ok(['mv', CONF, '/root/wired.conf'])
  tick(WIRED)
  withoutReceipts()
  assert.deepEqual(egressOf('root'), { word: 'ACTIVE', egress: 'absent', uplink: 'unknown' })
  assert.deepEqual(egressOf('user'), { word: 'ACTIVE', egress: 'unknown', uplink: 'unknown' })
  assert.deepEqual(egressOf('both'), { word: 'ACTIVE [*]', egress: 'unknown', uplink: 'unknown' })
})
test('it is back, and the tunnel is stopped after a run that was well', () => {
  ok(['mv', '/root/wired.conf', CONF])
  runAll(WIRED)
  ok(['systemctl', 'stop', `netvm-tunnel@${WIRED}.service`])
  for (const shell of ['root', 'user', 'both'] as const)
    assert.deepEqual(egressOf(shell), { word: 'DEGRADED egress', egress: 'fail', uplink: 'unknown' }, shell)
})
