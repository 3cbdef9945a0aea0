import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { afterEach, before, test } from 'node:test'
import { paths } from '../../lib/base/paths.ts'
import { offerHandover, withdrawHandover } from '../../lib/tunnel/handover.ts'
import { curlInside, FAST, nodeSetting, tunnelNode, watched } from '../kit/lab/egress.ts'
import { SITE, stubBrowsers, wgServer } from '../kit/lab/wg-server.ts'
import { cursor, entries, ok, sh, until, writeConfig } from '../kit/lab.ts'

// The two ways in which the unit makes a tunnel: without Node from what a watchdog hands over, and with it.
const UNIT = 'netvm-tunnel@muse.service'
const NETNS = 'warp-muse'
const PLAN = '/run/netvm/tunnel/muse'
const CONF = '/etc/netvm/wireguard/muse.conf'
const RESOLV = `/etc/netns/${NETNS}/resolv.conf`
const PROGRAM = '/usr/local/lib/netvm/netvm-tunnel'
const p = paths()
let wg = ''
const good = { conf: '', program: Buffer.alloc(0), resolv: '' }
let names = { node: 'muse', netns: NETNS, wg }

before(async () => {
  const server = await wgServer()
  server.conf('muse')
  stubBrowsers('muse')
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: `http://${SITE}/` })
  tunnelNode('muse', server.url)
  wg = nodeSetting('muse', 'WG')
  names = { node: 'muse', netns: NETNS, wg }
  good.conf = readFileSync(CONF, 'utf8')
  good.program = readFileSync(PROGRAM)
  good.resolv = readFileSync(RESOLV, 'utf8')
})

// Whatever a test left: nothing handed over, the files as they were, and a tunnel that is up.
afterEach(() => {
  withdrawHandover(p, 'muse')
  if (readFileSync(CONF, 'utf8') !== good.conf) writeFileSync(CONF, good.conf)
  if (!readFileSync(PROGRAM).equals(good.program)) writeFileSync(PROGRAM, good.program)
  if (readFileSync(RESOLV, 'utf8') !== good.resolv) writeFileSync(RESOLV, good.resolv)
  if (sh(['systemctl', 'is-active', UNIT]).stdout.trim() !== 'active') ok(['systemctl', 'restart', UNIT])
})

/**
 * Hands over what a repair would, and has it count for as long as the test takes. What it is offered for is a machine
 * where names resolve within half a second and a restart begins within five.
 */
async function offered(): Promise<void> {
  await until('it is offered', () => offerHandover(p, names))
  const uptime = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0])
  writeFileSync(`${PLAN}/until`, `${Math.floor(uptime) + 3600}\n`)
}

/**
 * What the journal has of the unit's own programs since then. wireguard-go is none of ours: of an interface that is
 * taken from it, it says now and then that its MTU cannot be read any more.
 */
const spoken = (at: string): string =>
  entries(at, UNIT)
    .filter((e) => e._TRANSPORT === 'stdout' && !/Failed to load updated MTU/.test(e.MESSAGE ?? ''))
    .map((e) => e.MESSAGE ?? '')
    .join('\n')

/** Runs it with a netvm-tunnel that only fails, so that a tunnel that comes up did without. */
function withoutNode<T>(what: () => T): T {
  writeFileSync(PROGRAM, '#!/bin/sh\necho no Node here >&2\nexit 1\n')
  try {
    return what()
  } finally {
    writeFileSync(PROGRAM, good.program)
  }
}

function assertCarries(): void {
  assert.equal(sh(['systemctl', 'is-active', UNIT]).stdout.trim(), 'active')
  assert.equal(curlInside('muse', `http://${SITE}/`), 0)
  const pids = ok(['systemctl', 'show', '-p', 'MainPID', '--value', UNIT])
  assert.equal(readFileSync(`/proc/${pids}/cmdline`, 'utf8'), `wireguard-go\0${wg}\0`)
  const routes = ok(['ip', '-n', NETNS, 'route']) + ok(['ip', '-n', NETNS, '-6', 'route'])
  assert.equal(routes.match(new RegExp(`^default dev ${wg}|default dev ${wg}`, 'gm'))?.length, 2)
}

