import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { now } from '../../lib/base/clock.ts'
import { LockedError } from '../../lib/base/errors.ts'
import { intentPath, type Paths } from '../../lib/base/paths.ts'
import type { Verdict } from '../../lib/base/types.ts'
import { text } from '../../lib/report/codes.ts'
import { HEALTHY } from '../../lib/report/verdict.ts'
import { tryLock, withLock } from '../../lib/store/lock.ts'
import { tickFleet } from '../../lib/supervisors/fleet.ts'
import { exitOf, tick } from '../../lib/supervisors/tick.ts'
import type { Observed, Outcome } from '../../lib/supervisors/types.ts'
import { row } from '../kit/row.ts'
import { decide, full, host, LINE, type Of, write } from '../kit/tick-host.ts'

test('a healthy node: one look, nothing said, no lock and no state, a receipt', async (t) => {
  const h = host(t, ['well'])
  const { decision, receipt } = await h.run()
  assert.deepEqual(h.did, ['observe'])
  assert.equal(decision.verdict.state, 'healthy')
  assert.equal(h.stored(), undefined)
  assert.ok(!existsSync(h.p.locks))
  assert.deepEqual(h.receipt(), receipt)
  assert.deepEqual(receipt.extra, { tries: 0, see: 'well' })
  assert.equal(receipt.nextDueBootMs, receipt.at.bootMs + 1000)
})

test('an action: asked before the lock, looked at again under it, recorded, then said', async (t) => {
  const h = host(t, ['ill', 'ill'])
  const { found, decision } = await h.run()
  assert.deepEqual(h.did, [
    'observe',
    'ask',
    'look again',
    'INFO [muse] mending; ',
    'act recorded',
    'FAIL [muse] ill; look at it',
  ])
  assert.deepEqual([found.verdict.state, decision.verdict.state], ['unhealthy', 'healthy'])
  assert.equal(h.stored(), 2)
  assert.deepEqual(h.receipt().extra, { tries: 2, pid: 7 })
  assert.deepEqual(
    h.receipt().actions.map((a) => a.kind),
    ['mend'],
  )
})

test('under the lock the fault is gone: nothing is done', async (t) => {
  const h = host(t, ['ill', 'well'])
  assert.equal(exitOf([await h.run()]), 0)
  assert.deepEqual(h.did, ['observe', 'ask', 'look again'])
})

test('lines before pages, with the command of the first line; what changed is kept', async (t) => {
  const h = host(t, ['below'])
  assert.equal(exitOf([await h.run()]), 1)
  const page = 'PAGE [muse] relay-fault: ill; look at it (page)'
  assert.deepEqual(h.did, ['observe', 'FAIL [muse] ill; look at it', page])
  assert.equal(h.stored(), 9)
})

test('a page that is open already is silent, and news is said all the same', async (t) => {
  const h = host(t, ['below', 'below', 'below'])
  const pages = () => h.did.filter((d) => d.startsWith('PAGE')).length
  await h.run()
  await h.run()
  assert.equal(pages(), 1)
  const news: Of['decide'] = (o, m) => {
    const d = decide(o, m)
    return { ...d, pages: d.pages.map((e) => ({ ...e, news: 'held' })) }
  }
  await tick({ ...h.s, decide: news }, h.t, h.node)
  assert.equal(h.did.at(-1), 'PAGE [muse] relay-fault: ill; look at it (held)')
})

test('a dry run decides, and writes and says nothing, a corrupt file aside', async (t) => {
  const h = host(t, ['ill'], {}, { dryRun: true })
  write(h.path, '{"version":1}')
  const { decision } = await h.run()
  assert.deepEqual([decision.actions, decision.confirm], [['mend'], 'at-once'])
  assert.deepEqual(h.did, ['observe'])
  assert.ok(!existsSync(h.p.receipts))
})

test('a pause is the same thing in every receipt, and no failure of the run', async (t) => {
  const h = host(t, ['ill'])
  const since = now(h.p)
  const until = { untilBootMs: since.bootMs + 60_000, untilWallMs: since.wallMs + 60_000 }
  const intent = { version: 1, node: 'muse', kind: 'pause', reason: 'update', by: 'ann', since, ...until }
  write(intentPath(h.p, 'muse'), JSON.stringify(intent))
  const outcome = await h.run()
  assert.deepEqual(h.did, ['observe'])
  const guard = text('paused', { by: 'ann', reason: 'update' })
  assert.deepEqual(h.receipt().extra, { tries: 0, see: 'ill', paused: true, guard, guardCode: 'paused' })
  assert.equal(exitOf([outcome]), 0)
})

test('a corrupt memory is reported once, and the cautious one stands for it', async (t) => {
  const h = host(t, ['well', 'well'])
  write(h.path, 'torn')
  await h.run()
  assert.match(
    h.did[1] ?? '',
    /^WARN \[muse\] state file was corrupt \(.*\), kept as .*; careful; forget muse$/,
  )
  assert.equal(h.receipt().extra.tries, 5)
  await h.run()
  assert.equal(h.did.filter((d) => d.startsWith('WARN')).length, 1)
})

test('a memory with nothing in it leaves no file', async (t) => {
  const forget: Of['decide'] = (o) => ({ ...decide(o, { tries: 0 }), memory: { tries: 0 } })
  const h = host(t, ['well'], { decide: forget })
  write(h.path, '{"version":1,"tries":3}')
  await h.run()
  assert.ok(!existsSync(h.path))
})

