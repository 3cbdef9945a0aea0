import type { Layer, LayerMark, Look, MarkState, Receipt, Supervisor, Verdict } from '../../lib/base/types.ts'
import type {
  CdpAnswer,
  LiveFacts,
  LogLine,
  NodeFacts,
  ServiceFact,
  TimerFact,
  UnitFacts,
  UnitRun,
} from '../../lib/evidence/types.ts'
import { readStat } from '../../lib/host/proc.ts'
import type { Code } from '../../lib/report/codes.ts'
import type { Shell, State } from './truth-table.ts'

/** A host that has been up for an hour; the node for forty minutes. */
export const NOW = { wallMs: 1_800_000_000_000, bootMs: 3_600_000, bootId: 'boot-now' }
const NODE_SINCE = 1_200_000
const AGE: Record<Supervisor, number> = {
  'chromebox-watchdog': 40_000,
  'cdp-relay-watchdog': 150_000,
  'agent-health': 170_000,
}
const PERIOD: Record<Supervisor, number> = {
  'chromebox-watchdog': 120_000,
  'cdp-relay-watchdog': 300_000,
  'agent-health': 300_000,
}
export const SUPERVISORS = Object.keys(AGE) as Supervisor[]

export const not = (why: string): { seen: false; why: string } => ({ seen: false, why })
export const saw = <T>(value: T): Look<T> => ({ seen: true, value })

/** A browser's main process, and what it answers. */
export const MAIN = { pid: 4711, startTicks: 120_000, ageMs: 2_400_000, state: 'S' }
export const BROWSER: CdpAnswer = { kind: 'browser', found: { state: 'ok', browser: 'Chrome/156' } }
export const PAGE = { state: 'ok', title: 'Chat with muse' } as const
export const ASKED = { title: 'Chat', port: 9410 }

const LOOKS_AT: Record<Supervisor, Layer[]> = {
  'chromebox-watchdog': ['netns', 'egress', 'process', 'cdp', 'page'],
  'cdp-relay-watchdog': ['netns', 'cdp', 'relay'],
  'agent-health': ['api'],
}

/** A receipt in which everything below `fault` is ok and nothing above it was checked. */
export function receipt(
  s: Supervisor,
  fault?: { layer: Layer; reason: string; code?: string },
  over: Partial<Receipt> = {},
) {
  let state: MarkState = 'ok'
  const layers: LayerMark[] = LOOKS_AT[s].map((layer) => {
    if (layer === fault?.layer) state = 'fail'
    else if (state === 'fail') state = 'not-checked'
    return { layer, state }
  })
  const verdict: Verdict = fault
    ? { state: 'unhealthy', layer: fault.layer, code: fault.code ?? 'x', reason: fault.reason, evidence: [] }
    : { state: 'healthy', code: 'ok', reason: '', evidence: [] }
  const boot = NOW.bootMs - AGE[s]
  const at = { wallMs: NOW.wallMs - AGE[s], bootMs: boot, bootId: NOW.bootId }
  const r: Receipt = {
    version: 1,
    supervisor: s,
    node: 'muse',
    verdict,
    layers,
    actions: [],
    at,
    durationMs: 60,
    hostNs: { net: 1, pid: 2 },
    nextDueBootMs: boot + PERIOD[s],
    extra: {},
    ...over,
  }
  return r
}

const on: ServiceFact = { active: true, changing: false, sinceBootMs: NODE_SINCE, text: 'active' }
const off = (text = 'inactive'): ServiceFact => ({
  active: false,
  changing: false,
  sinceBootMs: NODE_SINCE,
  text,
})
const armed: TimerFact = { state: 'armed', why: '', enabled: true }
const run = (s: Supervisor, status = 0): UnitRun => ({
  ended: true,
  exitBootMs: NOW.bootMs - AGE[s] + 20,
  status,
  result: status === 0 ? 'success' : 'exit-code',
})
const never: UnitRun = { ended: false, exitBootMs: 0, status: 0, result: 'success' }
const each = <T>(f: (s: Supervisor) => T) =>
  Object.fromEntries(SUPERVISORS.map((s) => [s, f(s)])) as Record<Supervisor, T>

/** What is so on the host in a state, before any shell looks. */
interface World {
  present: boolean
  stopped: boolean
  gateway: boolean
  cdp: CdpAnswer
  units: UnitFacts
  receipts: Record<Supervisor, Receipt | undefined>
  log: LogLine[]
  held: boolean
  paused: boolean
  retired: boolean
  hostNsKnown: boolean
}

const FAULTS: Partial<Record<State, { by: Supervisor; layer: Layer; code: Code; reason: string }>> = {
  dead: {
    by: 'chromebox-watchdog',
    layer: 'process',
    code: 'no-process',
    reason: 'no chromium process for profile',
  },
  frozen: {
    by: 'chromebox-watchdog',
    layer: 'cdp',
    code: 'cdp-unreachable',
    reason: 'CDP unreachable on :9410',
  },
  'relay-down': {
    by: 'cdp-relay-watchdog',
    layer: 'relay',
    code: 'relay-restart-failed',
    reason: 'relay restart FAILED',
  },
  'veth-lost': {
    by: 'cdp-relay-watchdog',
    layer: 'netns',
    code: 'veth-no-address',
    reason: 'veth ve-1 has no 10.201.35.1/30',
  },
  'tunnel-cut': {
    by: 'chromebox-watchdog',
    layer: 'egress',
    code: 'egress-no-answer',
    reason: 'egress down: no probe answered',
  },
  'held-down': {
    by: 'chromebox-watchdog',
    layer: 'process',
    code: 'no-process',
    reason: 'no chromium process for profile',
  },
}

