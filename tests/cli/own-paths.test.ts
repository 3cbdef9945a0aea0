import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { HEAD, Root, refused, row } from '../kit/bad-input.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { logged, saying } from '../kit/says.ts'
import { patience } from '../kit/unit.ts'

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))

// What the host itself refuses: a file where a directory of ours should be, a disk that is full or read-only, a
// program that is not installed, a user who is not root.

/** A systemctl that knows no unit and starts none. */
const SYSTEMCTL =
  '#!/bin/sh\nfor last; do :; done\ncase " $* " in *" show "*) echo "Id=$last"; echo ActiveState=inactive;; esac\n'

function host(t: TestContext): Root {
  const root = new Root(t)
  root.write('bin/systemctl', SYSTEMCTL)
  return root
}

const PLAIN_FILES: readonly (readonly [string, readonly string[]])[] = [
  ['var/lib/netvm', ['box', 'node', 'pause', 'muse']],
  ['var/lib/netvm/intents', ['box', 'node', 'pause', 'muse']],
  ['run/netvm', ['cdp-queue', 'run', 'muse', '--', 'true']],
  ['run/netvm/cdp-queue', ['cdp-queue', 'run', 'muse', '--', 'true']],
  ['run/netvm/cdp-queue', ['cdp-queue', 'depth']],
  ['run/netvm/cdp-queue/muse', ['cdp-queue', 'run', 'muse', '--', 'true']],
  ['run/netvm/locks', ['ensure-node-supervision', 'muse']],
  ['run/netvm/locks', ['ensure-node-supervision', '--all']],
  ['run/netvm/locks', ['netvm-node-down', 'muse']],
  ['run/netvm/locks', ['netvm-netns', 'up', 'muse']],
  ['run/netvm', ['netvm-node-up', 'pip']],
  ['run/netvm/receipts', ['netvm-node-up', 'pip']],
  ['run/netvm/cdp-queue', ['netvm-node-up', 'pip']],
  ['run/netvm/receipts', ['netvm-node-up', 'old']],
  ['var/lib/netvm', ['netvm-node-up', 'pip']],
  ['etc/netvm/nodes', ['netvm-node-up', 'pip']],
  ['etc/systemd', ['netvm-node-up', 'pip']],
  ['var/lib/netvm', ['ensure-node-supervision', 'pip', '--add']],
]
for (const [path, argv] of PLAIN_FILES) {
  test(`a plain file at ${path}: ${argv.join(' ')}`, (t) => {
    const root = host(t)
    root.write(path, '')
    const before = root.tree().filter((f) => !f.startsWith('run'))
    const ran = root.run(argv)
    refused({ ...ran, out: '' }, argv[0] ?? '', { code: 2, names: new RegExp(`${path}.* is no directory`) })
    assert.match(ran.err, new RegExp(`; next: mv ${root.dir}/${path} ${root.dir}/${path}.moved\n$`))
    assert.deepEqual(
      root.tree().filter((f) => !f.startsWith('run')),
      before,
    )
  })
}

/** Mounts a small file system at a directory of the root, in a mount namespace of the program's own. */
function onSmallDisk(root: Root, at: string, then: string, argv: readonly string[]) {
  mkdirSync(join(root.dir, at), { recursive: true })
  const [program = '', ...args] = argv
  const script = `mount -t tmpfs -o size=64k,nr_inodes=64 small "$AT" && ${then}; exec "$@"`
  const words = ['-m', '--propagation', 'private', 'sh', '-c', script, 'sh', process.execPath, DIST + program]
  const ran = spawnSync('unshare', [...words, ...args], {
    encoding: 'utf8',
    timeout: patience(30_000),
    env: {
      ...process.env,
      AT: join(root.dir, at),
      NETVM_ROOT: root.dir,
      PATH: `${root.dir}/bin:${process.env.PATH}`,
    },
  })
  return { code: ran.status, out: '', err: ran.stderr }
}

