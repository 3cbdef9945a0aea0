import fc from 'fast-check'
import type { Layer, Look, Receipt, Supervisor } from '../../lib/base/types.ts'
import { readAnswer } from '../../lib/evidence/live.ts'
import type {
  JournalRun,
  LiveFacts,
  LogLine,
  NodeFacts,
  ServiceFact,
  TimerFact,
  UnitRun,
} from '../../lib/evidence/types.ts'
import { type Code, entryOf } from '../../lib/report/codes.ts'
import { ASKED, NOW, not, receipt, SUPERVISORS, saw } from './truth-model.ts'
import { SHELLS, type Shell } from './truth-table.ts'
import {
  answersAsBrowser,
  cdpOf,
  mainOf,
  overRelay,
  pageOf,
  type Said,
  says,
  type World,
  worlds,
} from './world.ts'

// A node over time: how it was, when it became what it is, who has looked at it when, and what a shell gets to see.

interface Run {
  readonly supervisor: Supervisor
  readonly ageMs: number
}

export interface History {
  readonly before: World
  readonly after: World
  /** Since when it is as it is. */
  readonly changedMs: number
  readonly runs: readonly Run[]
  readonly paused: boolean
  readonly held: boolean
  readonly armed: boolean
  /** The receipts of a supervisor are of another boot. */
  readonly otherBoot: Supervisor | undefined
  /** PID 1 keeps how runs ended in the journal. */
  readonly journal: boolean
}

const MINUTE = 60_000

const run: fc.Arbitrary<Run> = fc.record({
  supervisor: fc.constantFrom<Supervisor>(...SUPERVISORS),
  // Mostly within their time, which is 6 and 15 minutes.
  ageMs: fc.oneof(fc.integer({ min: 100, max: 5 * MINUTE }), fc.integer({ min: 100, max: 20 * MINUTE })),
})

export const histories: fc.Arbitrary<History> = fc
  .record({
    one: worlds,
    two: fc.option(worlds, { nil: undefined }),
    tunnelWanted: fc.boolean(),
    changedMs: fc.integer({ min: 50, max: 20 * MINUTE }),
    runs: fc.array(run, { maxLength: 8 }),
    // Everybody has looked, as on a host whose timers run.
    regular: fc.option(fc.tuple(...SUPERVISORS.map(() => fc.integer({ min: 100, max: 5 * MINUTE }))), {
      nil: undefined,
    }),
    paused: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    held: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    armed: fc.integer({ min: 0, max: 9 }).map((n) => n !== 0),
    otherBoot: fc.option(fc.constantFrom<Supervisor>(...SUPERVISORS), { nil: undefined, freq: 9 }),
    journal: fc.boolean(),
  })
  .map(({ one, two, tunnelWanted, regular, runs, ...rest }) => {
    const more = (regular ?? []).flatMap((ageMs, i): Run[] => {
      const supervisor = SUPERVISORS[i]
      return supervisor === undefined ? [] : [{ supervisor, ageMs }]
    })
    return {
      ...rest,
      before: { ...one, tunnelWanted },
      after: { ...(two ?? one), tunnelWanted },
      runs: [...runs, ...more].sort((a, b) => b.ageMs - a.ageMs),
    }
  })

/** How the node was then. */
export const worldAt = (h: History, ageMs: number): World => (ageMs > h.changedMs ? h.before : h.after)

const STATUS = { healthy: 0, unhealthy: 1, unknown: 2 } as const
const statusOf = (said: Said, paused: boolean): number => (paused ? 0 : STATUS[said.verdict.state])

function receiptOf(h: History, r: Run): Receipt {
  const { verdict, layers } = says(r.supervisor, worldAt(h, r.ageMs), h.paused)
  const boot = h.otherBoot === r.supervisor ? 'boot-before' : NOW.bootId
  const at = { wallMs: NOW.wallMs - r.ageMs, bootMs: NOW.bootMs - r.ageMs, bootId: boot }
  return { ...receipt(r.supervisor), verdict, layers, at }
}

const each = <T>(f: (s: Supervisor) => T) =>
  Object.fromEntries(SUPERVISORS.map((s) => [s, f(s)])) as Record<Supervisor, T>

function service(active: boolean, sinceAgeMs: number): ServiceFact {
  const since = { sinceBootMs: NOW.bootMs - sinceAgeMs }
  return { active, changing: false, ...since, text: active ? 'active' : 'inactive' }
}

const LONG_AGO = 40 * MINUTE
const runsUnit = (w: World) => mainOf(w) !== undefined

function unitsOf(h: History) {
  const last = each((s) => h.runs.findLast((r) => r.supervisor === s))
  const restarted = runsUnit(h.after) && (!runsUnit(h.before) || h.before.version !== h.after.version)
  const ended = (s: Supervisor): UnitRun => {
    const r = last[s]
    if (r === undefined || h.otherBoot === s)
      return { ended: false, exitBootMs: 0, status: 0, result: 'success' }
    const status = statusOf(says(s, worldAt(h, r.ageMs)), h.paused)
    const result = status === 0 ? 'success' : 'exit-code'
    return { ended: true, exitBootMs: NOW.bootMs - r.ageMs + 20, status, result }
  }
  const timer: TimerFact = h.armed
    ? { state: 'armed', why: '', enabled: true }
    : { state: 'unarmed', why: 'inactive', enabled: false }
  return {
    netns: service(true, LONG_AGO),
    browser: service(runsUnit(h.after), restarted ? h.changedMs : LONG_AGO),
    relay: service(h.after.relay === 'up' || h.after.relay === 'stuck', LONG_AGO),
    tunnel: { configured: h.after.tunnelWanted, sinceBootMs: NOW.bootMs - LONG_AGO, source: 'unit' } as const,
    timers: each(() => timer),
    runs: each(ended),
  }
}

