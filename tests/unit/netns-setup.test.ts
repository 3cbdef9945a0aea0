import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { paths } from '../../lib/base/paths.ts'
import type { NetworkWant } from '../../lib/netns/plan.ts'
import { resolversFrom, resolvPath, writeResolv } from '../../lib/netns/resolv.ts'
import { inhabitants, networkDown, networkUp } from '../../lib/netns/setup.ts'
import { patience, scaled } from '../kit/unit.ts'
import { until } from '../kit/until.ts'

const sh = (...argv: string[]) =>
  execFileSync(argv[0] ?? '', argv.slice(1), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** Real namespaces need root; as a plain user the test says so, and in CI that is a failure. */
function needsRoot(t: TestContext): boolean {
  if (process.getuid?.() === 0) return true
  if (process.env.CI === 'true') assert.fail('needs root, and CI=true')
  t.skip('needs root')
  return false
}

/** Names that no node has: the tag of a node is hexadecimal. TEST-NET-2 addresses, never routed. */
function fixture(t: TestContext, tag: string) {
  const root = mkdtempSync(join(tmpdir(), 'netvm-netns-'))
  // The namespaces are the kernel's: only what is a file of ours goes under the temporary root.
  const p = { ...paths(root), netnsDir: '/run/netns' }
  const want: NetworkWant = {
    node: `t${tag}`,
    netns: `warp-t${tag}-${process.pid}`,
    veth: `ve-t${tag}${process.pid}`,
    vpeer: `vp-t${tag}${process.pid}`,
    gw: '198.51.100.1',
    peer: '198.51.100.2',
  }
  t.after(async () => {
    await networkDown(p, want)
    rmSync(root, { recursive: true, force: true })
  })
  return { p, want }
}

test('up makes it, up again does nothing, down leaves nothing', async (t) => {
  if (!needsRoot(t)) return
  const { p, want } = fixture(t, 'a')
  const made = await networkUp(p, want)
  assert.ok(made.includes(`made namespace ${want.netns}`), made.join('; '))
  assert.match(sh('ip', '-4', '-o', 'addr', 'show', 'dev', want.veth), /198\.51\.100\.1\/30/)
  assert.equal(sh('ip', '-6', '-o', 'addr', 'show', 'dev', want.veth), '')
  assert.match(sh('ip', '-n', want.netns, '-4', '-o', 'addr'), /lo .*127\.0\.0\.1[\s\S]*198\.51\.100\.2\/30/)
  assert.doesNotMatch(sh('ip', '-n', want.netns, '-6', '-o', 'addr'), /vp-/)
  assert.equal(sh('ip', '-n', want.netns, 'route', 'show', 'default'), '', 'no way out but a tunnel')
  assert.ok(existsSync(resolvPath(p, want.netns)))
  assert.deepEqual(await networkUp(p, want), [], 'a second run does nothing')
  await networkDown(p, want)
  assert.ok(!existsSync(`/run/netns/${want.netns}`) && !existsSync(`/sys/class/net/${want.veth}`))
  assert.deepEqual(await networkDown(p, want), [])
})

test('a page in the namespace cannot reach the host by the veth; the host reaches the page', async (t) => {
  if (!needsRoot(t)) return
  const { p, want } = fixture(t, 'b')
  await networkUp(p, want)
  const listen = (host: string, prefix: string[]) => {
    const code = `require('net').createServer(s=>s.end('hi')).listen(8099,'${host}',()=>console.log('up'))`
    const [program = '', ...args] = [...prefix, process.execPath, '-e', code]
    const child = spawn(program, args)
    t.after(() => child.kill('SIGKILL'))
    return new Promise((resolve, reject) => {
      child.stdout.once('data', resolve)
      child.once('exit', (code) => reject(new Error(`listener exited ${code}`)))
    })
  }
  const ns = ['ip', 'netns', 'exec', want.netns]
  await Promise.all([listen(want.gw, []), listen(want.peer, ns)])
  const dial = (host: string, prefix: string[], silenceMs: number) => {
    const code = `const s = require('net').connect(8099, '${host}')
      const end = (text) => { console.log(text); process.exit() }
      s.on('data', (d) => end('got ' + d)); s.on('error', (e) => end(e.code))
      setTimeout(end, ${silenceMs}, 'silence')`
    return sh(...prefix, process.execPath, '-e', code).trim()
  }
  assert.equal(dial(want.peer, [], patience(30_000)), 'got hi')
  assert.equal(dial(want.gw, [], patience(30_000)), 'got hi', 'it listens, for the host')
  assert.equal(dial(want.gw, ns, scaled(1500)), 'silence')
})

test('namespace deleted under its veth: replaced', async (t) => {
  if (!needsRoot(t)) return
  const { p, want } = fixture(t, 'c')
  await networkUp(p, want)
  const holder = spawn('ip', ['netns', 'exec', want.netns, 'sleep', '600'])
  t.after(() => holder.kill('SIGKILL'))
  const entered = async () => (await inhabitants(p, want)).some((x) => x.comm === 'sleep')
  await until('sleep entered the namespace', entered)
  sh('ip', 'netns', 'del', want.netns)
  assert.ok(existsSync(`/sys/class/net/${want.veth}`), 'a namespace that lives on keeps its veth')
  const lines = await networkUp(p, want)
  assert.ok(
    lines.includes(`removed ${want.veth}, whose other end was not in ${want.netns}`),
    lines.join('; '),
  )
  assert.deepEqual(await networkUp(p, want), [])
})

test('address and firewall taken away: only they come back', async (t) => {
  if (!needsRoot(t)) return
  const { p, want } = fixture(t, 'd')
  await networkUp(p, want)
  sh('ip', 'addr', 'flush', 'dev', want.veth)
  assert.deepEqual(await networkUp(p, want), [`${want.veth}: added 198.51.100.1/30`])
  sh('ip', 'netns', 'exec', want.netns, 'nft', 'flush', 'ruleset')
  assert.deepEqual(await networkUp(p, want), [`closed ${want.vpeer} for connections out of the namespace`])
})

test('the name still taken by another link: deleted and tried again', async (t) => {
  if (!needsRoot(t)) return
  const { p, want } = fixture(t, 'e')
  sh('ip', 'link', 'add', want.veth, 'type', 'veth', 'peer', 'name', `vq-${process.pid}`)
  await networkUp(p, want)
  assert.deepEqual(await networkUp(p, want), [])
})

test('a plain file with the name of the namespace is refused and kept', async (t) => {
  if (!needsRoot(t)) return
  const { p, want } = fixture(t, 'f')
  mkdirSync('/run/netns', { recursive: true })
  writeFileSync(`/run/netns/${want.netns}`, 'not mine')
  await assert.rejects(networkUp(p, want), /plain file, not a namespace/)
  assert.equal(readFileSync(`/run/netns/${want.netns}`, 'utf8'), 'not mine')
  assert.ok(!existsSync(`/sys/class/net/${want.veth}`), 'nothing half made')
  rmSync(`/run/netns/${want.netns}`)
})

test('the resolver file is written in place, shorter text included', (t) => {
  const { p, want } = fixture(t, 'g')
  mkdirSync(p.wireguardDir, { recursive: true })
  const conf = join(p.wireguardDir, `${want.node}.conf`)
  writeFileSync(conf, '[Interface]\nDNS = 10.64.0.1, 10.64.0.2, corp.example # two\n')
  assert.equal(writeResolv(p, want.node, want.netns), true)
  const path = resolvPath(p, want.netns)
  const inode = statSync(path).ino
  assert.match(readFileSync(path, 'utf8'), /^#.*\nnameserver 10\.64\.0\.1\nnameserver 10\.64\.0\.2\n$/)
  assert.equal(writeResolv(p, want.node, want.netns), false)
  rmSync(conf)
  assert.equal(writeResolv(p, want.node, want.netns), true)
  assert.doesNotMatch(readFileSync(path, 'utf8'), /nameserver/)
  assert.equal(statSync(path).ino, inode, 'a running browser has this inode bound')
})

test('resolvers: none without a tunnel, the tunnel default without a DNS line', () => {
  assert.deepEqual(resolversFrom(undefined), [])
  assert.deepEqual(resolversFrom('[Interface]\nPrivateKey = x\n'), ['1.1.1.1', '1.0.0.1'])
  assert.deepEqual(resolversFrom('dns=9.9.9.9\nDNS = fd00::1'), ['9.9.9.9', 'fd00::1'])
})