const FILLED = 'dd if=/dev/zero of="$AT/fill" bs=4k 2>/dev/null || true'
const READ_ONLY = 'mount -o remount,ro "$AT"'
const DISKS: readonly (readonly [string, string, readonly string[]])[] = [
  ['full', FILLED, ['box', 'node', 'pause', 'muse']],
  ['full', FILLED, ['netvm-node-up', 'pip']],
  ['full', FILLED, ['ensure-node-supervision', 'pip', '--add']],
  ['read-only', READ_ONLY, ['box', 'node', 'pause', 'muse']],
  ['read-only', READ_ONLY, ['netvm-node-up', 'pip']],
]
for (const [what, then, argv] of DISKS) {
  test(`a ${what} disk: ${argv.join(' ')}`, { skip: needsRoot('mounts a file system') }, (t) => {
    const root = host(t)
    const registry = readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8')
    const ran = onSmallDisk(root, 'var/lib/netvm', then, argv)
    const names = what === 'full' ? /no space is left.*ENOSPC.*next: df / : /read-only.*EROFS.*next: findmnt /
    refused(ran, argv[0] ?? '', { code: 2, names: /var\/lib\/netvm/ })
    assert.match(ran.err, names)
    assert.equal(readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8'), registry)
  })
}

test('a node that could not be made after its row was written: the row is told, and how to take it back', (t) => {
  const root = host(t)
  // Answers what is asked, and does nothing that it is told to do.
  root.write('bin/systemctl', SYSTEMCTL.replace('esac\n', '*) echo no such luck >&2; exit 1;; esac\n'))
  const ran = root.run(['netvm-node-up', 'pip'])
  refused({ ...ran, out: '' }, 'netvm-node-up', {
    code: [1, 2],
    names: /the row of pip is active now: `netvm-node-down pip` retires it/,
  })
  assert.match(readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8'), /\| pip \|/)
})

test('a node that nothing could stop keeps its row, and with it its supervision', (t) => {
  const root = host(t)
  const before = readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8')
  root.write('bin/systemctl', '#!/bin/sh\necho Failed to connect to bus >&2; exit 1\n')
  const ran = root.run(['netvm-node-down', 'muse'])
  refused({ ...ran, out: '' }, 'netvm-node-down', {
    code: 2,
    names: /cannot ask systemd: Failed to connect to bus/,
  })
  assert.equal(readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8'), before)
})

const GARBAGE: readonly (readonly [string, string, RegExp])[] = [
  ['words', 'this is no configuration\n', /muse\.conf: line 1: is not `Setting = value`.*next: editor /],
  ['nothing', '', /muse\.conf: no \[Interface\] section.*next: editor /],
  ['a command', '[Interface]\nPostUp = reboot\n', /line 2: PostUp is refused.*next: editor /],
]
for (const [what, text, says] of GARBAGE) {
  test(`a tunnel configuration of ${what}: refused at once, nothing changed`, (t) => {
    const root = host(t)
    root.write('etc/netvm/wireguard/muse.conf', text)
    chmodSync(join(root.dir, 'etc/netvm/wireguard/muse.conf'), 0o600)
    const before = root.tree()
    const ran = root.run(['netvm-node-up', 'muse'])
    refused(ran, 'netvm-node-up', { code: 78, names: says })
    assert.deepEqual(root.tree(), before)
  })
}

/** Nothing but these is on PATH. */
function only(root: Root, tools: readonly string[]): Record<string, string> {
  const dir = join(root.dir, 'few')
  mkdirSync(dir)
  for (const tool of tools) {
    const at = spawnSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).stdout.trim()
    symlinkSync(at, join(dir, tool))
  }
  return { PATH: dir }
}
const MISSING: readonly (readonly [readonly string[], readonly string[], RegExp])[] = [
  [['ensure-node-supervision', 'muse'], [], /flock.*not installed.*next: apt-get install util-linux/],
  [['ensure-node-supervision', '--check'], [], /systemctl is missing.*next: apt-get install systemd/],
  [['ensure-node-supervision', 'muse'], ['flock'], /systemctl is missing.*next: apt-get install systemd/],
  [['netvm-node-up', 'pip'], ['flock'], /systemctl is missing.*next: apt-get install systemd/],
  [['netvm-node-down', 'muse'], [], /flock.*not installed.*next: apt-get install util-linux/],
  [['netvm-netns', 'down', 'muse'], [], /flock.*not installed.*next: apt-get install util-linux/],
  [
    ['cdp-queue', 'run', 'muse', '--', 'true'],
    [],
    /flock is not installed.*next: apt-get install util-linux/,
  ],
]
for (const [argv, tools, names] of MISSING) {
  test(`a tool that is not installed: ${argv.join(' ')} with ${tools.join(' ') || 'nothing'} on PATH`, (t) => {
    const root = new Root(t)
    const registry = readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8')
    refused(root.run(argv, only(root, tools)), argv[0] ?? '', { code: 2, names })
    assert.equal(readFileSync(join(root.dir, 'etc/netvm/NODES.md'), 'utf8'), registry)
  })
}

const ROOTS_WORK: readonly (readonly string[])[] = [
  ['agent-health'],
  ['agent-health', 'reset', 'muse'],
  ['box', 'node', 'pause', 'muse'],
  ['box', 'node', 'resume', 'muse'],
  ['cdp-relay-watchdog', 'muse'],
  ['chromebox-watchdog', 'muse'],
  ['ensure-node-supervision', 'muse'],
  ['ensure-node-supervision', '--all'],
  ['netvm-netns', 'up', 'muse'],
  ['netvm-node-down', 'muse'],
  ['netvm-node-up', 'muse'],
  ['netvm-tunnel', 'down', 'muse'],
]
for (const argv of ROOTS_WORK) {
  test(`not root: ${argv.join(' ')}`, { skip: needsRoot('stops being root') }, (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'netvm-plain-'))
    t.after(() => rmSync(dir, { recursive: true, force: true }))
    chmodSync(dir, 0o755)
    const [program = '', ...args] = argv
    const { NETVM_ROOT: _, ...env } = process.env
    const ran = spawnSync(
      'setpriv',
      ['--reuid=65534', '--clear-groups', process.execPath, DIST + program, ...args],
      { encoding: 'utf8', env },
    )
    const said = { code: ran.status, out: ran.stdout, err: ran.stderr }
    // Some look at the registry first, to say what a plain user can still see; this machine may have none.
    refused(said, program, { code: [77, 78], names: /needs root|no registry at/ })
    if (ran.status === 77) assert.ok(said.err.endsWith(`; next: sudo ${argv.join(' ')}\n`), said.err)
  })
}

