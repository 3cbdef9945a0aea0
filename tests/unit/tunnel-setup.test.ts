import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Paths, paths } from '../../lib/base/paths.ts'
import { readTunnelConf } from '../../lib/tunnel/conf-file.ts'
import { tunnelDown, tunnelUp } from '../../lib/tunnel/setup.ts'
import { parseWgDump } from '../../lib/tunnel/wg-dump.ts'
import { patience } from '../kit/unit.ts'

// Real parts: namespaces of our own, the real ip, wg and wireguard-go. Addresses exist inside the namespaces only.
const root = process.geteuid?.() === 0
const tools = ['ip', 'wg', 'wireguard-go', 'curl'].filter((tool) => spawnSync('which', [tool]).status !== 0)
const why = !root
  ? 'needs root for network namespaces'
  : tools.length > 0
    ? `missing: ${tools.join(' ')}`
    : ''
const skip = why !== '' && (process.env.CI === 'true' ? false : why)

const tag = `nt${process.pid % 100000}`
const node = { node: tag, netns: `warp-${tag}`, wg: `wg-${tag}` }
const server = { netns: `srv-${tag}`, wg: `ws-${tag}` }
let dir = ''
let p: Paths

function sh(argv: readonly string[], input = ''): string {
  const [file = '', ...args] = argv
  const result = spawnSync(file, args, { encoding: 'utf8', input, timeout: patience(20_000) })
  if (result.status !== 0) throw new Error(`${argv.join(' ')}: ${result.stderr}`)
  return result.stdout
}
const key = (): string => sh(['wg', 'genkey']).trim()
const pub = (secret: string): string => sh(['wg', 'pubkey'], secret).trim()
const has = (netns: string, wg: string): boolean =>
  spawnSync('ip', ['-n', netns, 'link', 'show', 'dev', wg]).status === 0
const processes = (wg: string): string =>
  spawnSync('pgrep', ['-f', '-x', `wireguard-go ${wg}`], { encoding: 'utf8' }).stdout.trim()

function write(text: string, mode = 0o600): string {
  const path = join(p.wireguardDir, `${node.node}.conf`)
  rmSync(path, { force: true })
  writeFileSync(path, text, { mode })
  return path
}

const secret = { node: '', server: '' }
function conf(extra = '', endpoint = '127.0.0.1:45991'): string {
  return `[Interface]
PrivateKey = ${secret.node}
Address = 10.201.250.6/32, fd00:201::6/128
DNS = 10.201.250.5
MTU = 1380
${extra}
[Peer]
PublicKey = ${pub(secret.server)}
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = ${endpoint}
PersistentKeepalive = 25
`
}

before(() => {
  if (skip !== false) return
  dir = mkdtempSync(join(tmpdir(), 'tunnel-'))
  // Namespaces and wireguard-go's sockets are the machine's; configuration and resolver files are ours.
  p = { ...paths(dir), netnsDir: '/run/netns', wireguardRun: '/run/wireguard' }
  mkdirSync(p.wireguardDir, { recursive: true, mode: 0o700 })
  mkdirSync('/run/wireguard', { recursive: true })
  secret.node = key()
  secret.server = key()
  for (const { netns } of [node, server]) {
    sh(['ip', 'netns', 'add', netns])
    sh(['ip', '-n', netns, 'link', 'set', 'lo', 'up'])
  }
  spawnSync('wireguard-go', [server.wg], { stdio: 'ignore', timeout: patience(10_000) })
  const setconf = join(dir, 'server.conf')
  writeFileSync(
    setconf,
    `[Interface]\nPrivateKey = ${secret.server}\nListenPort = 45991\n[Peer]\nPublicKey = ${pub(secret.node)}\nAllowedIPs = 10.201.250.6/32, fd00:201::6/128\n`,
    { mode: 0o600 },
  )
  sh(['wg', 'setconf', server.wg, setconf])
  sh(['ip', 'link', 'set', server.wg, 'netns', server.netns])
  for (const line of [
    ['address', 'add', '10.201.250.5/32', 'dev', server.wg],
    ['address', 'add', 'fd00:201::5/128', 'dev', server.wg],
    ['link', 'set', server.wg, 'up'],
    ['route', 'add', '10.201.250.6/32', 'dev', server.wg],
    ['-6', 'route', 'add', 'fd00:201::6/128', 'dev', server.wg],
  ]) {
    sh(['ip', '-n', server.netns, ...line])
  }
})

after(() => {
  if (dir === '') return
  for (const { netns, wg } of [node, server]) {
    spawnSync('ip', ['-n', netns, 'link', 'del', 'dev', wg])
    spawnSync('ip', ['link', 'del', 'dev', wg], { stdio: 'ignore' })
    spawnSync('ip', ['netns', 'del', netns])
  }
  rmSync(dir, { recursive: true })
})

/** A refusal by the far end is a handshake, a packet there and one back. */
function reaches(address: string): boolean {
  const curl = [
    'curl',
    '-q',
    '-sS',
    '-m',
    String(patience(20_000) / 1000),
    '--noproxy',
    '*',
    `http://${address}:9/`,
  ]
  const asked = spawnSync('ip', ['netns', 'exec', node.netns, ...curl], { encoding: 'utf8' })
  return /Couldn't connect|refused/i.test(asked.stderr) && !/timed out|unreachable/i.test(asked.stderr)
}