export function world(state: State): World {
  const w: World = {
    present: true,
    stopped: false,
    gateway: true,
    cdp: BROWSER,
    units: {
      netns: on,
      browser: on,
      relay: on,
      tunnel: { configured: true, sinceBootMs: NODE_SINCE, source: 'unit' },
      timers: each(() => armed),
      runs: each((s) => run(s)),
    },
    receipts: each((s) => receipt(s)),
    log: [],
    held: state === 'held-down',
    paused: state === 'paused',
    retired: state === 'torn-down',
    hostNsKnown: true,
  }
  const fault = FAULTS[state]
  if (fault) {
    w.receipts[fault.by] = receipt(fault.by, fault)
    w.units = { ...w.units, runs: { ...w.units.runs, [fault.by]: run(fault.by, 1) } }
    const wallMs = NOW.wallMs - AGE[fault.by] - 10
    w.log.push({
      supervisor: fault.by,
      wallMs,
      level: 'FAIL',
      text: fault.reason,
      code: fault.code,
      layer: fault.layer,
    })
  }
  if (state === 'dead' || state === 'held-down') {
    w.present = false
    w.cdp = { kind: 'closed' }
    w.units = { ...w.units, browser: off('failed (exit-code)') }
  }
  if (state === 'frozen') {
    w.stopped = true
    w.cdp = { kind: 'timeout', afterMs: 2000 }
  }
  if (state === 'relay-down') {
    w.cdp = { kind: 'refused' }
    w.units = { ...w.units, relay: off() }
  }
  if (state === 'squatted-relay') {
    w.cdp = { kind: 'not-a-browser', detail: 'HTTP 200 text/html' }
    w.units = { ...w.units, relay: off() }
  }
  if (state === 'veth-lost') {
    w.gateway = false
    w.cdp = { kind: 'unreachable', detail: 'ENETUNREACH' }
  }
  if (state === 'torn-down') {
    w.present = false
    w.gateway = false
    w.cdp = { kind: 'unreachable', detail: 'ENETUNREACH' }
    const missing: TimerFact = { state: 'missing', why: 'never installed', enabled: false }
    w.units = { netns: off(), browser: off(), relay: off(), timers: each(() => missing), runs: w.units.runs }
  }
  if (state === 'timer-disabled')
    w.units = {
      ...w.units,
      timers: {
        ...w.units.timers,
        'chromebox-watchdog': { state: 'unarmed', why: 'inactive', enabled: false },
      },
    }
  if (state === 'receipts-old') {
    const back = 20 * 60_000
    w.receipts = each((s) => {
      const r = receipt(s)
      const at = { ...r.at, bootMs: r.at.bootMs - back, wallMs: r.at.wallMs - back }
      return { ...r, at, nextDueBootMs: at.bootMs + PERIOD[s] }
    })
    w.units = { ...w.units, runs: each((s) => ({ ...run(s), exitBootMs: run(s).exitBootMs - back })) }
  }
  if (state === 'rebooted') {
    w.receipts = each((s) => receipt(s, undefined, { at: { ...receipt(s).at, bootId: 'boot-before' } }))
    w.units = { ...w.units, runs: each(() => never) }
    w.hostNsKnown = false
  }
  return w
}

/** What a shell gets to see of a world: the rules of `lib/evidence/sight.ts`, applied. */
export function facts(state: State, shell: Shell): NodeFacts {
  const w = world(state)
  const foreignPid = shell === 'own-pid' || shell === 'both' || shell === 'logs-only'
  const foreignNet =
    shell === 'own-net' ||
    shell === 'both' ||
    shell === 'logs-only' ||
    (shell === 'fake-root' && !w.hostNsKnown)
  const noProcess = foreignPid ? not('own PID namespace') : shell === 'hidepid' ? not('hidepid') : undefined
  const noNet = foreignNet ? not('own network namespace') : undefined
  const noBus = shell === 'no-bus' || shell === 'logs-only'
  const live: LiveFacts = {
    asked: ASKED,
    process: noProcess ?? saw(w.present ? { ...MAIN, state: w.stopped ? 'T' : 'S' } : undefined),
    netns: {
      name: 'warp-muse',
      look: noNet ?? saw({ exists: !w.retired, isNamespace: !w.retired }),
    },
    gateway: noNet ?? saw(w.gateway),
    cdp: noNet ?? saw(w.cdp),
    page: noNet ?? (w.cdp.kind === 'browser' ? saw(PAGE) : not('no answer')),
    listed: noNet === undefined && w.cdp.kind === 'browser',
  }
  return {
    node: 'muse',
    retired: w.retired,
    now: NOW,
    live,
    units: noBus ? not('no bus') : saw(w.units),
    receipts: each((s) => (shell === 'logs-only' ? not('no /run/netvm') : saw(w.receipts[s]))),
    logs: saw(w.log),
    ...(w.paused ? { intent: { by: 'ops', reason: 'upgrade', untilWallMs: NOW.wallMs + 60_000 } } : {}),
    held: saw(w.held),
    tunnel:
      shell === 'root' ? saw({ configured: true, sinceBootMs: NODE_SINCE, source: 'live' }) : not('EACCES'),
    memos: [],
  }
}

/** What the watchdog leaves in a receipt of a browser whose id it has proved; this process stands in for the browser. */
export const proved = (id: string): Receipt['extra'] => ({
  browserIdentity: `${process.pid} ${readStat('/proc', process.pid)?.startTicks} ${id}`,
})
