import fc from 'fast-check'
import { LAYERS, type Look, type Receipt, type Supervisor } from '../../lib/base/types.ts'
import type { Message } from '../../lib/evidence/message.ts'
import type {
  CdpAnswer,
  JournalRun,
  LiveFacts,
  LogLine,
  NodeFacts,
  ServiceFact,
  TimerFact,
  TunnelFact,
  UnitFacts,
} from '../../lib/evidence/types.ts'
import { ASKED, BROWSER, MAIN, NOW, not, PAGE, receipt, SUPERVISORS, saw } from './truth-model.ts'

const look = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<Look<T>> =>
  fc.oneof({ weight: 4, arbitrary: value.map(saw) }, { weight: 1, arbitrary: fc.constant(not('hidden')) })

/** From twenty minutes ago to a little in the future. */
const age = fc.integer({ min: -60_000, max: 20 * 60_000 })
const supervisor = fc.constantFrom<Supervisor>(...SUPERVISORS)

const anyReceipt = (s: Supervisor): fc.Arbitrary<Receipt | undefined> =>
  fc.option(
    fc
      .record({
        ageMs: age,
        bootId: fc.constantFrom('boot-now', 'boot-now', 'boot-before'),
        node: fc.constantFrom('muse', 'muse', 'pip'),
        state: fc.constantFrom('healthy', 'healthy', 'unhealthy', 'unknown'),
        layer: fc.option(fc.constantFrom(...LAYERS), { nil: undefined }),
        // What a run really writes now and then, so that all layers are seen well at all.
        marks: fc.oneof(
          fc.constant(receipt(s).layers),
          fc.array(
            fc.record({
              layer: fc.constantFrom(...LAYERS),
              state: fc.constantFrom(
                'ok',
                'ok',
                'fail',
                'unknown',
                'not-checked',
                'not-configured',
                'paused',
              ),
            }),
            { maxLength: 8 },
          ),
        ),
        due: fc.integer({ min: -1e6, max: 1e9 }),
      })
      .map(
        ({ ageMs, bootId, node, state, layer, marks, due }) =>
          ({
            ...receipt(s),
            node,
            at: { wallMs: NOW.wallMs - ageMs, bootMs: NOW.bootMs - ageMs, bootId },
            verdict: { state, code: 'x', reason: 'r', evidence: [], ...(layer ? { layer } : {}) },
            layers: marks,
            nextDueBootMs: NOW.bootMs + due,
          }) as Receipt,
      ),
    { nil: undefined },
  )

const service: fc.Arbitrary<ServiceFact> = fc.record({
  active: fc.boolean(),
  changing: fc.boolean(),
  sinceBootMs: fc.integer({ min: 0, max: NOW.bootMs }),
  text: fc.constant('x'),
})
const timer: fc.Arbitrary<TimerFact> = fc.record({
  state: fc.constantFrom('armed', 'armed', 'unarmed', 'missing'),
  why: fc.constant('w'),
  enabled: fc.boolean(),
})
const per = <T>(f: (s: Supervisor) => fc.Arbitrary<T>) =>
  fc.record(Object.fromEntries(SUPERVISORS.map((s) => [s, f(s)]))) as fc.Arbitrary<Record<Supervisor, T>>

const tunnel = (source: TunnelFact['source']): fc.Arbitrary<TunnelFact> =>
  fc.record({
    configured: fc.boolean(),
    sinceBootMs: fc.integer({ min: 0, max: NOW.bootMs }),
    source: fc.constant(source),
  })

const anyUnits: fc.Arbitrary<UnitFacts> = fc.record({
  netns: service,
  browser: service,
  relay: service,
  timers: per(() => timer),
  runs: per(() =>
    fc.record({
      ended: fc.boolean(),
      exitBootMs: age.map((a) => NOW.bootMs - a),
      status: fc.constantFrom(0, 0, 1, 2, 75),
      result: fc.constantFrom('success', 'success', 'exit-code', 'timeout'),
    }),
  ),
})
const units: fc.Arbitrary<UnitFacts> = fc
  .tuple(anyUnits, fc.option(tunnel('unit'), { nil: undefined }), fc.boolean())
  .map(([u, t, down]) => {
    if (t === undefined) return u
    return down && t.configured
      ? { ...u, tunnel: { ...t, down: { text: 'inactive', sinceBootMs: t.sinceBootMs } } }
      : { ...u, tunnel: t }
  })

