import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { FAST, guardBrowser, invocation, recoveryTold, tunnelNode } from '../kit/lab/egress.ts'
import { SITE, stubBrowsers, type WgServer, wgServer } from '../kit/lab/wg-server.ts'
import { cursor, entries, ok, receipt, sh, until, writeConfig } from '../kit/lab.ts'
import { rx, says, textOf } from '../kit/says.ts'

// Six nodes with a tunnel each. The browsers are stand-ins: no page matters here.
const NODES = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6']
const CONFIG = { ...FAST, NETVM_TUNNEL_VERIFY: 3, NETVM_EGRESS_URLS: `http://${SITE}/` }
let server: WgServer
const checks: (() => void)[] = []

before(async () => {
  server = await wgServer()
  stubBrowsers()
  writeConfig(CONFIG)
  for (const node of NODES) server.conf(node)
  for (const node of NODES) tunnelNode(node, server.url)
  for (const node of NODES) checks.push(guardBrowser(node))
})

// Whatever the test before left: every way is open and every node well.
beforeEach(async () => {
  server.mendUplink()
  for (const node of NODES) server.mendNode(node)
  await untilWell()
})

interface Round {
  readonly pages: readonly string[]
  readonly restarted: readonly string[]
  readonly reasons: Readonly<Record<string, string>>
  readonly seconds: number
}

/** One run of every node's watchdog, all at once, as their timers would after a cut. */
async function round(): Promise<Round> {
  const at = cursor()
  const before = new Map(NODES.map((node) => [node, invocation(node)]))
  const since = new Map(NODES.map((node) => [node, receipt('chromebox-watchdog', node)?.at.bootMs]))
  const started = performance.now()
  ok(['systemctl', 'start', '--no-block', ...NODES.map((node) => `chromebox-watchdog@${node}.service`)])
  const done = (node: string): boolean =>
    receipt('chromebox-watchdog', node)?.at.bootMs !== since.get(node) &&
    sh(['systemctl', 'is-active', `chromebox-watchdog@${node}.service`]).stdout.trim() !== 'activating'
  await until('every run has ended', () => NODES.every(done), 120_000, 100)
  const seconds = (performance.now() - started) / 1000
  for (const check of checks) check()
  return {
    pages: entries(at)
      .filter((e) => e.PRIORITY === '2' && e._UID === '0')
      .map((e) => e.MESSAGE ?? ''),
    restarted: NODES.filter((node) => invocation(node) !== before.get(node)),
    reasons: Object.fromEntries(
      NODES.map((n) => [n, receipt('chromebox-watchdog', n)?.verdict.reason ?? 'none']),
    ),
    seconds,
  }
}

async function untilWell(): Promise<void> {
  await until(
    'every node is well',
    async () => Object.values((await round()).reasons).every((reason) => reason === ''),
    120_000,
  )
}

test('six nodes that are well: six quiet runs', async () => {
  const all = await round()
  assert.deepEqual(all.restarted, [])
  assert.deepEqual(all.pages, [])
  assert.deepEqual(
    Object.values(all.reasons),
    NODES.map(() => ''),
  )
})

test('three of six lose egress at once: one page for the fleet, no tunnel is restarted', async (t) => {
  const lost = ['n1', 'n3', 'n5']
  for (const node of lost) server.cutNode(node)
  const first = await round()
  assert.deepEqual(first.restarted, [])
  assert.equal(first.pages.length, 1, first.pages.join('\n'))
  assert.match(
    first.pages[0] ?? '',
    rx`PAGE \[fleet\] uplink-fault: ${says('uplink-down')}: egress fails on 3 of 6 active nodes`,
  )
  for (const node of NODES)
    assert.equal(first.reasons[node], lost.includes(node) ? textOf('uplink-down') : '')
  t.diagnostic(`six runs side by side took ${first.seconds.toFixed(1)} s`)
  const second = await round()
  assert.deepEqual(second.restarted, [])
  assert.deepEqual(second.pages, [], 'not paged again, and the three that work tell no recovery')
  for (const node of lost) server.mendNode(node)
  await untilWell()
  const told = await recoveryTold(CONFIG, async () => (await round()).pages[0])
  assert.match(told, /PAGE \[fleet\] uplink-fault .*\{uplink-recovered\}/)
})

test('two of six: two tunnels are restarted, each paged as its own', async () => {
  for (const node of ['n2', 'n4']) server.cutNode(node)
  const all = await round()
  assert.deepEqual(all.restarted, ['n2', 'n4'])
  assert.equal(all.pages.length, 2)
  for (const [i, node] of ['n2', 'n4'].entries()) {
    assert.match(
      all.pages.toSorted()[i] ?? '',
      rx`PAGE \[${node}\] tunnel-fault: ${says('egress-no-handshake', { moved: '' })}`,
    )
  }
})

test('the uplink itself is cut: all six, one page, no restart', async () => {
  server.cutUplink()
  const all = await round()
  assert.deepEqual(all.restarted, [])
  const faults = all.pages.filter((page) => !/-recovered\}/.test(page))
  assert.equal(faults.length, 1, faults.join('\n'))
  assert.match(
    faults[0] ?? '',
    rx`${says('uplink-down')}: egress fails on 6 of 6 active nodes .*the host's own probe: fail`,
  )
  server.mendUplink()
  await untilWell()
})
