import assert from 'node:assert/strict'
import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { rx, says } from '../kit/says.ts'
import { tempDir } from '../kit/temp.ts'
import { receipt } from '../kit/truth-model.ts'
import { patience } from '../kit/unit.ts'

const REPO = fileURLToPath(new URL('../..', import.meta.url))

const row = (name: string, n: number, status = 'active') =>
  `| ${name} | ${name} | warp-${name} | 94${n} | 10.201.${n}.1 | 10.201.${n}.2 | 127.0.0.1:94${n} | ${status} |`

/** A host of files: registry, receipts, and a systemctl that has no bus. */
class Root {
  readonly dir: string
  constructor(t: TestContext, rows = [row('muse', 10), row('pip', 20)]) {
    this.dir = tempDir(t)
    const head =
      '| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status |'
    this.write('etc/netvm/NODES.md', `${head}\n|${'---|'.repeat(8)}\n${rows.join('\n')}\n`)
    this.write(
      'bin/systemctl',
      '#!/bin/sh\necho "Failed to connect to bus: No such file or directory" >&2; exit 1\n',
    )
    this.write('bin/journalctl', '#!/bin/sh\necho "No journal files were found." >&2\n')
    for (const f of ['systemctl', 'journalctl']) chmodSync(`${this.dir}/bin/${f}`, 0o755)
  }
  write(path: string, text: string): void {
    mkdirSync(`${this.dir}/${path}`.replace(/\/[^/]*$/, ''), { recursive: true })
    writeFileSync(`${this.dir}/${path}`, text)
  }
  run(program: string, ...args: string[]): SpawnSyncReturns<string> {
    const env = {
      ...process.env,
      NETVM_ROOT: this.dir,
      PATH: `${this.dir}/bin:${process.env.PATH}`,
      SUDO_USER: 'alice',
    }
    return spawnSync(process.execPath, [`${REPO}/dist/${program}`, ...args], {
      encoding: 'utf8',
      env,
      timeout: patience(30_000),
    })
  }
  /** Receipts of a moment ago, made by supervisors in the namespaces given (default: elsewhere). */
  receipts(node: string, ns = { net: 1, pid: 2 }): void {
    const uptime = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000 - 5000
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim().replaceAll('-', '')
    for (const s of ['chromebox-watchdog', 'cdp-relay-watchdog', 'agent-health'] as const) {
      const at = { wallMs: Date.now() - 5000, bootMs: uptime, bootId }
      const r = receipt(s, undefined, { node, at, hostNs: ns, nextDueBootMs: uptime + 240_000 })
      this.write(`run/netvm/receipts/${s}/${node}.json`, JSON.stringify(r))
    }
  }
}

const ownNs = () => {
  const inode = (kind: string) => Number(/\d+/.exec(readlinkSync(`/proc/self/ns/${kind}`))?.[0])
  return { net: inode('net'), pid: inode('pid') }
}