const texts: fc.Arbitrary<Message> = fc.constantFrom(
  { text: 'no chromium process for profile', code: 'no-process', layer: 'process' },
  { text: 'CDP unreachable on :1', code: 'cdp-unreachable', layer: 'cdp' },
  { text: 'egress down: x', code: 'egress-no-answer', layer: 'egress' },
  { text: 'relaunch OK after 3s', code: 'relaunch-ok', layer: 'process' },
  { text: 'relay restart FAILED', code: 'relay-restart-failed', layer: 'relay' },
  { text: 'nonsense of an earlier release' },
)
const runs: fc.Arbitrary<JournalRun> = fc.record(
  {
    supervisor,
    endBootMs: age.map((a) => NOW.bootMs - a),
    outcome: fc.constantFrom('success', 'failure', 'locked'),
    failure: texts,
  },
  { requiredKeys: ['supervisor', 'endBootMs', 'outcome'] },
)
const lines: fc.Arbitrary<LogLine> = fc
  .record({
    supervisor,
    wallMs: age.map((a) => NOW.wallMs - a),
    level: fc.constantFrom('FAIL', 'FAIL_LOUD', 'PAGE', 'INFO', 'WARN'),
    told: texts,
  })
  .map(({ told, ...line }) => ({ ...line, ...told }))

const anyEvidence = fc.record({
  units: look(units),
  receipts: per((s) => look(anyReceipt(s))),
  journal: look(
    fc.record(
      { runs: fc.array(runs, { maxLength: 4 }), incomplete: fc.constant('x') },
      { requiredKeys: ['runs'] },
    ),
  ),
  logs: look(fc.array(lines, { maxLength: 3 })),
  held: look(fc.boolean()),
  tunnel: fc.oneof(look(tunnel('live')), fc.constant(not('EACCES'))),
})

/** Any evidence whatever: forged, stale, contradictory or missing; now and then what healthy runs leave. */
export const evidence = fc.oneof(
  { weight: 4, arbitrary: anyEvidence },
  {
    weight: 1,
    arbitrary: anyEvidence.map((e) => ({
      ...e,
      receipts: Object.fromEntries(SUPERVISORS.map((s) => [s, saw(receipt(s))])) as Record<
        Supervisor,
        Look<Receipt | undefined>
      >,
    })),
  },
)

export type Evidence = Pick<NodeFacts, 'units' | 'receipts' | 'logs' | 'held' | 'tunnel'> & {
  journal: NonNullable<NodeFacts['journal']>
}

export const withLive = (live: LiveFacts, e: Evidence): NodeFacts => ({
  node: 'muse',
  retired: false,
  now: NOW,
  live,
  memos: [],
  ...e,
})

const browser = BROWSER
const failing = fc.constantFrom<CdpAnswer>(
  { kind: 'refused' },
  { kind: 'closed' },
  { kind: 'timeout', afterMs: 1 },
  { kind: 'unreachable', detail: 'x' },
  { kind: 'not-a-browser', detail: 'x' },
)
const present = MAIN
const there = { name: 'warp-muse', look: saw({ exists: true, isNamespace: true }) }
const base = { asked: ASKED, netns: there, listed: false }
export const blind: LiveFacts = {
  ...base,
  netns: { ...there, look: not('x') },
  process: not('x'),
  gateway: not('x'),
  cdp: not('x'),
  page: not('x'),
}

/** Looks that show the node up: an answer over the relay, whatever else can or cannot be seen. */
export const up: fc.Arbitrary<LiveFacts> = fc
  .tuple(look(fc.constant(present)), look(fc.constant(PAGE)))
  .map(([process, page]) => ({ ...base, listed: true, process, gateway: saw(true), cdp: saw(browser), page }))

/** Looks of which at least one shows the node down. */
export const down: fc.Arbitrary<LiveFacts> = fc.oneof(
  fc.tuple(failing, look(fc.constant(present))).map(([cdp, process]) => ({
    ...base,
    process,
    gateway: saw(true),
    cdp: saw(cdp),
    page: not('x'),
  })),
  look(fc.oneof(failing, fc.constant(browser))).map((cdp) => ({
    ...base,
    process: saw(undefined),
    gateway: saw(true),
    cdp,
    page: not('x'),
  })),
  look(fc.oneof(failing, fc.constant(browser))).map((cdp) => ({
    ...base,
    process: saw(present),
    gateway: saw(false),
    cdp,
    page: not('x'),
  })),
)
