import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { UNIT_FILES } from '../../lib/ensure/observe.ts'

const UNITS = fileURLToPath(new URL('../../units/', import.meta.url))
const KINDS = /\.(service|timer|socket|target)$/
const files = readdirSync(UNITS).filter((name) => KINDS.test(name))
const text = (name: string) => readFileSync(join(UNITS, name), 'utf8')
/** The lines that say something: no comments. */
const settings = (name: string) =>
  text(name)
    .split('\n')
    .filter((line) => !/^\s*[#;]/.test(line))
const value = (name: string, key: string) =>
  settings(name)
    .findLast((line) => line.startsWith(`${key}=`))
    ?.slice(key.length + 1)

function analyze(t: TestContext, args: readonly string[]): { out: string; code: number | null } | undefined {
  const r = spawnSync('systemd-analyze', args, {
    encoding: 'utf8',
    env: { ...process.env, SYSTEMD_COLORS: '0' },
  })
  if (r.error === undefined) return { out: r.stdout + r.stderr, code: r.status }
  if (process.env.CI === 'true') assert.fail('systemd-analyze is missing, and CI=true')
  t.skip('systemd-analyze is missing')
  return undefined
}

/** The units where systemd looks for them, with a program behind every path they name. */
function stage(t: TestContext): string {
  const root = mkdtempSync(join(tmpdir(), 'netvm-units-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const dir = join(root, 'etc/systemd/system')
  mkdirSync(dir, { recursive: true })
  const host = '/lib/systemd/system'
  cpSync(host, join(root, 'lib/systemd/system'), { recursive: true, verbatimSymlinks: true })
  for (const name of files) {
    // Templates are verified as an instance, whose name has the character that %I would take apart.
    const instance = name.replace('@.', '@n-1.')
    writeFileSync(join(dir, name), text(name))
    if (instance !== name) writeFileSync(join(dir, instance), text(name))
    for (const [, program] of text(name).matchAll(/^Exec\w+=[-+!@:]*(\/\S+)/gm)) {
      const path = join(root, program ?? '')
      mkdirSync(join(path, '..'), { recursive: true })
      writeFileSync(path, '#!/bin/true\n')
      chmodSync(path, 0o755)
    }
  }
  return root
}

test('systemd-analyze verify has nothing to say', (t) => {
  const root = stage(t)
  const instances = files.map((name) => join(root, 'etc/systemd/system', name.replace('@.', '@n-1.')))
  const r = analyze(t, [
    'verify',
    '--man=no',
    '--generators=no',
    `--root=${root}`,
    ...files.map((n) => n.replace('@.', '@n-1.')),
  ])
  if (r === undefined) return
  assert.equal(r.out.trim(), '', `of ${instances.length} units`)
  assert.equal(r.code, 0)
})

test('systemd-analyze verify would have said it', (t) => {
  const root = stage(t)
  writeFileSync(join(root, 'etc/systemd/system/cdp-relay@n-1.socket'), '[Socket]\nFreeBynd=yes\n')
  const r = analyze(t, ['verify', '--man=no', '--generators=no', `--root=${root}`, 'cdp-relay@n-1.socket'])
  if (r !== undefined) assert.match(r.out, /FreeBynd/)
})

/** Exposure as systemd-analyze counts it, 0 to 10. The first two limits are the product's; the rest hold the line. */
const EXPOSURE: Record<string, number> = {
  'chromebox@.service': 3.0,
  'cdp-relay@.service': 3.0,
  'chromebox-watchdog@.service': 5.5,
  'cdp-relay-watchdog.service': 5.5,
  'agent-health.service': 5.5,
  'netvm-netns@.service': 6.5,
  'netvm-tunnel@.service': 4.5,
}
for (const [name, limit] of Object.entries(EXPOSURE)) {
  test(`exposure of ${name} is ${limit} or lower`, (t) => {
    const r = analyze(t, ['security', '--offline=true', '--no-pager', join(UNITS, name)])
    if (r === undefined) return
    const level = Number(/exposure level for .*: ([\d.]+)/.exec(r.out)?.[1])
    assert.ok(level <= limit, `${level}\n${r.out.slice(-200)}`)
    t.diagnostic(`${level}`)
  })
}

test('every unit file is one that ensure looks for, and the other way round', () => {
  assert.deepEqual([...UNIT_FILES].sort(), [...files].sort())
})

for (const name of files) {
  test(`${name} keeps the rules of all units`, () => {
    const lines = settings(name).join('\n')
    assert.doesNotMatch(lines, /%I/, '%I turns node-1 into node/1')
    assert.doesNotMatch(lines, /^RuntimeDirectory=/m, 'stopping one unit would delete what others share')
    assert.doesNotMatch(lines, /--no-sandbox/)
    if (name.endsWith('.timer')) {
      assert.equal(value(name, 'AccuracySec'), '1s')
      assert.ok(value(name, 'OnActiveSec') && value(name, 'OnUnitActiveSec'), 'monotonic')
      assert.doesNotMatch(lines, /^OnCalendar=|^Persistent=/m)
    }
    if (value(name, 'Type') === 'oneshot')
      assert.ok(value(name, 'TimeoutStartSec'), 'a oneshot has no timeout by default')
    if (name.endsWith('.service')) assert.equal(value(name, 'StartLimitIntervalSec'), '0')
  })
}

const seconds = (text: string | undefined) => Number(/^(\d+)s$/.exec(text ?? '')?.[1])
for (const watchdog of ['chromebox-watchdog@', 'cdp-relay-watchdog', 'agent-health']) {
  test(`${watchdog}: a hang ends before the next run is due, and a held lock is no failure`, () => {
    const period = seconds(value(`${watchdog}.timer`, 'OnUnitActiveSec'))
    assert.ok(seconds(value(`${watchdog}.service`, 'TimeoutStartSec')) < period)
    assert.equal(value(`${watchdog}.service`, 'SuccessExitStatus'), '75')
  })
}

test('the namespace is not made inside a mount namespace', () => {
  const lines = settings('netvm-netns@.service').join('\n')
  const hiding =
    /^(Private(Tmp|Devices|Mounts|Users|IPC)|Protect(System|Home|Proc|Hostname|ControlGroups|Kernel\w+)|ProcSubset|DynamicUser|RootDirectory|TemporaryFileSystem|Bind\w*Paths|\w+Paths|(State|Cache|Logs)Directory)=/m
  assert.doesNotMatch(lines, hiding)
})

test('the browser is nobody, alone, and nobody else’s to restart', () => {
  const unit = 'chromebox@.service'
  assert.equal(value(unit, 'User'), 'chromebox')
  assert.equal(value(unit, 'NoNewPrivileges'), 'yes')
  assert.equal(value(unit, 'CapabilityBoundingSet'), '')
  assert.equal(value(unit, 'Restart'), 'no')
  assert.equal(value(unit, 'NetworkNamespacePath'), '/run/netns/warp-%i')
  const filters = settings(unit).filter((line) => line.startsWith('SystemCallFilter='))
  assert.deepEqual(filters, ['SystemCallFilter=@system-service chroot unshare setns mincore'])
  const tunnel = settings(unit).filter((line) => line.includes('netvm-tunnel@'))
  assert.deepEqual(tunnel.map((line) => line.split('=')[0]).sort(), ['After', 'Wants'])
})

test('the browser has an /etc of its own: only its resolver has to be there, the rest may be missing', () => {
  const unit = 'chromebox@.service'
  assert.equal(value(unit, 'TemporaryFileSystem'), '/etc:ro')
  const bound = settings(unit).flatMap((line) => /^BindReadOnlyPaths=(.*)$/.exec(line)?.[1]?.split(' ') ?? [])
  const [own, ...rest] = bound
  assert.equal(own, '/etc/netns/warp-%i/resolv.conf:/etc/resolv.conf')
  for (const path of rest) assert.match(path, /^-\/etc\/[a-z.-]+$/)
  const needed =
    'passwd group nsswitch.conf hosts host.conf gai.conf localtime machine-id fonts ssl ld.so.cache chromium opt alternatives mime.types xdg glvnd vulkan services protocols'
  for (const name of needed.split(' ')) assert.ok(rest.includes(`-/etc/${name}`), name)
  // Secrets, and what a browser could learn of the other nodes.
  for (const name of ['shadow', 'netvm', 'netns', 'wireguard', 'resolv.conf', 'ssh'])
    assert.ok(!rest.some((path) => path.startsWith(`-/etc/${name}`)), name)
})

test('one renderer that the kernel kills does not end the browser, and limits are said', () => {
  assert.equal(value('chromebox@.service', 'OOMPolicy'), 'continue')
  assert.equal(value('chromebox@.service', 'LimitNOFILE'), '8192')
  const most = Number(/--connections-max=(\d+) /.exec(value('cdp-relay@.service', 'ExecStart') ?? '')?.[1])
  // Two sockets and two pipes a connection; the program takes one more than it is told before it refuses.
  assert.ok(Number(value('cdp-relay@.service', 'LimitNOFILE')) >= 6 * (most + 1) + 100)
})

test('whatever way the browser ends, its watchdog is started, each way over another unit', () => {
  assert.equal(value('chromebox@.service', 'OnFailure'), 'chromebox-watchdog@%i.service')
  assert.equal(value('chromebox@.service', 'OnSuccess'), 'chromebox-ended@%i.target')
  assert.equal(value('chromebox-ended@.target', 'Wants'), 'chromebox-watchdog@%i.service')
})

test('the relay needs its socket, and both go with the namespace', () => {
  const relay = settings('cdp-relay@.service')
  for (const key of ['Requires', 'After']) assert.ok(relay.includes(`${key}=cdp-relay@%i.socket`), key)
  for (const name of [
    'cdp-relay@.service',
    'cdp-relay@.socket',
    'chromebox@.service',
    'netvm-tunnel@.service',
  ]) {
    assert.ok(settings(name).includes('BindsTo=netvm-netns@%i.service'), name)
  }
})

test('tmpfiles and sysusers read without complaint', (t) => {
  const dry: [string, string[]][] = [
    ['systemd-sysusers', ['--dry-run', join(UNITS, 'netvm.sysusers')]],
    ['systemd-tmpfiles', ['--create', '--root=', '--prefix=/nowhere', join(UNITS, 'netvm.tmpfiles')]],
  ]
  for (const [program, args] of dry) {
    const r = spawnSync(program, args, { encoding: 'utf8' })
    if (r.error !== undefined) return t.skip(`${program} is missing`)
    // Groups that do not exist here are the host's business, syntax is the file's.
    assert.doesNotMatch(r.stderr, /Unknown|Invalid|Bad |Failed to parse|Trailing/i)
  }
})
