import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { nodeUp, ok, sh } from '../kit/lab.ts'

const script = (name: string): string => fileURLToPath(new URL(`../../scripts/${name}`, import.meta.url))

test('an installed host has its units, its users, its folders, and silent systemd', () => {
  for (const timer of ['cdp-relay-watchdog.timer', 'agent-health.timer'])
    assert.equal(ok(['systemctl', 'is-active', timer]), 'active')
  assert.match(ok(['getent', 'passwd', 'chromebox']), /^chromebox:/)
  assert.match(ok(['getent', 'group', 'netvm']), /^netvm:/)
  assert.equal(ok(['stat', '-c', '%U %a', '/etc/netvm/wireguard']), 'root 700')
  assert.equal(ok(['readlink', '/tmp/cdp-queue']), '/run/netvm/cdp-queue')
  assert.match(readFileSync('/run/netvm/boot-id', 'utf8'), /^[0-9a-f-]{32,36}\n?$/)
  assert.equal(sh(['ensure-node-supervision', '--check']).code, 0)
})

test('a second install keeps the registry and the configuration', () => {
  const registry = readFileSync('/etc/netvm/NODES.md', 'utf8')
  writeFileSync('/etc/netvm/netvm.env', 'NETVM_FRESH_BROWSER=77\n')
  const printed = ok([script('install'), '--registry', '/etc/hostname'])
  assert.match(printed, /kept \/etc\/netvm\/NODES\.md/)
  assert.equal(readFileSync('/etc/netvm/NODES.md', 'utf8'), registry)
  assert.equal(readFileSync('/etc/netvm/netvm.env', 'utf8'), 'NETVM_FRESH_BROWSER=77\n')
})

test('the log is rotated at 10 MB with one backup', () => {
  writeFileSync('/var/log/netvm/agent-health.log', 'x'.repeat(11 << 20))
  for (const round of [1, 2]) {
    ok(['logrotate', '/etc/logrotate.d/netvm'])
    writeFileSync('/var/log/netvm/agent-health.log', `${round}${'x'.repeat(11 << 20)}`)
  }
  ok(['logrotate', '/etc/logrotate.d/netvm'])
  const files = readdirSync('/var/log/netvm').filter((name) => name.startsWith('agent-health.log'))
  assert.ok(files.length <= 2, files.join(' '))
})

test('it can be staged below a folder, and another prefix is written into the units', () => {
  const stage = mkdtempSync('/var/tmp/stage-')
  const env = { DESTDIR: stage, PREFIX: '/opt/netvm' }
  assert.equal(sh([script('install')], { env }).code, 0)
  assert.match(
    readFileSync(`${stage}/etc/systemd/system/chromebox-watchdog@.service`, 'utf8'),
    /ExecStart=\/opt\/netvm\/bin\/chromebox-watchdog/,
  )
  assert.ok(existsSync(`${stage}/opt/netvm/lib/netvm/box`))
  assert.equal(sh([script('uninstall')], { env }).code, 0)
  const left = ok(['find', stage, '-type', 'f', '-printf', '%P\n']).split('\n').sort()
  assert.deepEqual(left, ['etc/netvm/NODES.md', 'etc/netvm/netvm.env'])
})

test('an upgrade keeps for a day what a run that has just begun may still want, and no older version', () => {
  const stage = mkdtempSync('/var/tmp/stage-')
  const install = () => assert.equal(sh([script('install')], { env: { DESTDIR: stage } }).code, 0)
  const lib = `${stage}/usr/local/lib/netvm`
  install()
  const launcher = readFileSync(`${lib}/box`, 'utf8')
  const before = launcher.replace(/code\/box-[0-9a-f]{16}/, 'code/box-00000000000000aa')
  writeFileSync(`${lib}/box`, before)
  const older = ['box-00000000000000aa.cjs', 'box-00000000000000aa.cache', 'box-00000000000000bb.cjs']
  for (const name of older) ok(['touch', '-d', '2 days ago', `${lib}/code/${name}`])
  install()
  assert.deepEqual(
    older.map((name) => existsSync(`${lib}/code/${name}`)),
    [true, true, false],
  )
  assert.equal(readFileSync(`${lib}/box`, 'utf8'), launcher)
  assert.equal(ok(['find', lib, '-name', '*.new']), '')
})

test('uninstall takes nodes down, removes what is ours and says where the data is', () => {
  ok([script('install'), '--quiet'])
  nodeUp('muse')
  nodeUp('pip')
  rmSync('/etc/netvm/nodes/pip.env')
  const removed = sh([script('uninstall')], { deadlineMs: 120_000 })
  assert.equal(removed.code, 0, removed.all)
  for (const place of ['/etc/netvm', '/var/lib/netvm', '/var/lib/chromebox', '/var/log/netvm'])
    assert.ok(removed.stdout.includes(place), place)
  assert.ok(existsSync('/etc/netvm/NODES.md'))
  assert.ok(existsSync('/var/lib/chromebox/muse'))
  assert.equal(existsSync('/usr/local/bin/chromebox-watchdog'), false)
  assert.equal(ok(['ip', 'netns', 'list']), '')
  for (const gone of ['/run/netvm', '/tmp/cdp-queue', '/etc/netns'])
    assert.equal(existsSync(gone), false, gone)
  const units = ok([
    'systemctl',
    'list-units',
    '--all',
    '--plain',
    '--no-legend',
    '--type=service,timer,socket,target',
    '*chromebox*',
    '*netvm*',
    '*cdp-relay*',
    'agent-health*',
  ])
  assert.doesNotMatch(units, /loaded +active/)
})