describe('box fleet status', () => {
  it('from a blind shell: evidence with age and source, UNKNOWN without', (t) => {
    const root = new Root(t)
    root.receipts('muse')
    const r = root.run('box', 'fleet', 'status')
    assert.equal(r.status, 2, r.stderr)
    assert.match(r.stdout, /^muse {2}ACTIVE \[\*\] .*receipt, \d+s ago$/m)
    assert.match(
      r.stdout,
      /^pip {3}UNKNOWN .*netns not seen in the last 6m: chromebox-watchdog checks it next$/m,
    )
    assert.match(r.stdout, /cannot see the host's network: own network namespace/)
    assert.match(r.stdout, /why unknown: host-evidence pip/)
    assert.ok(!r.stdout.includes('\u001b'))
  })

  it('from the host itself a live outage beats fresh evidence', (t) => {
    const root = new Root(t)
    root.receipts('muse', ownNs())
    const r = root.run('box', 'fleet', 'status', 'muse', '--json')
    const [muse] = JSON.parse(r.stdout).nodes
    assert.doesNotMatch(muse.word, /^ACTIVE/)
    assert.equal(r.status, 1)
    const netns = muse.layers.find((l: { layer: string }) => l.layer === 'netns')
    assert.deepEqual([netns.state, netns.source], ['fail', 'live'])
  })

  it('--watch goes on through a registry in the middle of an edit, and ends when nobody reads', async (t) => {
    const root = new Root(t)
    root.receipts('muse')
    const env = { ...process.env, NETVM_ROOT: root.dir, PATH: `${root.dir}/bin:${process.env.PATH}` }
    const child = spawn(process.execPath, [`${REPO}/dist/box`, 'fleet', 'status', '--watch'], { env })
    t.after(() => child.kill('SIGKILL'))
    const next = async (stream: Readable) => String((await once(stream, 'data'))[0])
    assert.match(await next(child.stdout), /^muse {2}ACTIVE \[\*\]/m)
    const table = readFileSync(`${root.dir}/etc/netvm/NODES.md`, 'utf8')
    root.write('etc/netvm/NODES.md', '')
    assert.match(await next(child.stderr), /^box: .*NODES.md/)
    root.write('etc/netvm/NODES.md', table)
    assert.match(await next(child.stdout), /^muse {2}ACTIVE \[\*\]/m)
    child.stdout.destroy()
    const [code] = await once(child, 'exit')
    assert.equal(code, 0)
  })

  it('refused rows are told with their line, the others are shown', (t) => {
    const root = new Root(t, [row('muse', 10), row('BAD!', 20), row('old', 30, 'retired')])
    root.receipts('muse')
    const r = root.run('box', 'fleet', 'status')
    assert.match(r.stdout, rx`^${says('row-refused', { line: 4, name: '', why: /.*BAD!.*/ })}; next: editor `)
    assert.match(r.stdout, /^muse/m)
    assert.doesNotMatch(r.stdout, /^old/m)
    assert.equal(r.status, 2)
  })

  it('an unknown node, no registry, a bad option: one line each, with what to do', (t) => {
    const root = new Root(t)
    const unknown = root.run('box', 'fleet', 'status', 'nope')
    assert.equal(unknown.status, 64)
    assert.match(unknown.stderr, /^box: no node "nope" .*; next: .*\n$/)
    assert.equal(root.run('box', 'fleet', 'status', '--nope').status, 64)
    assert.equal(root.run('box').status, 64)
    root.write('etc/netvm/netvm.env', 'NETVM_REGISTRY=/nonexistent/NODES.md\n')
    const none = root.run('box', 'fleet', 'status')
    assert.equal(none.status, 78)
    assert.match(none.stderr, /^box: no registry at \/nonexistent\/NODES.md/)
  })
})

describe('a browser on the relay’s address that is not in the host’s network', () => {
  it('does not count', async (t) => {
    const server = createServer((_, res) => res.end('{"Browser":"Chrome"}'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    const root = new Root(t)
    const r = root.run('box', 'approvals', 'check', 'muse')
    assert.match(r.stdout, /^muse {2}UNKNOWN {2}queues unverified/)
    assert.equal(r.status, 2)
  })
})

describe('box approvals check', () => {
  it('BLIND is not clear', (t) => {
    const root = new Root(t)
    root.receipts('muse')
    const r = root.run('box', 'approvals', 'check', 'muse')
    assert.match(r.stdout, /^muse {2}BLIND {4}queues unverified, not clear/)
    assert.equal(r.status, 2)
    assert.equal(JSON.parse(root.run('box', 'approvals', 'check', 'muse', '--json').stdout)[0].word, 'BLIND')
  })
})

describe('box node', () => {
  it('pauses, shows, resumes', (t) => {
    const root = new Root(t)
    root.receipts('muse')
    const paused = root.run('box', 'node', 'pause', 'muse', '--for', '2h', '--reason', 'by hand')
    assert.equal(paused.status, 0, paused.stderr)
    const status = root.run('box', 'fleet', 'status', 'muse')
    assert.match(
      status.stdout,
      /^muse {2}PAUSED .*paused by alice: by hand, until .*UTC \((1h 59m|2h) left\)/m,
    )
    assert.equal(status.status, 0)
    assert.match(
      readFileSync(`${root.dir}/var/log/netvm/box.log`, 'utf8'),
      rx`INFO \[muse\] ${says('paused', { by: 'alice', reason: /for 2h.*/ })} \{paused\}`,
    )
    assert.match(root.run('box', 'node', 'resume', 'muse').stdout, /^muse resumed/)
    assert.match(root.run('box', 'fleet', 'status', 'muse').stdout, /^muse {2}ACTIVE \[\*\]/m)
  })
  it('refuses what has no end', (t) => {
    const root = new Root(t)
    for (const time of ['forever', '8d', '0s'])
      assert.equal(root.run('box', 'node', 'pause', 'muse', '--for', time).status, 64)
    assert.equal(root.run('box', 'node', 'pause', 'nope').status, 64)
  })
  it('tells the history', (t) => {
    const root = new Root(t)
    assert.match(root.run('box', 'node', 'history', 'muse').stdout, /no repair of muse/)
    const log =
      '2026-01-02T03:04:00.000Z FAIL [muse] no chromium process for profile\n2026-01-02T03:04:05.000Z INFO [muse] relaunch OK after 5s\n'
    root.write('var/log/netvm/chromebox-watchdog.log', log)
    const r = root.run('box', 'node', 'history', 'muse')
    assert.match(
      r.stdout,
      /^2026-01-02T03:04:05.000Z {2}relaunch in 5s, helped; before: no chromium process for profile; after: healthy$/m,
    )
  })
})

describe('host-evidence', () => {
  it('says per supervisor what is known and why the rest is not', (t) => {
    const root = new Root(t)
    root.receipts('muse')
    const r = root.run('host-evidence', 'muse')
    assert.equal(r.status, 0, r.stderr)
    assert.match(r.stdout, /chromebox-watchdog {2}healthy +\(receipt, \d+s ago\); timer unknown/)
    assert.match(r.stdout, /not known: units: no bus/)
    assert.match(r.stdout, /not known: journal: no journal files were found/)
    const json = JSON.parse(root.run('host-evidence', '--json').stdout)
    assert.deepEqual(
      json.map((n: { node: string }) => n.node),
      ['muse', 'pip'],
    )
  })
})

describe('--help', () => {
  for (const args of [
    ['box'],
    ['box', 'fleet', 'status'],
    ['box', 'approvals', 'check'],
    ['box', 'node', 'pause'],
    ['box', 'node', 'history'],
    ['host-evidence'],
  ])
    it(`${args.join(' ')} teaches with examples`, (t) => {
      const [program = '', ...rest] = args
      const r = new Root(t).run(program, ...rest, '--help')
      assert.equal(r.status, 0)
      assert.match(r.stdout, /Examples:\n {2}/)
      assert.equal(r.stderr, '')
    })
})
