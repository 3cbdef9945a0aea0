import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import {
  browser,
  installSites,
  nodeUp,
  ok,
  scaledSeconds,
  setSite,
  sh,
  stopTimers,
  until,
  untilTitled,
  writeConfig,
} from '../kit/lab.ts'

// A node brought up, mended where something was taken away, and taken down, by what is really there.

const NODE = 'muse'
const NETNS = `/run/netns/warp-${NODE}`
const env = (key: string): string =>
  new RegExp(`^${key}='(.*)'$`, 'm').exec(readFileSync(`/etc/netvm/nodes/${NODE}.env`, 'utf8'))?.[1] ?? ''
const up = (...args: string[]) => sh(['netvm-node-up', NODE, ...args], { deadlineMs: 90_000 })
const state = (unit: string): string => sh(['systemctl', 'is-active', unit]).stdout.trim()
const relay = (): string =>
  sh([
    'curl',
    '-sS',
    '-m',
    String(scaledSeconds(15)),
    `http://${env('PEER_IP')}:${env('CDP_PORT')}/json/version`,
  ]).stdout
const same = (a: ReturnType<typeof browser>): void =>
  assert.deepEqual(browser(NODE), a, 'the browser was touched')

let first = ''
before(async () => {
  installSites()
  setSite(NODE, { title: 'Chat' })
  first = nodeUp(NODE, { args: ['--port', '9410'] })
  await untilTitled(NODE)
})

test('from nothing: one command, every part named, and a second run changes nothing', () => {
  for (const line of [
    /^settings: row added to \/etc\/netvm\/NODES\.md: port 9410, 10\.201\.35\.0\/30$/m,
    /^netns: warp-muse created$/m,
    /^egress: none \(no \/etc\/netvm\/wireguard\/muse\.conf\)$/m,
    /^browser: pid \d+, CDP on 127\.0\.0\.1:9410$/m,
    /^page: .*Chat/m,
    /^relay: 10\.201\.35\.2:9410 answers$/m,
    /^timers: .*chromebox-watchdog@muse\.timer .*enabled and armed$/m,
  ])
    assert.match(first, line)
  const was = browser(NODE)
  const registry = readFileSync('/etc/netvm/NODES.md', 'utf8')
  const again = up()
  assert.equal(again.code, 0, again.all)
  assert.doesNotMatch(again.stdout, /^(settings|timers|left):/m)
  assert.equal(readFileSync('/etc/netvm/NODES.md', 'utf8'), registry)
  same(was)
})

test('the browser is unprivileged, sandboxed, in the namespace, with its resolvers', () => {
  const pid = browser(NODE)?.pid ?? 0
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  assert.match(status, /^NoNewPrivs:\t1$/m)
  assert.match(status, /^CapEff:\t0+$/m)
  assert.match(status, /^Seccomp:\t2$/m)
  assert.notEqual(statSync(`/proc/${pid}`).uid, 0)
  assert.equal(statSync(`/proc/${pid}/ns/net`).ino, statSync(NETNS).ino)
  const renderer = readdirSync('/proc')
    .filter((p) => /^\d+$/.test(p))
    .find((p) => {
      try {
        const argv = readFileSync(`/proc/${p}/cmdline`, 'utf8')
        return argv.includes('--type=renderer') && argv.includes(`/var/lib/chromebox/${NODE}`)
      } catch {
        return false
      }
    })
  assert.ok(renderer, 'a renderer')
  const ns = (p: number | string, kind: string) => statSync(`/proc/${p}/ns/${kind}`).ino
  // Chromium's own sandbox is on: its renderers are in namespaces of their own.
  assert.notEqual(ns(renderer, 'user'), ns(pid, 'user'))
  assert.notEqual(ns(renderer, 'net'), ns(pid, 'net'))
  const resolv = ok(['nsenter', '-t', String(pid), '-m', 'cat', '/etc/resolv.conf'])
  assert.equal(`${resolv}\n`, readFileSync(`/etc/netns/warp-${NODE}/resolv.conf`, 'utf8'))
  assert.doesNotMatch(resolv, /nameserver/)
})

