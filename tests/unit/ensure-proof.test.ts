import assert from 'node:assert/strict'
import test from 'node:test'
import type { Look, Supervisor, VerdictState } from '../../lib/base/types.ts'
import { type ProofFacts, prove } from '../../lib/ensure/proof.ts'
import type { JournalFacts, JournalRun } from '../../lib/evidence/types.ts'

const NOW = 10_000_000
const run = (supervisor: Supervisor, agoMs: number, more: Partial<JournalRun> = {}): JournalRun => ({
  supervisor,
  endBootMs: NOW - agoMs,
  outcome: 'success',
  ...more,
})
const left = (agoMs: number, state: VerdictState, reason = '') => ({
  at: { bootMs: NOW - agoMs, wallMs: 0, bootId: 'b' },
  verdict: { state, code: state, reason, evidence: [] },
})
const healthy = (agoMs: number) => left(agoMs, 'healthy')
const all: Supervisor[] = ['chromebox-watchdog', 'cdp-relay-watchdog', 'agent-health']

function facts(
  change: Partial<Omit<ProofFacts, 'journal'>> & { journal?: Look<JournalFacts> } = {},
): ProofFacts {
  const { journal, ...rest } = change
  return {
    nowMs: NOW,
    nodes: ['muse'],
    receipt: () => healthy(30_000),
    periodMs: (s) => (s === 'chromebox-watchdog' ? 120_000 : 300_000),
    hook: () => 'netvm-node-up',
    journal: () => journal ?? { seen: true, value: { runs: all.map((s) => run(s, 30_000)) } },
    ...rest,
  }
}
const watchdog = (f: ProofFacts) => prove(f)[0]

test('all proven: four points, all met, with the silence said', () => {
  const points = prove(facts())
  assert.equal(points.length, 4)
  assert.ok(
    points.every((p) => p.ok),
    JSON.stringify(points),
  )
  assert.match(points[0]?.text ?? '', /^chromebox-watchdog: last run 30s ago, healthy, silent$/)
})

test('silence is counted from the last fault that a run told', () => {
  const runs = [
    run('chromebox-watchdog', 400_000, { outcome: 'failure', failure: { text: 'egress down' } }),
    run('chromebox-watchdog', 30_000),
  ]
  const point = watchdog(facts({ journal: { seen: true, value: { runs } } }))
  assert.equal(point?.ok, true)
  assert.match(point?.text ?? '', /silent since a fault 6m 40s ago/)
})

const unmet: [string, ProofFacts, RegExp][] = [
  [
    'a journal that cannot be read',
    facts({ journal: { seen: false, why: 'no journal files were found' } }),
    /journal cannot be read: no journal files were found/,
  ],
  [
    'a journal that dropped lines',
    facts({ journal: { seen: true, value: { runs: [], incomplete: 'Suppressed 40 messages' } } }),
    /incomplete: Suppressed 40 messages/,
  ],
  [
    'no run and no receipt',
    facts({ journal: { seen: true, value: { runs: [] } }, receipt: () => undefined }),
    /no run in this boot/,
  ],
  [
    'a run that is too old',
    facts({
      journal: { seen: true, value: { runs: [run('chromebox-watchdog', 256_000)] } },
      receipt: () => healthy(256_000),
    }),
    /last run 4m 16s ago, due every 2m/,
  ],
  [
    'a failed run',
    facts({
      journal: {
        seen: true,
        value: {
          runs: [
            run('chromebox-watchdog', 9000, {
              outcome: 'failure',
              failure: { text: 'netns warp-muse missing' },
            }),
          ],
        },
      },
    }),
    /last run failed 9s ago: netns warp-muse missing/,
  ],
  [
    'a run that ended well but whose verdict was unknown',
    facts({ receipt: () => left(1000, 'unknown', 'curl is missing') }),
    /last run said unknown: curl is missing/,
  ],
  [
    'a run without a receipt of this node',
    facts({ receipt: () => undefined }),
    /left no receipt of this node/,
  ],
]
for (const [name, f, text] of unmet) {
  test(`not met: ${name}`, () => {
    const point = watchdog(f)
    assert.equal(point?.ok, false)
    assert.match(point?.text ?? '', text)
    assert.ok(point?.next, 'a command to run')
  })
}

test('a run just within two periods and slack is fresh', () => {
  const f = facts({
    journal: { seen: true, value: { runs: [run('chromebox-watchdog', 254_000)] } },
    receipt: () => healthy(254_000),
  })
  assert.equal(watchdog(f)?.ok, true)
})

test('systemd that logs no runs: the receipt proves it, and the line says so', () => {
  const point = watchdog(facts({ journal: { seen: true, value: { runs: [] } } }))
  assert.equal(point?.ok, true)
  assert.match(point?.text ?? '', /receipt; systemd logs no runs/)
})

test('systemd that logs failed runs only: a younger receipt is of a later run', () => {
  const runs = [
    run('chromebox-watchdog', 9000, { outcome: 'failure', failure: { text: 'CDP unreachable on :9410' } }),
  ]
  const journal = { seen: true as const, value: { runs } }
  const point = watchdog(facts({ journal, receipt: () => healthy(2000) }))
  assert.equal(point?.ok, true)
  assert.match(point?.text ?? '', /last run 2s ago, healthy \(receipt.*silent since a fault 9s ago/)
  assert.equal(watchdog(facts({ journal, receipt: () => healthy(9500) }))?.ok, false)
})

test('a loop that failed for another row is proven for this one, by its receipt of that run', () => {
  const loop = run('cdp-relay-watchdog', 9000, { outcome: 'failure' })
  const runs = [run('chromebox-watchdog', 30_000), loop, run('agent-health', 30_000)]
  const relay = (agoMs: number, more: Partial<JournalRun> = {}) => {
    const all = runs.map((r) => (r === loop ? { ...r, ...more } : r))
    return prove(facts({ journal: { seen: true, value: { runs: all } }, receipt: () => healthy(agoMs) }))[1]
  }
  assert.match(relay(9500)?.text ?? '', /^cdp-relay-watchdog: last run 9s ago, healthy, silent$/)
  assert.match(relay(9000 + 281_000)?.text ?? '', /last run failed 9s ago/)
  assert.match(
    relay(9500, { failure: { text: 'relay-fault: x' } })?.text ?? '',
    /last run failed 9s ago: relay-fault: x/,
  )
})

test('a failure that names its own next command has no second one', () => {
  const runs = [
    run('chromebox-watchdog', 9000, {
      outcome: 'failure',
      failure: { text: 'no browser', next: 'see --why' },
    }),
  ]
  const point = watchdog(facts({ journal: { seen: true, value: { runs } } }))
  assert.deepEqual(
    [point?.text, point?.next],
    ['chromebox-watchdog: last run failed 9s ago: no browser', 'see --why'],
  )
})

test('a loop that left out one row is not met for that row only', () => {
  const f = facts({
    nodes: ['muse', 'pip'],
    receipt: (s, node) => (s === 'agent-health' && node === 'pip' ? undefined : healthy(30_000)),
  })
  const bad = prove(f).filter((p) => !p.ok)
  assert.deepEqual(
    bad.map((p) => `${p.scope} ${p.text.split(':')[0]}`),
    ['pip agent-health'],
  )
})

test('a node whose supervision nobody made', () => {
  const bad = prove(facts({ hook: () => undefined })).filter((p) => !p.ok)
  assert.equal(bad.length, 1)
  assert.equal(bad[0]?.next, 'ensure-node-supervision muse')
})