test('a refused row is seen by every run over the fleet: exit 2, told with its line', (t) => {
  const bent = row('bent', 20).replace(' 9420 ', ' 99 ')
  const root = new Root(t)
  root.write('etc/netvm/NODES.md', `${HEAD}${bent}`)
  for (const argv of [
    ['agent-health', '--dry-run'],
    ['agent-health', 'status'],
    ['box', 'approvals', 'check'],
    ['box', 'fleet', 'status'],
    ['cdp-relay-watchdog', '--dry-run'],
    ['host-evidence'],
    ['netvm-topology'],
  ]) {
    const ran = root.run(argv)
    assert.equal(ran.code, 2, `${argv.join(' ')}: ${JSON.stringify(ran)}`)
    if (argv[0] !== 'host-evidence') assert.match(ran.out, /\b3\b.*bent.*CDP Port must be/, argv.join(' '))
  }
  for (const program of ['agent-health', 'cdp-relay-watchdog']) {
    assert.equal(root.run([program]).code, 2, program)
    const log = () => readFileSync(join(root.dir, `var/log/netvm/${program}.log`), 'utf8')
    const told = () => logged(log()).filter((l) => l.node === 'bent' && l.code === 'row-refused')
    const [line] = told()
    assert.deepEqual([told().length, line?.level], [1, 'WARN'], log())
    assert.match(line?.text ?? '', saying('row-refused', { line: 3 }))
    assert.match(line?.next ?? '', /^editor .*NODES\.md$/)
    root.run([program])
    assert.equal(told().length, 1, 'told once')
    const receipt = readFileSync(join(root.dir, `run/netvm/receipts/${program}/bent.json`), 'utf8')
    assert.equal(JSON.parse(receipt).verdict.code, 'row-refused')
  }
})