test('address gone: added, browser untouched', () => {
  const was = browser(NODE)
  ok(['ip', 'addr', 'flush', 'dev', env('VETH')])
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, new RegExp(`^netns: ${env('VETH')}: added 10\\.201\\.35\\.1/30$`, 'm'))
  assert.match(relay(), /"Browser"/)
  same(was)
})

test('namespace taken away under a living node: only that node is made again', async () => {
  const was = browser(NODE)
  ok(['ip', 'netns', 'del', `warp-${NODE}`])
  assert.equal(state(`netvm-netns@${NODE}.service`), 'active', 'the unit has not noticed')
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, /^netns: warp-muse was removed/m)
  assert.notEqual(browser(NODE)?.pid, was?.pid)
  assert.match(relay(), /"Browser"/)
  await untilTitled(NODE)
})

test('namespace replaced by hand: browser and relay follow it', () => {
  const was = browser(NODE)
  ok(['ip', 'netns', 'del', `warp-${NODE}`])
  sh(['ip', 'link', 'del', env('VETH')])
  ok(['netvm-netns', 'up', NODE])
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, /^netns: warp-muse is not the one that the browser runs in/m)
  assert.notEqual(browser(NODE)?.pid, was?.pid)
  assert.match(relay(), /"Browser"/)
})

test('a port that was changed in the row: relay and browser follow', (t) => {
  const registry = readFileSync('/etc/netvm/NODES.md', 'utf8')
  t.after(() => {
    writeFileSync('/etc/netvm/NODES.md', registry)
    assert.equal(up().code, 0)
  })
  writeFileSync('/etc/netvm/NODES.md', registry.replaceAll('9410', '9411'))
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(
    run.stdout,
    /^settings: unit settings differ from the row \(settings, relay address\): written/m,
  )
  assert.match(run.stdout, /^browser: restarting it: its port is 9410, the row says 9411$/m)
  assert.match(run.stdout, /^relay: binding it again/m)
  assert.match(relay(), /"Browser"/)
  writeFileSync('/etc/netvm/NODES.md', registry)
  assert.equal(up().code, 0)
  assert.match(relay(), /"Browser"/)
})

test('half made: whatever is missing is finished', async () => {
  stopTimers(NODE)
  sh(['systemctl', 'stop', `cdp-relay@${NODE}.socket`, `cdp-relay@${NODE}.service`])
  rmSync(`/etc/systemd/system/cdp-relay@${NODE}.socket.d/netvm.conf`)
  ok(['systemctl', 'disable', '--now', `chromebox-watchdog@${NODE}.timer`])
  ok(['ip', 'netns', 'exec', `warp-${NODE}`, 'ip', 'link', 'del', env('VPEER')])
  const was = browser(NODE)
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(relay(), /"Browser"/)
  assert.equal(state(`chromebox-watchdog@${NODE}.timer`), 'active')
  same(was)
})

test('a plain file in the place of the namespace: refused with the command that helps', async () => {
  stopTimers(NODE)
  // The browser's end would call its watchdog, which brings it back, namespace and all.
  ok(['systemctl', 'mask', '--runtime', '--quiet', `chromebox-watchdog@${NODE}.service`])
  ok(['systemctl', 'stop', `netvm-netns@${NODE}.service`])
  ok(['systemctl', 'unmask', '--runtime', '--quiet', `chromebox-watchdog@${NODE}.service`])
  await until('the node is down', () => !existsSync(NETNS) && browser(NODE) === undefined, 20_000)
  writeFileSync(NETNS, '')
  const run = up()
  assert.equal(run.code, 1, run.all)
  const next = /plain file, not a namespace; next: (.*)$/m.exec(run.stderr)?.[1] ?? ''
  assert.equal(next, `rm ${NETNS} && netvm-node-up ${NODE}`)
  assert.equal(sh(['bash', '-c', next], { deadlineMs: 90_000 }).code, 0)
  assert.match(relay(), /"Browser"/)
})

