import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { ok, sh } from '../kit/lab.ts'

// What the host refuses, on a whole host: nothing half made is left, and the printed command helps.

const REGISTRY = '/etc/netvm/NODES.md'
const up = (...more: string[]) => sh(['netvm-node-up', 'n1', ...more], { deadlineMs: 150_000 })
const next = (text: string) => /; next: (.+)$/m.exec(text)?.[1] ?? ''
const units = () => ok(['systemctl', 'list-units', '--all', '--plain', '--no-legend', '*@n1.*'])

test('a plain file where receipts should be: refused before the row, and the printed command mends it', (t) => {
  const before = readFileSync(REGISTRY, 'utf8')
  renameSync('/run/netvm/receipts', '/run/netvm/receipts.real')
  t.after(() => {
    for (const file of ['receipts', 'receipts.moved']) rmSync(`/run/netvm/${file}`, { force: true })
    renameSync('/run/netvm/receipts.real', '/run/netvm/receipts')
  })
  writeFileSync('/run/netvm/receipts', '')
  const ran = up()
  assert.equal(ran.code, 2, ran.all)
  assert.match(ran.stderr, /\/run\/netvm\/receipts is no directory.*; next: mv \/run\/netvm\/receipts /)
  assert.equal(readFileSync(REGISTRY, 'utf8'), before)
  assert.equal(units(), '')
  ok(['bash', '-c', next(ran.stderr)])
  assert.ok(existsSync('/run/netvm/receipts.moved'))
})

test('a disk without room: refused before the row', (t) => {
  const before = readFileSync(REGISTRY, 'utf8')
  ok(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'small', '/var/lib/netvm'])
  t.after(() => ok(['umount', '/var/lib/netvm']))
  sh(['dd', 'if=/dev/zero', 'of=/var/lib/netvm/fill', 'bs=4k'])
  const ran = up()
  assert.equal(ran.code, 2, ran.all)
  assert.match(ran.stderr, /\/var\/lib\/netvm: no space is left on the file system/)
  assert.equal(readFileSync(REGISTRY, 'utf8'), before)
  ok(['bash', '-c', next(ran.stderr)])
})

test('a tunnel configuration that is none: refused with its line, nothing is made or waited for', (t) => {
  const before = readFileSync(REGISTRY, 'utf8')
  mkdirSync('/etc/netvm/wireguard', { recursive: true })
  writeFileSync('/etc/netvm/wireguard/n1.conf', 'garbage\n')
  t.after(() => rmSync('/etc/netvm/wireguard/n1.conf'))
  chmodSync('/etc/netvm/wireguard/n1.conf', 0o600)
  const ran = up()
  assert.equal(ran.code, 78, ran.all)
  assert.match(ran.stderr, /n1\.conf: line 1: .*; next: editor \/etc\/netvm\/wireguard\/n1\.conf/)
  assert.equal(readFileSync(REGISTRY, 'utf8'), before)
  assert.equal(units(), '')
  assert.ok(!existsSync('/run/netns/warp-n1') && !existsSync('/etc/netvm/nodes/n1.env'))
})

test('a node that cannot start after its row was written: told, and the row can be taken back', (t) => {
  ok(['systemctl', 'mask', '--runtime', 'netvm-netns@n1.service'])
  t.after(() => ok(['systemctl', 'unmask', '--runtime', 'netvm-netns@n1.service']))
  const ran = up()
  assert.ok(ran.code !== 0, ran.all)
  assert.match(
    ran.stderr,
    /the row of n1 is active now: `netvm-node-down n1` retires it; next: journalctl -u /,
  )
  assert.match(readFileSync(REGISTRY, 'utf8'), /\| n1 \|.*\| active \|/)
  assert.equal(sh(['netvm-node-down', 'n1'], { deadlineMs: 150_000 }).code, 0)
  assert.match(readFileSync(REGISTRY, 'utf8'), /\| n1 \|.*\| retired \|/)
})

test('cdp-queue makes no queue for a node that is retired or that nobody has', (t) => {
  const before = readFileSync(REGISTRY, 'utf8')
  t.after(() => writeFileSync(REGISTRY, before))
  const cells = [
    'old1',
    'old1',
    'warp-old1',
    '9499',
    '10.201.99.1',
    '10.201.99.2',
    '127.0.0.1:9499',
    'retired',
  ]
  const head = 'Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status'
  writeFileSync(REGISTRY, `| ${head} |\n${'|---'.repeat(8)}|\n| ${cells.join(' | ')} |\n`)
  for (const [name, says] of [
    ['old1', /is retired/],
    ['old2', /no node "old2" .*did you mean old1\?/],
  ] as const) {
    const ran = sh(['cdp-queue', 'run', name, '--', 'true'])
    assert.equal(ran.code, 64, ran.all)
    assert.match(ran.stderr, says)
    assert.ok(!existsSync(`/run/netvm/cdp-queue/${name}`))
  }
})