describe('up', { skip }, () => {
  let made: Awaited<ReturnType<typeof tunnelUp>> | undefined
  before(async () => {
    write(conf())
    made = await tunnelUp(p, node)
  })

  test('up: a tunnel that carries both families, its only way out', {
    skip,
    timeout: patience(60_000),
  }, async () => {
    assert.deepEqual(made?.ignored, [])
    assert.ok(!existsSync(`/sys/class/net/${node.wg}`), 'moved out of the host namespace')
    const routes =
      sh(['ip', '-n', node.netns, 'route', 'show']) + sh(['ip', '-n', node.netns, '-6', 'route', 'show'])
    assert.match(routes, new RegExp(`^default dev ${node.wg}`, 'm'))
    assert.equal(routes.match(/^default/gm)?.length, 2)
    assert.match(sh(['ip', '-n', node.netns, 'link', 'show', 'dev', node.wg]), /mtu 1380/)
    const own = sh(['ip', '-n', node.netns, '-6', 'address', 'show', 'dev', node.wg, 'scope', 'link'])
    assert.equal(own, '', 'no address of its own making, which would solicit routers through the tunnel')
    assert.match(
      readFileSync(join(p.netnsEtc, node.netns, 'resolv.conf'), 'utf8'),
      /^nameserver 10\.201\.250\.5$/m,
    )
    assert.ok(reaches('10.201.250.5'))
    assert.ok(reaches('[fd00:201::5]'))
    const dump = parseWgDump(sh(['ip', 'netns', 'exec', node.netns, 'wg', 'show', node.wg, 'dump']))
    assert.ok((dump.peers[0]?.latestHandshakeMs ?? 0) > 0)
    assert.ok(!JSON.stringify(dump).includes(secret.node), 'the private key is dropped at parsing')
  })

  test('no key stands in any command line', { skip }, () => {
    for (const pid of processes(node.wg).split('\n')) {
      assert.ok(!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(secret.node))
      assert.ok(!readFileSync(`/proc/${pid}/environ`, 'utf8').includes(secret.node))
    }
  })

  test('up again replaces what is there and carries traffic at once', {
    skip,
    timeout: patience(60_000),
  }, async () => {
    const old = processes(node.wg)
    await tunnelUp(p, node)
    assert.notEqual(processes(node.wg), old)
    assert.equal(processes(node.wg).split('\n').length, 1, 'one wireguard-go')
    assert.ok(reaches('10.201.250.5'))
  })
})

test('an endpoint that does not resolve: a clear error, nothing left behind', {
  skip,
  timeout: patience(60_000),
}, async () => {
  write(conf('', 'nowhere.invalid:51820'))
  await assert.rejects(tunnelUp(p, node), /endpoint nowhere\.invalid does not resolve on the host/)
})

test('a step that fails is undone: no interface, no process, no socket', {
  skip,
  timeout: patience(60_000),
}, async () => {
  await tunnelDown(p, node)
  // The kernel takes no multicast group for an address, which shows only in the namespace.
  write(conf('Address = ff02::1/128'))
  await assert.rejects(tunnelUp(p, node), /ip -n warp-/)
  assert.ok(!has(node.netns, node.wg))
  assert.ok(!existsSync(`/sys/class/net/${node.wg}`))
  assert.equal(processes(node.wg), '')
  assert.ok(!existsSync(`/run/wireguard/${node.wg}.sock`))
})

test('down removes it all, twice is fine, and a missing namespace too', {
  skip,
  timeout: patience(60_000),
}, async () => {
  write(conf())
  await tunnelUp(p, node)
  await tunnelDown(p, node)
  assert.ok(!has(node.netns, node.wg))
  assert.equal(processes(node.wg), '')
  assert.ok(!existsSync(`/run/wireguard/${node.wg}.sock`))
  assert.doesNotMatch(sh(['ip', '-n', node.netns, 'route', 'show']), /default/)
  await tunnelDown(p, node)
  await tunnelDown(p, { ...node, netns: `${node.netns}-none` })
  assert.ok(!existsSync(join(p.netnsEtc, `${node.netns}-none`)), 'nothing is made by taking down')
})

test('up without a namespace names it and what to run', { skip }, async () => {
  write(conf())
  await assert.rejects(
    tunnelUp(p, { ...node, netns: 'warp-none-such' }),
    (err: Error & { next?: string }) => {
      assert.match(err.message, /netns warp-none-such missing/)
      assert.equal(err.next, `systemctl restart netvm-netns@${node.node}`)
      return true
    },
  )
})

test('the file must be a plain one of root that nobody else reads', { skip }, () => {
  const path = write(conf(), 0o600)
  assert.equal(readTunnelConf(p, node.node).addresses.length, 2)
  for (const mode of [0o640, 0o604, 0o620]) {
    chmodSync(path, mode)
    assert.throws(() => readTunnelConf(p, node.node), /can be read or written by others/)
  }
  chmodSync(path, 0o600)
  assert.throws(() => readTunnelConf(p, node.node, 4711), /does not belong to root/)
  rmSync(path)
  assert.throws(() => readTunnelConf(p, node.node), /does not exist/)
  const real = join(dir, 'elsewhere.conf')
  writeFileSync(real, conf(), { mode: 0o600 })
  symlinkSync(real, path)
  assert.throws(() => readTunnelConf(p, node.node), /is a symbolic link/)
  rmSync(path)
  mkdirSync(path)
  assert.throws(() => readTunnelConf(p, node.node), /is not a plain file/)
  rmSync(path, { recursive: true })
  sh(['mkfifo', '-m', '600', path])
  assert.throws(() => readTunnelConf(p, node.node), /is not a plain file/)
  write(conf('PostUp = touch /tmp/x'))
  assert.throws(() => readTunnelConf(p, node.node), /line 6: PostUp is refused: it would run a command/)
})
