import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { patience } from '../kit/unit.ts'

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url))
const HEAD =
  '| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status | Chat URL | Chat Title | API Check | Host |\n' +
  '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n'
const MUSE =
  '| muse | muse | warp-muse | 9410 | 10.201.35.1 | 10.201.35.2 | 127.0.0.1:9410 | active |  |  |  |  |\n'

let root: string
let registry: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'netvm-nodes-'))
  registry = join(root, 'etc/netvm/NODES.md')
  for (const dir of ['etc/netvm', 'bin']) mkdirSync(join(root, dir), { recursive: true })
  writeFileSync(registry, `# Nodes\n\n${HEAD}${MUSE}\nProse.\n`)
  // A host whose systemd cannot be asked: nothing may be changed on a guess.
  writeFileSync(join(root, 'bin/systemctl'), '#!/bin/sh\necho "$@" >> "$CALLS"\necho no bus >&2\nexit 1\n')
  chmodSync(join(root, 'bin/systemctl'), 0o755)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function program(name: string, args: string[], env: Record<string, string> = {}) {
  const calls = join(root, 'calls')
  const all = {
    ...process.env,
    NETVM_ROOT: root,
    CALLS: calls,
    PATH: `${root}/bin:${process.env.PATH}`,
    ...env,
  }
  const r = spawnSync(process.execPath, [join(DIST, name), ...args], {
    encoding: 'utf8',
    env: all,
    timeout: patience(30_000),
  })
  return { code: r.status, out: r.stdout, err: r.stderr }
}

test('netvm-names: the fleet’s own values, safe to eval', () => {
  const r = program('netvm-names', ['pip'])
  assert.equal(r.code, 0, r.err)
  assert.match(
    r.out,
    /^NETNS=warp-pip\nWG=wg-fed5038b\nVETH=ve-fed5038b\nVPEER=vp-fed5038b\nSUB=10\.201\.87\.0\/30\nGW=10\.201\.87\.1\nPEER_IP=10\.201\.87\.2\nCDP_PORT=9278\n$/,
  )
  assert.doesNotMatch(r.out, /[^A-Za-z0-9_=./\n-]/)
})

test('netvm-names: what the row pins wins over what the name gives', () => {
  assert.match(program('netvm-names', ['muse']).out, /^CDP_PORT=9410$/m)
})