/** The newest line of each supervisor that tells of a fault; a healthy run says nothing. */
function linesOf(h: History): LogLine[] {
  if (h.paused) return []
  return SUPERVISORS.flatMap((supervisor): LogLine[] => {
    const r = h.runs.findLast((x) => x.supervisor === supervisor)
    if (r === undefined) return []
    const { verdict } = says(supervisor, worldAt(h, r.ageMs))
    if (verdict.state !== 'unhealthy') return []
    const layer = entryOf(verdict.code)?.layer as Layer
    const wallMs = NOW.wallMs - r.ageMs - 10
    return [{ supervisor, wallMs, level: 'FAIL', text: verdict.reason, code: verdict.code as Code, layer }]
  })
}

function journalOf(h: History): JournalRun[] {
  return h.runs
    .filter((r) => h.otherBoot !== r.supervisor)
    .map((r) => {
      const { verdict } = says(r.supervisor, worldAt(h, r.ageMs))
      const failed = statusOf({ verdict, layers: [] }, h.paused) !== 0
      const base = { supervisor: r.supervisor, endBootMs: NOW.bootMs - r.ageMs + 20 }
      if (!failed) return { ...base, outcome: 'success' as const }
      if (verdict.state === 'unknown') return { ...base, outcome: 'locked' as const }
      const layer = entryOf(verdict.code)?.layer as Layer
      return {
        ...base,
        outcome: 'failure' as const,
        failure: { text: verdict.reason, code: verdict.code as Code, layer },
      }
    })
}

/** Whether a shell may read another user's sockets and namespaces: then it tells a squatter from the browser. */
export const seesSockets = (shell: Shell): boolean => shell === 'root'

function liveOf(w: World, shell: Shell): LiveFacts {
  const foreignPid = shell === 'own-pid' || shell === 'both' || shell === 'logs-only'
  const foreignNet = shell === 'own-net' || shell === 'both' || shell === 'logs-only'
  const noProcess = foreignPid || shell === 'hidepid' ? not('hidden') : undefined
  const name = 'warp-muse'
  const isNamespace = w.namespace === 'there'
  const netns = {
    name,
    look:
      shell === 'logs-only' || shell === 'own-pid'
        ? not('x')
        : saw({ exists: w.namespace !== 'missing', isNamespace }),
  }
  const process = noProcess ?? saw(mainOf(w))
  const base = { asked: ASKED, process, netns }
  if (foreignNet) return { ...base, gateway: not('x'), cdp: not('x'), page: not('x'), listed: false }
  const gateway = saw(w.veth === 'well' || w.veth === 'down')
  const answer = overRelay(w)
  if (!answersAsBrowser(answer)) {
    const other = readAnswer(answer, 2000)
    if (other === undefined) throw new Error('a browser that is none')
    return { ...base, gateway, cdp: saw(other), page: not('x'), listed: false }
  }
  const found = cdpOf(w, seesSockets(shell) && mainOf(w) !== undefined)
  const ok = found.state === 'ok'
  return {
    ...base,
    gateway,
    cdp: saw({ kind: 'browser', found }),
    page: ok ? saw(pageOf(w)) : not('x'),
    listed: ok && w.list === 'answers',
  }
}

/** What a shell gets to see now. */
export function factsOf(h: History, shell: Shell): NodeFacts {
  const nothing = shell === 'logs-only'
  const receiptLook = (s: Supervisor): Look<Receipt | undefined> => {
    if (nothing) return not('no /run/netvm')
    const r = h.runs.findLast((x) => x.supervisor === s)
    return saw(r === undefined ? undefined : receiptOf(h, r))
  }
  return {
    node: 'muse',
    retired: false,
    now: NOW,
    live: liveOf(h.after, shell),
    units: shell === 'no-bus' || nothing ? not('no bus') : saw(unitsOf(h)),
    receipts: each(receiptLook),
    ...(h.journal && !nothing ? { journal: saw({ runs: journalOf(h) }) } : {}),
    logs: saw(linesOf(h)),
    ...(h.paused ? { intent: { by: 'ops', reason: 'x', untilWallMs: NOW.wallMs + MINUTE } } : {}),
    ...(h.paused ? { pausedBootMs: { from: 0, until: NOW.bootMs + MINUTE } } : {}),
    held: saw(h.held),
    tunnel: shell === 'root' ? wanted(h) : not('EACCES'),
    memos: [],
  }
}

const wanted = (h: History): NodeFacts['tunnel'] => {
  const configured = h.after.tunnelWanted
  return saw({ configured, sinceBootMs: configured ? NOW.bootMs - LONG_AGO : NOW.bootMs, source: 'live' })
}

export { SHELLS }
