import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { HEAD, row } from '../kit/bad-input.ts'
import { until } from '../kit/until.ts'

const BUNDLE = new URL('../../dist/cdp-queue', import.meta.url).pathname
let root: string
const running: ChildProcess[] = []
/** One for each test, so that none waits for another's holders. */
const NODES = ['status', 'fds', 'daemon', 'busy', 'killed', 'prio', 'tell', 'muse', 'pip']
const registry = (text: string) => writeFileSync(join(root, 'etc/netvm/NODES.md'), text)

before(() => {
  root = mkdtempSync(join(tmpdir(), 'cdp-queue-'))
  const rows = NODES.map((name, i) => row(name, i + 10))
  mkdirSync(join(root, 'etc/netvm'), { recursive: true })
  registry(`${HEAD}${rows.join('')}${row('old', 99, 'retired')}`)
})
after(() => {
  for (const c of running) c.kill('SIGKILL')
  rmSync(root, { recursive: true, force: true })
})

interface Ran {
  readonly child: ChildProcess
  readonly done: Promise<{ code: number | null; out: string; err: string }>
}

function queue(args: readonly string[], env: Record<string, string> = {}): Ran {
  const child = spawn(BUNDLE, args, {
    env: { ...process.env, CDP_PRIORITY: '', NETVM_ROOT: root, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.push(child)
  let out = ''
  let err = ''
  child.stdout?.on('data', (b) => {
    out += b
  })
  child.stderr?.on('data', (b) => {
    err += b
  })
  return { child, done: new Promise((r) => child.on('close', (code) => r({ code, out, err }))) }
}

const run = (node: string, ...cmd: string[]) => queue(['run', node, '--', ...cmd])

interface Depth {
  node: string
  slots: { held: boolean; holder?: { pid: number; doing: string; forMs: number } }[]
  waiting: { pid: number; priority: string }[]
}

async function depth(node: string): Promise<Depth> {
  const { out } = await queue(['depth', node, '--json']).done
  return JSON.parse(out)[0]
}

const held = async (node: string) => (await depth(node)).slots.filter((s) => s.held).length

async function fill(node: string): Promise<Ran[]> {
  const holders = [run(node, 'sleep', '600'), run(node, 'sleep', '600')]
  await until('both slots in use', async () => (await held(node)) === 2)
  return holders
}

describe('cdp-queue', () => {
  it('exits with the status of the command, as a shell reports it', async () => {
    const cases: [string[], number][] = [
      [['true'], 0],
      [['sh', '-c', 'exit 7'], 7],
      [['sh', '-c', 'kill -KILL $$'], 137],
      [['/nonexistent/program'], 127],
      [['/dev/null'], 126],
    ]
    for (const [cmd, code] of cases)
      assert.equal((await run('status', ...cmd).done).code, code, cmd.join(' '))
  })

  it('gives the command our stdout, its arguments untouched, and none of the queue’s descriptors', async () => {
    const r = await run('fds', 'sh', '-c', 'echo "$1"; ls -l /proc/self/fd', 'sh', '--json; $(id)').done
    assert.match(r.out, /^--json; \$\(id\)\n/)
    assert.doesNotMatch(r.out, /slot-|cdp-queue\/fds/)
  })

  it('a daemon that the command leaves behind does not keep the slot', async () => {
    const r = await run('daemon', 'sh', '-c', 'sleep 600 > /dev/null 2>&1 & echo $!').done
    assert.equal(await held('daemon'), 0)
    process.kill(Number(r.out))
  })

  it('exits 75 when no slot comes free, with who holds them, since when, and what to run next', async () => {
    const holders = await fill('busy')
    const r = await queue(['run', 'busy', '--timeout', '0.2', '--', 'echo', 'ran']).done
    assert.equal(r.code, 75)
    assert.equal(r.out, '')
    const who = String.raw`slot \d held by sleep 600 \(pid \d+, \w+\) for \S+`
    assert.match(
      r.err,
      new RegExp(
        `^cdp-queue: no CDP slot of busy within 0.2s: ${who}; ${who}; next: cdp-queue depth busy\n$`,
      ),
    )
    for (const h of holders) h.child.kill('SIGTERM')
    assert.equal((await (holders[0] as Ran).done).code, 143)
  })

  it('a holder that is killed gives way to the next, and its command ends with it', async () => {
    const [first, second] = (await fill('killed')) as [Ran, Ran]
    const next = run('killed', 'echo', 'next')
    await until('one in line', async () => (await depth('killed')).waiting.length === 1)
    first.child.kill('SIGKILL')
    const r = await next.done
    assert.deepEqual([r.code, r.out], [0, 'next\n'])
    // Its stdout closes when the last writer, the command, is gone too.
    assert.equal((await first.done).code, null)
    second.child.kill('SIGTERM')
    await second.done
  })

  it('serves by CDP_PRIORITY of the environment, and --priority wins over it', async () => {
    const holders = await fill('prio')
    const args = (name: string, ...more: string[]) => ['run', 'prio', ...more, '--', 'echo', name]
    const order: string[] = []
    const jobs: Promise<unknown>[] = []
    for (const [name, env, more] of [
      ['low', 'low', []],
      ['normal', '', []],
      ['high', 'low', ['--priority', 'high']],
    ] as const) {
      const job = queue(args(name, ...more), { CDP_PRIORITY: env })
      job.child.stdout?.on('data', () => order.push(name))
      jobs.push(job.done)
      await until(`${name} in line`, async () => (await depth('prio')).waiting.length === jobs.length)
    }
    assert.deepEqual(
      (await depth('prio')).waiting.map((w) => w.priority),
      ['high', 'normal', 'low'],
    )
    holders[0]?.child.kill('SIGTERM')
    await Promise.all(jobs)
    holders[1]?.child.kill('SIGTERM')
    assert.deepEqual(order, ['high', 'normal', 'low'])
  })

  it('depth tells people who is in and who waits', async () => {
    const holders = await fill('tell')
    const r = await queue(['depth', 'tell']).done
    assert.match(
      r.out,
      /^tell: 2 of 2 slots in use, 0 waiting\n {2}slot-0 {2}sleep 600 \(pid \d+, \w+\) for /,
    )
    assert.match((await queue(['depth']).done).out, /^tell: 2 of 2/m)
    for (const h of holders) h.child.kill('SIGTERM')
  })

  it('knows the nodes of the registry, and makes a queue for no other name', async () => {
    const dir = (node: string) => join(root, 'run/netvm/cdp-queue', node)
    for (const [node, says] of [
      ['pipp', /no node "pipp" in .*\(it has .*\bpip\b.*\); did you mean pip\?; next: box fleet status/],
      ['old', /node old is retired \(.*NODES\.md line \d+\): it has no browser; next: netvm-node-up old/],
    ] as const) {
      const r = await run(node, 'echo', 'ran').done
      assert.deepEqual([r.code, r.out], [64, ''])
      assert.match(r.err, says)
      assert.equal(existsSync(dir(node)), false)
    }
    // A look at a queue makes none.
    assert.match((await queue(['depth', 'pip']).done).out, /^pip: 0 of 2 slots in use, 0 waiting\n$/)
    assert.match((await queue(['depth', 'old']).done).out, /^old: 0 of 2/)
    assert.ok(!existsSync(dir('pip')) && !existsSync(dir('old')))
  })

  it('goes on serving a queue that is there while the registry or the row cannot be read', async () => {
    const good = readFileSync(join(root, 'etc/netvm/NODES.md'), 'utf8')
    assert.equal((await run('muse', 'true').done).code, 0)
    const bent = `${HEAD}${row('muse', 10).replace(' 9410 ', ' 99 ')}`
    for (const text of ['in the middle of an edit', bent, bent.replace('| muse ', '| MUSE ')]) {
      registry(text)
      assert.equal((await run('muse', 'true').done).code, 0, text)
      const other = await run('other', 'true').done
      assert.equal(other.code, text.startsWith('in') ? 78 : 64, other.err)
    }
    registry(good)
  })

  it('refuses a command line it cannot carry out (64), and explains itself', async () => {
    for (const args of [
      [],
      ['walk'],
      ['run'],
      ['run', 'muse'],
      ['run', 'muse', '--'],
      ['run', 'muse', 'echo', '--', 'x'],
      ['run', '../x', '--', 'true'],
      ['run', 'muse', '--priority', 'urgent', '--', 'true'],
      ['run', 'muse', '--timeout', '1e3', '--', 'true'],
      ['run', 'muse', '--timeout', '-1', '--', 'true'],
      ['run', 'muse', '--nice', '--', 'true'],
      ['depth', 'muse', '--timeout', '3'],
    ]) {
      const r = await queue(args).done
      assert.equal(r.code, 64, args.join(' '))
      assert.match(r.err, /^cdp-queue: .+\n$/)
      assert.equal(r.out, '')
    }
    assert.equal((await queue(['run', 'muse', '--', 'true'], { CDP_PRIORITY: 'urgent' }).done).code, 64)
    assert.match(
      (await queue(['--help']).done).out,
      /^Usage: cdp-queue .*\n[\s\S]*^ {2}run .*<node>.*\n[\s\S]*^ {2}depth /m,
    )
  })
})