interface Row {
  readonly name: string
  readonly argv: readonly [string, ...string[]]
  readonly env?: Record<string, string>
  readonly before?: () => void
  readonly code: number
  readonly says: RegExp
}
const rows: Row[] = [
  { name: 'a bad name', argv: ['netvm-names', 'a;reboot'], code: 64, says: /bad node name/ },
  { name: 'no name', argv: ['netvm-node-up'], code: 64, says: /missing required argument 'node'/ },
  { name: 'a bad name to up', argv: ['netvm-node-up', '../x'], code: 64, says: /bad node name/ },
  {
    name: 'a port out of range',
    argv: ['netvm-node-up', 'pip', '--port', '80'],
    code: 64,
    says: /--port must be 1024 to 65535/,
  },
  {
    name: 'a bad override',
    argv: ['netvm-node-up', 'pip'],
    env: { CDP_PORT_OVERRIDE: 'x' },
    code: 64,
    says: /CDP_PORT_OVERRIDE must be/,
  },
  {
    name: 'another node’s port',
    argv: ['netvm-node-up', 'pip', '--port', '9410'],
    code: 64,
    says: /port 9410 is node muse's/,
  },
  {
    name: 'another port for a row',
    argv: ['netvm-node-up', 'muse', '--port', '9411'],
    code: 64,
    says: /has port 9410/,
  },
  {
    name: 'an unknown option',
    argv: ['netvm-node-up', 'muse', '--fast'],
    code: 64,
    says: /unknown option '--fast'/,
  },
  ...[MUSE.replace('| 9410 |', '| 94x0 |'), MUSE.replace('| muse |', '| Mu/se |')].map((bad) => ({
    name: `down of a living node whose row cannot be read: ${bad.slice(0, 9)}`,
    argv: ['netvm-node-down', 'muse'] as [string, string],
    before: () => {
      writeFileSync(registry, `${HEAD}${bad}`)
      mkdirSync(join(root, 'etc/netvm/nodes'))
      writeFileSync(join(root, 'etc/netvm/nodes/muse.env'), '')
    },
    code: 78,
    says: /muse.*NODES\.md line 3\b.*; next: editor /,
  })),
  { name: 'down of nobody', argv: ['netvm-node-down', 'nobody'], code: 64, says: /no node "nobody"/ },
  {
    name: 'a typo to ensure',
    argv: ['ensure-node-supervision', 'mus'],
    code: 64,
    says: /did you mean muse\?; next: ensure-node-supervision muse/,
  },
  {
    name: 'ensure of nothing',
    argv: ['ensure-node-supervision'],
    code: 64,
    says: /give a node, --all or --check/,
  },
  {
    name: 'ensure of both',
    argv: ['ensure-node-supervision', 'muse', '--all'],
    code: 64,
    says: /not both|give a node/,
  },
  {
    name: '--add without a node',
    argv: ['ensure-node-supervision', '--all', '--add'],
    code: 64,
    says: /--add needs a node/,
  },
  {
    name: 'no registry',
    argv: ['ensure-node-supervision', '--all'],
    before: () => rmSync(registry),
    code: 78,
    says: /no registry at/,
  },
  {
    name: 'a registry without a table',
    argv: ['ensure-node-supervision', '--all'],
    before: () => writeFileSync(registry, 'x'),
    code: 78,
    says: /no table/,
  },
  {
    name: 'a bad configuration',
    argv: ['netvm-node-up', 'muse'],
    before: () => writeFileSync(join(root, 'etc/netvm/netvm.env'), 'NETVM_X=1\n'),
    code: 78,
    says: /unknown key NETVM_X/,
  },
  {
    name: 'systemd that cannot be asked',
    argv: ['ensure-node-supervision', '--all'],
    code: 2,
    says: /cannot ask systemd: no bus/,
  },
  {
    name: '--check of the same',
    argv: ['ensure-node-supervision', '--check'],
    code: 2,
    says: /cannot ask systemd/,
  },
  { name: 'netvm-netns without a verb', argv: ['netvm-netns', 'muse'], code: 64, says: /./ },
  {
    name: 'netvm-netns of a node without settings',
    argv: ['netvm-netns', 'up', 'muse'],
    code: 78,
    says: /no settings for node muse at .*; next: netvm-node-up muse/,
  },
  {
    name: 'chromebox-close of nothing',
    argv: ['chromebox-close'],
    code: 64,
    says: /give a port and a main pid/,
  },
]
for (const row of rows) {
  test(`${row.name}: one line, exit ${row.code}, nothing changed`, () => {
    row.before?.()
    const tree = () =>
      readdirSync(root, { recursive: true })
        .map(String)
        .filter((f) => /^etc/.test(f))
        .sort()
    const before = [tree(), tree().includes('etc/netvm/NODES.md') ? readFileSync(registry, 'utf8') : '']
    const [name, ...args] = row.argv
    const r = program(name, args, row.env)
    assert.equal(r.code, row.code, r.err + r.out)
    assert.match(r.err, row.says)
    assert.equal(r.err.trim().split('\n').length, 1, r.err)
    assert.deepEqual(
      [tree(), tree().includes('etc/netvm/NODES.md') ? readFileSync(registry, 'utf8') : ''],
      before,
    )
  })
}

test('not root: said, with what to run, and nothing changed', (t) => {
  if (process.getuid?.() !== 0) return t.skip('needs root to become somebody else')
  const r = spawnSync(
    'setpriv',
    ['--reuid=65534', '--clear-groups', process.execPath, join(DIST, 'netvm-node-up'), 'muse'],
    { encoding: 'utf8' },
  )
  assert.equal(r.status, 77, r.stderr)
  assert.match(r.stderr, /needs root.*; next: sudo netvm-node-up/)
})