test('HELD DOWN is released', () => {
  stopTimers(NODE)
  const file = `/var/lib/netvm/chromebox-watchdog/${NODE}.json`
  const bootId = readFileSync('/run/netvm/boot-id', 'utf8').trim()
  mkdirSync('/var/lib/netvm/chromebox-watchdog', { recursive: true })
  const held = { version: 1, bootId, failures: 5, quickDeaths: 0, held: { sinceWallMs: 1 }, attempts: [] }
  writeFileSync(file, JSON.stringify(held))
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, /^watchdog: released from HELD DOWN$/m)
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).held, undefined)
})

test('a tunnel that does not work is not called egress', (t) => {
  const key = ok(['wg', 'genkey'])
  const peer = ok(['bash', '-c', 'wg genkey | wg pubkey'])
  const conf = `[Interface]\nPrivateKey = ${key}\nAddress = 10.99.0.2/32\n[Peer]\nPublicKey = ${peer}\nEndpoint = 192.0.2.1:51820\nAllowedIPs = 0.0.0.0/0\n`
  writeFileSync(`/etc/netvm/wireguard/${NODE}.conf`, conf, { mode: 0o600 })
  writeConfig({ NETVM_TUNNEL_VERIFY: 3 })
  t.after(() => {
    rmSync(`/etc/netvm/wireguard/${NODE}.conf`)
    writeConfig({})
  })
  const run = up()
  assert.equal(run.code, 1, run.all)
  assert.match(run.stdout, /^egress: NOT OK: .*; next: /m)
  assert.match(run.stdout, /^browser: pid \d+/m, 'the browser is up all the same')
})

test('down: row retired, nothing of it left, profile kept and told', async (t) => {
  const [veth, netns] = [env('VETH'), env('NETNS')]
  const stranger = spawn('ip', ['netns', 'exec', netns, 'sleep', '3600'], { stdio: 'ignore' })
  t.after(() => stranger.kill('SIGKILL'))
  await until('a stranger is inside', () =>
    ok(['ip', 'netns', 'pids', netns]).split('\n').includes(`${stranger.pid}`),
  )
  const run = sh(['netvm-node-down', NODE], { deadlineMs: 90_000 })
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, /^row: .* set retired$/m)
  assert.match(run.stdout, /^netns: ending pid \d+ \(sleep\)/m)
  assert.match(run.stdout, /^kept: .*\/var\/lib\/chromebox\/muse$/m)
  assert.match(readFileSync('/etc/netvm/NODES.md', 'utf8'), /^\| muse .*\| retired \|/m)
  assert.ok(!existsSync(NETNS) && !existsSync(`/sys/class/net/${veth}`))
  assert.equal(browser(NODE), undefined)
  assert.equal(ok(['systemctl', 'list-units', '--all', '--plain', '--no-legend', `*@${NODE}.*`]), '')
  const files = [
    '/etc/systemd/system',
    '/etc/netvm/nodes',
    '/etc/netns',
    '/run/netvm/cdp-queue',
    '/run/netvm/receipts',
  ]
  assert.equal(ok(['find', ...files, '-name', `*${NODE}*`]), '')
  assert.equal(sh(['pgrep', '-u', 'chromebox']).stdout, '')
  assert.ok(existsSync(`/var/lib/chromebox/${NODE}`))
  const again = sh(['netvm-node-down', NODE])
  assert.equal(again.code, 0, again.all)
  assert.doesNotMatch(again.stdout, /^(row|units|netns):/m)
})

test('up again after down: the same row, active', () => {
  const run = up()
  assert.equal(run.code, 0, run.all)
  assert.match(run.stdout, /^settings: row of .* set active$/m)
  assert.match(readFileSync('/etc/netvm/NODES.md', 'utf8'), /^\| muse .*\| 9410 .*\| active \|/m)
})

test('CDP_PORT_OVERRIDE pins the port of a new row, and of a new row only', () => {
  const made = sh(['netvm-node-up', 'pip'], { deadlineMs: 90_000, env: { CDP_PORT_OVERRIDE: '9420' } })
  assert.match(made.stdout, /^settings: row added .*: port 9420, 10\.201\.87\.0\/30$/m, made.all)
  const other = sh(['netvm-node-up', 'pip'], { deadlineMs: 90_000, env: { CDP_PORT_OVERRIDE: '9421' } })
  assert.equal(other.code, 0, other.all)
  assert.match(other.stdout, /:9420/)
})
