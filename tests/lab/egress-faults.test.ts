import assert from 'node:assert/strict'
import { before, beforeEach, type TestContext, test } from 'node:test'
import {
  assertQuiet,
  curlInside,
  FAST,
  guardBrowser,
  nodeSetting,
  recoveryTold,
  type Tick,
  tunnelNode,
  watched,
} from '../kit/lab/egress.ts'
import { SITE, type WgServer, wgServer } from '../kit/lab/wg-server.ts'
import { browser, ok, scaledSeconds, sh, until, untilTitled, writeConfig } from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

const wg = /wg-[0-9a-f]{8}/

// One node with a real browser and a real tunnel, and every way in which a tunnel breaks. The browser is one and the
// same process throughout: none of this is its fault.
let server: WgServer
let same: () => void

const WELL = { ...FAST, NETVM_EGRESS_URLS: `"http://site.lab/ http://${SITE}/"` }

before(async () => {
  server = await wgServer()
  server.conf('muse')
  writeConfig(WELL)
  tunnelNode('muse', server.url)
  await untilTitled('muse')
})

// Whatever the test before left: a tunnel that carries, and a titled browser.
beforeEach(async () => {
  writeConfig(WELL)
  await until('the node is well', () => watched('muse').receipt.verdict.state === 'healthy', 90_000, 200)
  await untilTitled('muse')
  same = guardBrowser('muse')
})

/** The same, done at most once. */
function once(what: () => void): () => void {
  let done = false
  return () => {
    if (!done) what()
    done = true
  }
}

/** Cuts the server off; what mends it, which also the end of the test does. */
function cut(t: TestContext): () => void {
  server.cut()
  const mend = once(server.mend)
  t.after(mend)
  return mend
}

function assertRepaired(run: Tick, reason: RegExp): void {
  assert.match(run.said, reason)
  assert.match(run.said, /\{tunnel-restart-ok\}/)
  assert.equal(run.restarted, true)
  assert.equal(run.receipt.verdict.state, 'healthy', run.receipt.verdict.reason)
  assert.equal(run.status, '0')
  const faults = run.pages.filter((page) => !/-recovered\}/.test(page))
  assert.deepEqual(faults, [], 'a fault that the restart cured wakes nobody')
  same()
}

test('a node that is well: a healthy run, in silence', () => {
  assertQuiet('muse')
  same()
})

test('interface deleted', (t) => {
  ok(['ip', '-n', 'warp-muse', 'link', 'del', nodeSetting('muse', 'WG')])
  const run = watched('muse')
  assertRepaired(run, rx`${says('egress-interface-missing', { wg, more: '' })}`)
  t.diagnostic(`seen and restored in one run of ${run.seconds.toFixed(2)} s`)
})

test('wireguard-go killed', (t) => {
  const pid = Number(ok(['systemctl', 'show', '-p', 'MainPID', '--value', 'netvm-tunnel@muse.service']))
  process.kill(pid, 'SIGKILL')
  const run = watched('muse')
  assertRepaired(
    run,
    rx`${says('egress-interface-missing', { wg, more: ', netvm-tunnel@muse is failed (signal KILL)' })}`,
  )
  t.diagnostic(`seen and restored in one run of ${run.seconds.toFixed(2)} s`)
})

test('tunnel unit stopped by hand', () => {
  ok(['systemctl', 'stop', 'netvm-tunnel@muse.service'])
  assertRepaired(
    watched('muse'),
    rx`${says('egress-interface-missing', { wg, more: /, netvm-tunnel@muse is inactive.*/ })}`,
  )
})

test('all peers gone from the interface', () => {
  const key = ok(['ip', 'netns', 'exec', 'warp-muse', 'wg', 'show', nodeSetting('muse', 'WG'), 'peers'])
  ok(['ip', 'netns', 'exec', 'warp-muse', 'wg', 'set', nodeSetting('muse', 'WG'), 'peer', key, 'remove'])
  assertRepaired(watched('muse'), rx`${says('egress-no-peers', { wg })}`)
})

test('one probe URL down and one up is no fault', () => {
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: `"http://10.201.253.2/ http://${SITE}/"` })
  assertQuiet('muse')
  same()
})

test('a name with A and AAAA records behind a slow handshake is no fault', () => {
  const connects = (family: string): number =>
    Number(
      ok([
        ...['ip', 'netns', 'exec', 'warp-muse', 'curl', '-q', '-s', '-o', '/dev/null', family],
        ...['-m', String(scaledSeconds(30))],
        ...['-w', '%{time_connect}', 'http://site.lab/'],
      ]),
    )
  writeConfig({ ...FAST, NETVM_PROBE_DEADLINE: 8, NETVM_EGRESS_URLS: 'http://site.lab/' })
  server.slowHandshakes()
  try {
    // Whoever gives each address of a name a quarter of a second, as Node does, gives up on such a site.
    for (const family of ['-4', '-6']) assert.ok(connects(family) > 0.4, `${family} is slow`)
    assertQuiet('muse')
    same()
  } finally {
    server.quickHandshakes()
  }
})