test('a memory that cannot be written: said once; where it is vital, nothing is done', async (t) => {
  const h = host(t, ['ill', 'ill', 'below'])
  full(h.p, h.path)
  await h.run()
  const problems = (did: string[]) => did.filter((d) => d.startsWith('WARN') && d.includes(h.path))
  assert.ok(h.did.includes('act not recorded'))
  assert.deepEqual(problems(h.did), [], 'what an attempt without a record means is for the action to say')
  h.did.length = 0
  await h.run()
  assert.equal(problems(h.did).length, 1)
  const vital = host(t, ['ill', 'ill'], { memory: { ...h.s.memory, vital: true } })
  full(vital.p, vital.path)
  const [outcome] = await tickFleet(vital.s, { t: vital.t, nodes: [vital.node], registry: vital.t.registry })
  assert.equal(outcome?.decision.verdict.code, 'run-failed')
  assert.ok(!vital.did.some((d) => d.startsWith('act')))
})

test('a lower layer was touched: the run goes on with what is seen then', async (t) => {
  const mended: Of['act'] = async () => ({
    look: { see: 'below' },
    actions: [{ kind: 'lower', startedWallMs: 1, durationMs: 1, helped: true, detail: '' }],
  })
  const h = host(t, ['ill', 'ill'], { act: mended })
  const { decision, actions } = await h.run()
  assert.deepEqual([decision.memory.tries, actions.length], [9, 1])
  assert.equal(h.did.at(-2), 'FAIL [muse] ill; look at it')
})

test('what needs no lock is done without it', async (t) => {
  const free = async (p: Paths) => {
    const held = await tryLock(p, 'node-muse', 'x')
    held?.release()
    return held !== undefined
  }
  const seen: boolean[] = []
  const act: Of['act'] = async (tk, _node, { decision }) => {
    seen.push(await free(tk.p))
    return {
      unlocked: async () => {
        seen.push(await free(tk.p))
        return { decision: { ...decision, verdict: HEALTHY }, actions: [] }
      },
    }
  }
  const h = host(t, ['ill', 'ill'], { act })
  assert.equal((await h.run()).decision.verdict.state, 'healthy')
  assert.deepEqual(seen, [false, true])
})

test('the lock is with another: the run fails, or it is a verdict of its own', async (t) => {
  const h = host(t, ['ill', 'ill', 'ill', 'well'])
  const fleet = { t: h.t, nodes: [h.node, row({ name: 'pip' })], registry: h.t.registry }
  await withLock(h.p, 'node-muse', 'holding it', { waitMs: 0 }, async () => {
    await assert.rejects(h.run(), LockedError)
    const locked: Of['locked'] = (asked, err) => ({ ...asked, lines: [{ ...LINE, text: err.message }] })
    const told = await tick({ ...h.s, locked }, h.t, h.node)
    assert.equal(told.decision.verdict.state, 'unhealthy')
    assert.match(h.did.find((d) => d.startsWith('FAIL')) ?? '', /holding it/)
    h.did.length = 0
    const both = await tickFleet(h.s, fleet)
    assert.deepEqual(
      both.map((o) => o.decision.verdict.code),
      ['locked', 'ok'],
    )
    assert.equal(exitOf(both), 75)
    assert.ok(!h.did.some((d) => d.startsWith('WARN')), 'who holds it reports what it finds')
  })
})

test('one look for all nodes, where the supervisor takes one; a failure stays with its node', async (t) => {
  const h = host(t, [])
  const nodes = [row({ name: 'a' }), row({ name: 'b' }), row({ name: 'c' })]
  const observeAll = async () => [{ see: 'well' }, { see: 'below' }, { see: 'well' }] as const
  const broken: Of['decide'] = (o, m) => {
    if (o.see === 'below') throw new Error('boom')
    return decide(o, m)
  }
  const all = await tickFleet(
    { ...h.s, observeAll, decide: broken },
    { t: h.t, nodes, registry: h.t.registry },
  )
  assert.deepEqual(
    all.map((o) => o.decision.verdict.code),
    ['ok', 'run-failed', 'ok'],
  )
  assert.match(h.did.join(), /^WARN \[b\] unknown: internal error: Error: boom .*; ask b$/)
})

const of = (verdict: Pick<Verdict, 'state'> & Partial<Verdict>, paused = false) =>
  ({
    decision: { verdict: { code: 'x', ...verdict } },
    observation: paused ? { paused: { by: 'a', reason: 'b' } } : {},
  }) as unknown as Outcome<Observed, unknown, unknown>
const [well, ill, dark] = [of({ state: 'healthy' }), of({ state: 'unhealthy' }), of({ state: 'unknown' })]
const locked = of({ state: 'unknown', code: 'locked' })
const exits: [string, ReturnType<typeof of>[], number][] = [
  ['no node at all', [], 0],
  ['all healthy', [well, well], 0],
  ['unhealthy weighs most', [locked, dark, ill, well], 1],
  ['unknown more than locked', [locked, dark, well], 2],
  ['locked more than healthy', [locked, well], 75],
  ['a paused node does not count', [well, of({ state: 'unhealthy' }, true)], 0],
]
for (const [name, outcomes, code] of exits) test(`exit: ${name}`, () => assert.equal(exitOf(outcomes), code))
