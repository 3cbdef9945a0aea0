import assert from 'node:assert/strict'
import { chmodSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { Host, type Ran } from '../kit/chromebox-host.ts'
import { rx, says, textOf } from '../kit/says.ts'

let host: Host
beforeEach(async () => {
  host = await Host.make()
})
afterEach(() => host.close())

interface Row {
  name: string
  args?: string[]
  before?: (h: Host) => void
  code: number
  says: RegExp
}

const rows: Row[] = [
  {
    name: 'unknown node',
    args: ['nobody'],
    code: 64,
    says: /no node "nobody" in .*NODES\.md \(it has muse\)/,
  },
  { name: 'bad name', args: ['../etc'], code: 64, says: /\.\.\/etc/ },
  { name: 'hostile name', args: ['a\u001b[31m\nb'], code: 64, says: /./ },
  { name: 'no argument', args: [], code: 64, says: /missing required argument/ },
  { name: 'unknown option', args: ['muse', '--fast'], code: 64, says: /unknown option '--fast'/ },
  { name: 'too many', args: ['muse', 'pip'], code: 64, says: /too many arguments/ },
  {
    name: 'missing registry',
    before: (h) => rmSync(join(h.dir, 'etc/netvm/NODES.md')),
    code: 78,
    says: /no registry at .*NODES\.md/,
  },
  {
    name: 'a registry without a table',
    before: (h) => h.write('etc/netvm/NODES.md', 'nothing here'),
    code: 78,
    says: /NODES\.md/,
  },
  {
    name: 'a bad key in the configuration',
    before: (h) => h.write('etc/netvm/netvm.env', 'NETVM_FRESH=3\n'),
    code: 78,
    says: /netvm\.env: line 1: unknown key NETVM_FRESH/,
  },
  {
    name: 'the row of this node was refused',
    args: ['pip'],
    before: (h) =>
      h.registry('active', '| pip | a | warp-pip | 99999 | 10.201.87.1 | 10.201.87.2 | x | active | | |\n'),
    code: 78,
    says: /row of node pip was refused: .* line 4/,
  },
]
for (const row of rows) {
  test(`bad input: ${row.name}`, async () => {
    row.before?.(host)
    const ran = await host.run(row.args ?? ['muse'])
    assert.equal(ran.code, row.code, ran.err)
    assert.match(ran.err, row.says)
    oneLine(ran)
    assert.deepEqual(host.calls(), [])
    assert.equal(host.log(), '')
  })
}

function oneLine(ran: Ran): void {
  assert.equal(ran.out, '')
  assert.match(ran.err, /^chromebox-watchdog: [^\n]+\n$/)
  assert.ok(!ran.err.includes('\u001b'))
}

test('a malformed row leaves the others supervised', async () => {
  host.registry('active', '| BAD NAME | a | b | c | d | e | f | active | | |\n')
  await host.browser()
  assert.deepEqual(await host.run(), { code: 0, out: '', err: '' })
})

test('a retired row is not looked at', async () => {
  host.registry('retired')
  assert.deepEqual(await host.run(), { code: 0, out: '', err: '' })
  assert.match((await host.run(['muse'], {})).out, /retired/)
  assert.deepEqual(host.calls(), [])
})

test('curl missing: cannot tell, exit 2, nothing is done', async () => {
  await host.browser()
  host.uptime(3600)
  host.program('bin/ip', 'shift 3; echo "exec of \\"$1\\" failed: No such file or directory" >&2; exit 255')
  host.calls()
  const ran = await host.run()
  assert.equal(ran.code, 2)
  assert.match(
    host.log(),
    rx`WARN \[muse\] unknown: ${says('cdp-unseen', { why: /.*curl.*/ })} \{cdp-unseen\}`,
  )
  assert.ok(!host.calls().some((c) => c.startsWith('systemctl')))
})

test('hidden processes: cannot tell, exit 2, no relaunch', async () => {
  rmSync(join(host.dir, 'proc/1'), { recursive: true })
  const ran = await host.run()
  assert.equal(ran.code, 2)
  assert.match(host.log(), rx`WARN \[muse\] unknown: ${says('process-unseen')} \{process-unseen\}`)
  assert.ok(!host.calls().some((c) => c.startsWith('systemctl')))
})

test('paused: looked at and told, nothing done, exit 0', async () => {
  const since = { wallMs: Date.now(), bootMs: host.nowBootMs(), bootId: 'b0071d' }
  const intent = { version: 1, node: 'muse', kind: 'pause', reason: 'update', by: 'ann', since }
  host.write(
    'var/lib/netvm/intents/muse.json',
    JSON.stringify({ ...intent, untilBootMs: since.bootMs + 60_000, untilWallMs: since.wallMs + 60_000 }),
  )
  const ran = await host.run()
  assert.deepEqual([ran.code, ran.out, ran.err, host.log()], [0, '', '', ''])
  assert.equal(host.receipt().verdict.code, 'paused')
  assert.deepEqual(host.receipt().verdict.evidence, [textOf('no-process')])
  assert.ok(!host.calls().some((call) => /^systemctl (?!show)/.test(call)), host.calls().join('\n'))
  host.uptime(61)
  await host.run()
  assert.match(host.log(), rx`${says('no-process')}`)
})

test('not root: 77, and what can still be seen', {
  skip: process.getuid?.() !== 0 && 'needs root to stop being root',
}, async () => {
  const { spawnSync } = await import('node:child_process')
  chmodSync(host.dir, 0o755)
  const bundle = new URL('../../dist/chromebox-watchdog', import.meta.url).pathname
  const script = `process.setuid(65534); delete process.env.NETVM_ROOT; process.argv = [process.argv[0], 'chromebox-watchdog', 'muse']; require(${JSON.stringify(bundle)})`
  const ran = spawnSync(process.execPath, ['-e', script], {
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  })
  // Without a registry on this machine the configuration speaks first.
  assert.ok([77, 78].includes(ran.status ?? -1), ran.stderr)
  assert.match(ran.stderr, /^chromebox-watchdog: [^\n]+\n$/)
})