function assertNothingLeft(): void {
  assert.notEqual(sh(['ip', '-n', NETNS, 'link', 'show', 'dev', wg]).code, 0)
  assert.ok(!existsSync(`/sys/class/net/${wg}`))
  assert.ok(!existsSync(`/run/wireguard/${wg}.sock`))
  assert.equal(sh(['pgrep', '-x', '-f', `wireguard-go ${wg}`]).stdout, '')
}

test('a repair goes without Node, and takes the keys away again', () => {
  ok(['ip', '-n', NETNS, 'link', 'del', wg])
  const run = withoutNode(() => watched('muse'))
  assert.match(run.said, /\{tunnel-restart-ok\}/)
  assert.equal(run.restarted, true)
  assert.ok(!existsSync(PLAN))
  assertCarries()
})

test('what is handed over is root’s alone, and the private key is in no command line and no journal', async () => {
  const at = cursor()
  await offered()
  for (const name of ['', '/setconf', '/inside', '/v6', '/until', '/conf']) {
    assert.match(ok(['stat', '-c', '%u %a', `${PLAN}${name}`]), name === '' ? /^0 700$/ : /^0 600$/)
  }
  const traced = withoutNode(() => sh(['systemctl', 'restart', UNIT]))
  assert.equal(traced.code, 0, traced.all)
  assert.ok(existsSync(`${PLAN}/applied`))
  withdrawHandover(p, 'muse')
  assertCarries()
  const key = /^PrivateKey = (.*)$/m.exec(readFileSync(CONF, 'utf8'))?.[1] ?? 'none'
  assert.ok(!ok(['bash', '-c', 'cat /proc/[0-9]*/cmdline | tr "\\0" " "']).includes(key))
  assert.equal(spoken(at), '')
})

const IGNORED: readonly [string, () => void][] = [
  ['its time is over', () => writeFileSync(`${PLAN}/until`, '1\n')],
  ['the configuration is newer', () => utimesSync(CONF, new Date(), new Date(Date.now() + 60_000))],
  [
    'another file, older, has taken the place of the configuration',
    () => {
      ok(['cp', CONF, `${CONF}.other`])
      utimesSync(`${CONF}.other`, new Date(), new Date(Date.now() - 3_600_000))
      ok(['mv', `${CONF}.other`, CONF])
    },
  ],
  ['it says nothing of its configuration', () => writeFileSync(`${PLAN}/conf`, '')],
  ['it says nothing of its time', () => writeFileSync(`${PLAN}/until`, '')],
]
for (const [what, spoil] of IGNORED) {
  test(`what was handed over is thrown away: ${what}`, async () => {
    await offered()
    // Applied, it would give the tunnel an address that it does not have.
    writeFileSync(`${PLAN}/inside`, `address add 10.201.252.77/32 dev ${wg}\n`)
    spoil()
    ok(['systemctl', 'restart', UNIT])
    utimesSync(CONF, new Date(), new Date(Date.now() - 60_000))
    assert.ok(!existsSync(PLAN), 'no key stays behind')
    assert.doesNotMatch(ok(['ip', '-n', NETNS, 'address']), /252\.77/)
    assertCarries()
  })
}

test('what a killed repair left behind is gone before anything else, also where nothing is offered', async () => {
  // A setting that is left out is told by the long way, so nothing is offered.
  writeFileSync(CONF, good.conf.replace('[Interface]\n', '[Interface]\nTable = off\n'))
  for (const dir of [PLAN, `${PLAN}.99999`]) {
    ok(['mkdir', '-p', dir])
    writeFileSync(`${dir}/applied`, '')
  }
  assert.equal(await offerHandover(p, names), false)
  assert.deepEqual([existsSync(PLAN), existsSync(`${PLAN}.99999`)], [false, false])
})