test('server gone: one restart, a page for the tunnel, the browser left alone; again; and back', async (t) => {
  const mend = cut(t)
  const first = watched('muse')
  assert.match(first.said, rx`FAIL \[muse\] ${says('egress-peer-silent', { age: /\d+/ })}`)
  assert.match(
    first.said,
    rx`FAIL \[muse\] ${says('tunnel-restart-failed')}: ${says('egress-no-handshake', { moved: '' })}`,
  )
  assert.equal(first.restarted, true)
  assert.equal(first.status, '1')
  assert.equal(first.receipt.verdict.layer, 'egress')
  assert.equal(first.pages.length, 1)
  assert.match(
    first.pages[0] ?? '',
    rx`PAGE \[muse\] tunnel-fault: ${says('egress-no-handshake', { moved: '' })}`,
  )
  assert.doesNotMatch(first.said, /\{relaunch-|browser-fault/)
  same()
  const second = watched('muse')
  assert.equal(second.restarted, true, 'the next run tries again')
  assert.deepEqual(second.pages, [], 'and does not page again')
  same()
  mend()
  const back = watched('muse')
  assert.equal(back.receipt.verdict.state, 'healthy', back.receipt.verdict.reason)
  const told = await recoveryTold(WELL, () => watched('muse').pages[0])
  assert.match(told, /PAGE \[muse\] tunnel-fault .*\{tunnel-recovered\}/)
  same()
})

test('names do not resolve through the tunnel', (t) => {
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: 'http://site.lab/' })
  server.dnsDown()
  const dnsUp = once(server.dnsUp)
  t.after(dnsUp)
  const run = watched('muse')
  assert.match(run.said, rx`FAIL \[muse\] ${says('egress-dns', { age: /\d+/ })}`)
  assert.match(run.said, rx`${says('tunnel-restart-failed')}: ${says('egress-dns', { age: /\d+/ })}`)
  assert.match(run.pages[0] ?? '', rx`tunnel-fault: ${says('egress-dns')}`)
  assert.equal(run.status, '1')
  same()
  dnsUp()
  assert.equal(watched('muse').receipt.verdict.state, 'healthy')
  same()
})

test('a configuration that is refused: paged with its line, not restarted', (t) => {
  const file = '/etc/netvm/wireguard/muse.conf'
  const good = ok(['cat', file])
  t.after(() => sh(['tee', file], { input: `${good}\n` }))
  ok(['systemctl', 'stop', 'netvm-tunnel@muse.service'])
  sh(['tee', file], { input: good.replace('MTU', 'PostUp = id\nMTU') })
  const run = watched('muse')
  assert.match(
    run.said,
    rx`${says('egress-config', { why: /.*muse\.conf: line 5: PostUp is refused: it would run a command.*/ })}`,
  )
  assert.equal(run.restarted, false)
  assert.equal(run.status, '1')
  sh(['tee', file], { input: `${good}\n` })
  assert.equal(watched('muse').receipt.verdict.state, 'healthy')
  same()
})

test('no key is in any log or journal', () => {
  const keys = ok(['cat', '/etc/netvm/wireguard/muse.conf']).match(/[A-Za-z0-9+/]{43}=/g) ?? []
  assert.equal(keys.length, 2)
  const all = `${ok(['journalctl', '--all', '-o', 'export'])}${sh(['cat', '/var/log/netvm/chromebox-watchdog.log']).all}`
  for (const key of keys) assert.ok(!all.includes(key))
})

test('a browser that died while the tunnel is down comes back with the tunnel, not before', async (t) => {
  const mend = cut(t)
  const pid = browser('muse')?.pid ?? Number.NaN
  process.kill(pid, 'SIGKILL')
  await until('its end is seen', () => browser('muse') === undefined, 5_000)
  const run = watched('muse')
  assert.equal(run.receipt.verdict.layer, 'egress')
  assert.equal(browser('muse'), undefined)
  mend()
  const back = watched('muse')
  assert.match(back.said, /\{relaunch-ok\}/)
  await untilTitled('muse')
  assert.equal(curlInside('muse', server.url), 0)
})

// Last, because it leaves every other tunnel with an address that nobody has.
test('the server has another address, and its name leads there', (t) => {
  server.move()
  const run = watched('muse')
  assertRepaired(run, rx`${says('egress-endpoint-moved', { age: /\d+/ })}`)
  t.diagnostic(`seen and restored in one run of ${run.seconds.toFixed(2)} s`)
})
