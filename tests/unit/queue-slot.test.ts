import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Paths, paths } from '../../lib/base/paths.ts'
import { readArgv, readStat } from '../../lib/host/proc.ts'
import { queueDepth, queueNodes } from '../../lib/queue/depth.ts'
import {
  acquireSlot,
  defaultPriority,
  QueueTimeout,
  type SlotOptions,
  withCdpSlot,
} from '../../lib/queue/slot.ts'
import { ticketName } from '../../lib/queue/ticket.ts'
import { patience } from '../kit/unit.ts'
import { until } from '../kit/until.ts'

let root: string
let p: Paths
const children: ChildProcess[] = []

before(() => {
  root = mkdtempSync(join(tmpdir(), 'queue-'))
  p = paths(root)
})
after(() => {
  for (const c of children) c.kill('SIGKILL')
  rmSync(root, { recursive: true, force: true })
})

const take = (node: string, opts: SlotOptions = {}) =>
  acquireSlot(node, { p, timeoutMs: patience(10_000), ...opts })

const waiting = (node: string) => queueDepth(p, node).waiting.length

/**
 * A client of another language: bash holding a slot until its stdin closes. It takes one of Node's pipes for a
 * remote shell's and would read ~/.bashrc.
 */
async function bashHolder(node: string, slot: number): Promise<ChildProcess> {
  mkdirSync(`${p.queue}/${node}`, { recursive: true })
  const script = `exec 9>"$1"; flock 9; echo in; read -r _`
  const c = spawn('bash', ['--norc', '-c', script, 'bash', `${p.queue}/${node}/slot-${slot}.lock`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.push(c)
  await new Promise((r) => c.stdout?.once('data', r))
  return c
}

/** Helpers of this process that wait for a slot; the head of a line has one per slot. */
function reaching(): number {
  const pids = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ')
  return pids.filter((pid) => readArgv('/proc', Number(pid)).includes('--exclusive')).length
}

describe('queue slots', () => {
  it('two are free, a third waits until one is given back', async () => {
    const [a, b] = [await take('two'), await take('two')]
    assert.notEqual(a.slot, b.slot)
    let third = false
    const c = take('two').then((s) => {
      third = true
      return s
    })
    await until('a waiter with a ticket', () => waiting('two') === 1)
    assert.equal(third, false)
    b.release()
    const got = await c
    assert.equal(got.slot, b.slot)
    for (const s of [a, got]) s.release()
    assert.deepEqual(readdirSync(`${p.queue}/two`).sort(), ['slot-0.lock', 'slot-1.lock'])
  })

  it('serves by priority, then arrival', async () => {
    const held = [await take('order'), await take('order')]
    const served: string[] = []
    const jobs: Promise<void>[] = []
    for (const [name, priority] of [
      ['low', 'low'],
      ['normal-1', 'normal'],
      ['normal-2', 'normal'],
      ['high-1', 'high'],
      ['high-2', 'high'],
    ] as const) {
      const n = waiting('order')
      jobs.push(
        withCdpSlot('order', { p, priority, timeoutMs: patience(10_000) }, async () => {
          served.push(name)
          await new Promise((r) => setTimeout(r, 30))
        }),
      )
      await until(`${name} in line`, () => waiting('order') === n + 1)
    }
    await until('nobody but the head reaches for a slot', () => reaching() === 2)
    held[0]?.release()
    await Promise.all(jobs)
    held[1]?.release()
    assert.deepEqual(served, ['high-1', 'high-2', 'normal-1', 'normal-2', 'low'])
  })

  /** Somebody else's place in the line: a ticket that a shell holds. */
  async function bashWaiter(node: string): Promise<ChildProcess> {
    mkdirSync(`${p.queue}/${node}`, { recursive: true })
    const script = 'f="$1/$(printf "$2" $$)"; exec 9>"$f"; flock 9; echo in; read -r _'
    const us = Number(process.hrtime.bigint() / 1000n)
    const name = ticketName('high', us, 1, 'x').replace('-1-x', '-%d-x')
    const c = spawn('bash', ['--norc', '-c', script, 'bash', `${p.queue}/${node}`, name], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.push(c)
    await new Promise((r) => c.stdout?.once('data', r))
    return c
  }

  it('a free slot is not for whoever comes while others wait', async () => {
    const other = await bashWaiter('barge')
    await assert.rejects(take('barge', { timeoutMs: 100 }), QueueTimeout)
    const mine = take('barge')
    other.kill('SIGKILL')
    ;(await mine).release()
  })

  it('a stopped waiter does not hold up the rest', async () => {
    const other = await bashWaiter('stopped')
    other.kill('SIGSTOP')
    await until('stopped', () => readStat('/proc', other.pid ?? 0)?.state === 'T')
    const mine = await take('stopped')
    mine.release()
    other.kill('SIGKILL')
  })

  it('times out with who holds the slots and for how long, and leaves no ticket', async () => {
    const held = [
      await take('full', { doing: 'backup of muse' }),
      await take('full', { doing: 'screenshot', priority: 'low' }),
    ]
    await assert.rejects(take('full', { timeoutMs: 150 }), (err: unknown) => {
      assert.ok(err instanceof QueueTimeout)
      assert.equal(err.exitCode, 75)
      assert.match(
        err.message,
        /^no CDP slot of full within 0\.2s: slot 0 held by backup of muse \(pid \d+, /,
      )
      assert.match(err.message, /\) for \d.*; slot 1 held by screenshot \(pid /)
      return true
    })
    assert.equal(waiting('full'), 0)
    for (const s of held) s.release()
  })

  it('timeout 0 takes a free slot or fails at once', async () => {
    const a = await take('zero', { timeoutMs: 0 })
    const b = await take('zero', { timeoutMs: 0 })
    await assert.rejects(take('zero', { timeoutMs: 0 }), QueueTimeout)
    a.release()
    b.release()
  })

  it('gives the slot back when the work throws', async () => {
    await assert.rejects(
      withCdpSlot('throws', { p }, () => Promise.reject(new Error('work failed'))),
      /work failed/,
    )
    assert.ok(queueDepth(p, 'throws').slots.every((s) => !s.held))
  })

  it('a dead waiter is passed at once, and its ticket goes', async () => {
    const held = [await take('dead'), await take('dead')]
    const code = `import { acquireSlot } from '${import.meta.dirname}/../../lib/queue/slot.ts'
      await acquireSlot('dead', { priority: 'high' })`
    const c = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
      env: { ...process.env, NETVM_ROOT: root },
      stdio: 'inherit',
    })
    children.push(c)
    await until('the other in line', () => waiting('dead') === 1)
    const mine = take('dead')
    await until('both in line', () => waiting('dead') === 2)
    c.kill('SIGKILL')
    await until('the dead one not counted', () => waiting('dead') === 1)
    held[0]?.release()
    const got = await mine
    assert.equal(readdirSync(`${p.queue}/dead`).filter((n) => n.startsWith('ticket-')).length, 0)
    got.release()
    held[1]?.release()
  })

  it('shares the slots with a shell client, and names it', async () => {
    const [a, b] = [await bashHolder('shell', 0), await bashHolder('shell', 1)]
    const depth = queueDepth(p, 'shell')
    assert.deepEqual(
      depth.slots.map((s) => [s.held, s.holder?.pid]),
      [
        [true, a.pid],
        [true, b.pid],
      ],
    )
    await assert.rejects(take('shell', { timeoutMs: 50 }), /slot 0 held by bash .*left no record/)
    const mine = take('shell')
    await until('in line', () => waiting('shell') === 1)
    a.kill('SIGKILL')
    const got = await mine
    assert.equal(got.slot, 'slot-0.lock')
    got.release()
    b.kill('SIGKILL')
  })

  it('warns once of a long wait', async (ctx) => {
    const held = [await take('slow', { doing: 'long work' }), await take('slow')]
    ctx.mock.timers.enable({ apis: ['setTimeout'] })
    const said: string[] = []
    const mine = take('slow', { onSlow: (m) => said.push(m) })
    ctx.mock.timers.tick(9_999)
    assert.deepEqual(said, [])
    ctx.mock.timers.tick(1)
    ctx.mock.timers.reset()
    assert.equal(said.length, 1)
    assert.match(said[0] ?? '', /^waiting 10s for slot 0 held by long work \(pid /)
    held[0]?.release()
    const got = await mine
    got.release()
    held[1]?.release()
  })

  it('makes directory and files for the group, whatever the umask', async () => {
    const before = process.umask(0o077)
    const s = await take('modes')
    process.umask(before)
    assert.equal(statSync(`${p.queue}/modes`).mode & 0o777, 0o770)
    assert.equal(statSync(`${p.queue}/modes/slot-0.lock`).mode & 0o777, 0o660)
    s.release()
  })

  it('follows no link that a group member planted, in place of a slot or of the directory', async () => {
    mkdirSync(`${p.queue}/planted`, { recursive: true })
    const victim = join(root, 'victim')
    writeFileSync(victim, 'keep me')
    chmodSync(victim, 0o600)
    symlinkSync(victim, `${p.queue}/planted/slot-0.lock`)
    await assert.rejects(take('planted'), /slot-0\.lock: .*ELOOP/)
    assert.equal(statSync(victim).mode & 0o777, 0o600)
    symlinkSync(root, `${p.queue}/elsewhere`)
    await assert.rejects(take('elsewhere'), /elsewhere.* \(E(LOOP|NOTDIR)\)/)
    rmSync(`${p.queue}/elsewhere`)
  })

  it('refuses a name that is no node name, and lists only those', async () => {
    await assert.rejects(take('../etc'), /node name/i)
    mkdirSync(`${p.queue}/Not A Node`, { recursive: true })
    assert.ok(queueNodes(p).includes('two') && !queueNodes(p).includes('Not A Node'))
    assert.deepEqual(queueNodes(paths(join(root, 'nowhere'))), [])
  })

  it('takes its default priority from CDP_PRIORITY, when that is one', () => {
    assert.equal(defaultPriority({ CDP_PRIORITY: 'low' }), 'low')
    assert.equal(defaultPriority({ CDP_PRIORITY: 'urgent' }), 'normal')
    assert.equal(defaultPriority({}), 'normal')
  })
})