const BROKEN: readonly [string, () => void][] = [
  ['wg refuses a line', () => writeFileSync(`${PLAN}/setconf`, '[Interface]\nPrivateKey = secret-word\n')],
  ['ip refuses a line', () => writeFileSync(`${PLAN}/inside`, `address add ff02::1/128 dev ${wg}\n`)],
  ['a part is missing', () => ok(['rm', `${PLAN}/inside`])],
]
for (const [what, spoil] of BROKEN) {
  test(`the long way follows where the short one fails: ${what}`, async () => {
    const at = cursor()
    await offered()
    spoil()
    ok(['systemctl', 'restart', UNIT])
    assert.ok(!existsSync(`${PLAN}/applied`))
    withdrawHandover(p, 'muse')
    assertCarries()
    assert.doesNotMatch(spoken(at), /secret-word/)
  })
}

const IN_THE_WAY: readonly [string, () => void][] = [
  ['an interface of its name on the host', () => ok(['ip', 'tuntap', 'add', 'dev', wg, 'mode', 'tun'])],
  [
    'an interface of its name inside',
    () => ok(['ip', '-n', NETNS, 'tuntap', 'add', 'dev', wg, 'mode', 'tun']),
  ],
  ['a socket that nobody serves', () => writeFileSync(`/run/wireguard/${wg}.sock`, '')],
]
for (const [what, litter] of IN_THE_WAY) {
  for (const short of [true, false]) {
    test(`in the way of ${short ? 'a repair' : 'a start'}: ${what}`, async () => {
      ok(['systemctl', 'stop', UNIT])
      assertNothingLeft()
      litter()
      if (short) await offered()
      ok(['systemctl', 'start', UNIT])
      withdrawHandover(p, 'muse')
      assertCarries()
    })
  }
}

test('the interface made beside Node goes when Node’s part fails', () => {
  ok(['systemctl', 'stop', UNIT])
  const failed = withoutNode(() => sh(['systemctl', 'start', UNIT]))
  assert.notEqual(failed.code, 0)
  assertNothingLeft()
})

test('a refused configuration is told by the unit, and nothing of the interface made beside is left', async () => {
  writeFileSync(CONF, good.conf.replace('MTU', 'PostUp = id\nMTU'))
  assert.equal(await offerHandover(p, names), false)
  assert.ok(!existsSync(PLAN))
  const at = cursor()
  assert.notEqual(sh(['systemctl', 'restart', UNIT]).code, 0)
  assert.match(spoken(at), /muse\.conf: line 5: PostUp is refused: it would run a command/)
  assertNothingLeft()
})

test('nothing is offered while the endpoint does not resolve; the unit tells it', async () => {
  writeFileSync(CONF, good.conf.replace('wg.lab', 'nowhere.invalid'))
  assert.equal(await offerHandover(p, names), false)
  const at = cursor()
  assert.notEqual(sh(['systemctl', 'restart', UNIT]).code, 0)
  assert.match(spoken(at), /endpoint nowhere\.invalid does not resolve on the host/)
  assertNothingLeft()
})

test('nothing is offered while the resolver file is not what it should be', async () => {
  const inode = ok(['stat', '-c', '%i', RESOLV])
  writeFileSync(RESOLV, 'nameserver 10.201.253.1\n')
  assert.equal(await offerHandover(p, names), false)
  ok(['systemctl', 'restart', UNIT])
  assert.equal(readFileSync(RESOLV, 'utf8'), good.resolv)
  assert.equal(ok(['stat', '-c', '%i', RESOLV]), inode, 'written in place')
  mkdirSync(PLAN, { recursive: true })
  await until('it is offered over what a killed run left', () => offerHandover(p, names))
  withdrawHandover(p, 'muse')
})

test('a crash leaves nothing behind', () => {
  process.kill(Number(ok(['systemctl', 'show', '-p', 'MainPID', '--value', UNIT])), 'SIGKILL')
  sh(['systemctl', 'stop', UNIT])
  assertNothingLeft()
})
