import { EXIT } from '../base/exit-codes.ts'
import { type Layer, type Receipt, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { type Message, meaning } from './message.ts'
import { LOOP_RUN_MS, MAX_PERIODS, OF_THE_BROWSER, PATH, PERIOD_MS, VOUCHED } from './owners.ts'
import type { JournalRun, LogLine, Mark, NodeFacts, Source, TunnelFact, Unknown } from './types.ts'

/**
 * One thing said about a node at one time by a source that may be believed. `failedSomewhere`: the
 * run failed and did not say where on the path.
 */
export interface Statement {
  readonly source: Source
  readonly supervisor: Supervisor
  readonly atBootMs: number
  readonly marks: ReadonlyMap<Layer, Mark>
  readonly failedSomewhere: boolean
  /** The run as a whole was healthy. */
  readonly healthy: boolean
  /** A run that ended with success, of which it is not known whether it found a tunnel. */
  readonly tunnelUnknown?: true
}

/** A run writes its receipt and exits within this time; a later exit belongs to a later run. */
const SAME_RUN_MS = 3_000

/** Our clock is read first and the rest of the look takes its time: what happened meanwhile counts as now. */
const LOOK_MS = 10_000

/** Why nothing said at that time counts any more, whoever said it; undefined when it does. */
function tooOld(facts: NodeFacts, s: Supervisor, atBootMs: number): string | undefined {
  const age = facts.now.bootMs - atBootMs
  if (age < -LOOK_MS) return 'it is from the future'
  if (age > MAX_PERIODS * PERIOD_MS[s]) return `it is older than ${MAX_PERIODS} periods`
  const started = facts.units.seen ? facts.units.value.netns.sinceBootMs : undefined
  if (started !== undefined && atBootMs < started) return 'the node was started again since'
  return undefined
}

/** Why a receipt does not count, or undefined when it does. */
function whyNot(r: Receipt, facts: NodeFacts): string | undefined {
  if (r.node !== facts.node) return 'it is about another node'
  if (r.at.bootId !== facts.now.bootId) return 'it is from another boot'
  return tooOld(facts, r.supervisor, r.at.bootMs)
}

/** Whether what was said at that time is about a browser before this one. */
function isVoid({ units }: Pick<NodeFacts, 'units'>, layer: Layer, atBootMs: number): boolean {
  const since = units.seen ? units.value.browser.sinceBootMs : undefined
  return OF_THE_BROWSER.has(layer) && since !== undefined && atBootMs < since
}

function fromReceipt(r: Receipt, facts: NodeFacts): Statement {
  const marks = new Map<Layer, Mark>()
  for (const m of r.layers) {
    const state = m.state === 'not-configured' ? 'absent' : m.state
    if (state === 'paused' || state === 'not-checked' || isVoid(facts, m.layer, r.at.bootMs)) continue
    // It asks for the version alone; whether the list of targets can be read is the watchdog's to say.
    if (r.supervisor === 'cdp-relay-watchdog' && m.layer === 'cdp' && state === 'ok') continue
    // A run that was cut short vouches for nothing; a pause is recorded over what was seen.
    const vague = r.verdict.state === 'unknown' && r.verdict.layer === undefined
    if (vague && r.verdict.code !== 'paused' && state === 'ok') continue
    marks.set(m.layer, { state, note: m.note ?? '', code: m.code })
  }
  const { state, layer, code, reason: note } = r.verdict
  // A run that stopped at a layer below its own may have seen that one fail, and says so in its mark.
  const seen = state === 'unknown' && layer !== undefined ? marks.get(layer)?.state : undefined
  if (layer !== undefined && state !== 'healthy' && !isVoid(facts, layer, r.at.bootMs) && seen !== 'fail')
    marks.set(layer, { state: state === 'unhealthy' ? 'fail' : 'unknown', note, code })
  return {
    source: 'receipt',
    supervisor: r.supervisor,
    atBootMs: r.at.bootMs,
    marks,
    failedSomewhere: state === 'unhealthy' && !PATH.some((on) => on === layer),
    healthy: state === 'healthy',
  }
}

/** The best that is known of the tunnel: its file now, else what systemd found when it last started the tunnel. Pure. */
export function tunnelOf(facts: Pick<NodeFacts, 'tunnel' | 'units'>): TunnelFact | undefined {
  if (facts.tunnel.seen) return facts.tunnel.value
  return facts.units.seen ? facts.units.value.tunnel : undefined
}

/** Whether the tunnel may have been configured only after a run that ended then. */
export function addedSince(tunnel: TunnelFact | undefined, endBootMs: number): boolean {
  return tunnel?.configured === true && endBootMs - SAME_RUN_MS < tunnel.sinceBootMs
}

/** A run that ended with success and left nothing else. Undefined when it may have ended so for another reason. */
function vouch(s: Supervisor, source: Source, at: number, facts: NodeFacts): Statement | undefined {
  // A paused node is looked at, and no finding makes the run fail.
  const pause = facts.pausedBootMs
  if (pause !== undefined && at >= pause.from && at <= pause.until + SAME_RUN_MS) return undefined
  const vouched = VOUCHED[s].filter((layer) => !isVoid(facts, layer, at))
  const marks = new Map<Layer, Mark>(vouched.map((layer) => [layer, { state: 'ok', note: '' }]))
  const base = { source, supervisor: s, atBootMs: at, failedSomewhere: false, healthy: true }
  if (!marks.has('egress')) return { ...base, marks }
  // A run over a node without a tunnel ends like one that found the tunnel working.
  const tunnel = tunnelOf(facts)
  if (tunnel?.configured === false) marks.set('egress', { state: 'absent', note: 'not configured' })
  // That systemd found the file when it last started the tunnel does not say that the run still did.
  else if (tunnel?.source !== 'live' || addedSince(tunnel, at)) {
    marks.set('egress', { state: 'unknown', note: 'the last run does not say whether there is a tunnel' })
    return { ...base, marks, tunnelUnknown: true }
  }
  return { ...base, marks }
}

/** A fault that a line reports, or one of which nothing else is known. Undefined when it is about an earlier browser. */
function failure(
  s: Supervisor,
  source: Source,
  at: number,
  facts: NodeFacts,
  message?: Message,
): Statement | undefined {
  const { layer, text = '', code, cause } = message ?? {}
  if (layer !== undefined && isVoid(facts, layer, at)) return undefined
  const mark: Mark = { state: 'fail', note: text, code: cause ?? code }
  const marks = new Map<Layer, Mark>(layer === undefined ? [] : [[layer, mark]])
  return { source, supervisor: s, atBootMs: at, marks, failedSomewhere: layer === undefined, healthy: false }
}

/** Where the exit statuses begin that systemd gives a program which it could not even start (systemd.exec(5)). */
const NEVER_STARTED = 200

/**
 * That the last run of a supervisor ended without a look at anything: its program cannot be started, it was refused
 * its configuration, it was killed. Undefined when it looked, or when a receipt says more. Pure.
 */
export function blindRun(
  facts: Pick<NodeFacts, 'units' | 'receipts' | 'now'>,
  s: Supervisor,
): string | undefined {
  if (!facts.units.seen) return undefined
  const { ended, exitBootMs, status, result } = facts.units.value.runs[s]
  // Exit 75 is another run at work, and for systemd a success.
  if (!ended || result === 'success' || (result === 'exit-code' && status === EXIT.UNHEALTHY))
    return undefined
  const look = facts.receipts[s]
  const receiptMs = look.seen && look.value?.at.bootId === facts.now.bootId ? look.value.at.bootMs : undefined
  const runMs = s === 'chromebox-watchdog' ? SAME_RUN_MS : LOOP_RUN_MS
  if (receiptMs !== undefined && receiptMs >= exitBootMs - runMs) return undefined
  if (result !== 'exit-code') return `the last run of ${s} was cut short (${result})`
  const how = status >= NEVER_STARTED ? 'systemd cannot start its program, ' : ''
  return `the last run of ${s} could not look (${how}exit ${status})`
}

function fromJournal(run: JournalRun, facts: NodeFacts): Statement | undefined {
  if (run.outcome === 'success') return vouch(run.supervisor, 'journal', run.endBootMs, facts)
  if (run.outcome === 'locked') return undefined
  // The journal does not record with which status a run ended; systemd keeps that of the last one.
  const last = facts.units.seen ? facts.units.value.runs[run.supervisor] : undefined
  const same = last?.ended === true && Math.abs(last.exitBootMs - run.endBootMs) < SAME_RUN_MS
  if (same && last.status !== EXIT.UNHEALTHY) return undefined
  // A fleet-wide run fails for any of its nodes: without a line about this one it says nothing of it.
  if (run.failure === undefined && run.supervisor !== 'chromebox-watchdog') return undefined
  return failure(run.supervisor, 'journal', run.endBootMs, facts, run.failure)
}

/** Failure lines only: a log is silent about health, so it can only take trust away. */
function fromLog(line: LogLine, facts: NodeFacts): Statement | undefined {
  const at = facts.now.bootMs - (facts.now.wallMs - line.wallMs)
  if (meaning(line, line.level) !== 'fault') return undefined
  return failure(line.supervisor, 'log', at, facts, line)
}

/** The run records of systemd for which there is no receipt. */
function fromUnits(facts: NodeFacts, receipts: readonly Statement[]): (Statement | undefined)[] {
  if (!facts.units.seen) return []
  const out: (Statement | undefined)[] = []
  for (const s of SUPERVISORS) {
    const run = facts.units.value.runs[s]
    if (!run.ended) continue
    if (receipts.some((r) => r.supervisor === s && r.atBootMs >= run.exitBootMs - SAME_RUN_MS)) continue
    if (run.status === 0 && run.result === 'success') out.push(vouch(s, 'unit', run.exitBootMs, facts))
    else if (run.status === 1 && s === 'chromebox-watchdog')
      out.push(failure(s, 'unit', run.exitBootMs, facts))
  }
  return out
}

export interface Heard {
  readonly statements: readonly Statement[]
  /** Why something that was there does not count, and what could not be looked at. */
  readonly unknowns: readonly Unknown[]
}

/** The last that a supervisor said. */
export const newest = (heard: Heard, s: Supervisor): Statement | undefined =>
  heard.statements.findLast((x) => x.supervisor === s)

/** Everything that may be believed about the node, oldest first, and why the rest may not. Pure. */
export function hear(facts: NodeFacts): Heard {
  const unknowns: Unknown[] = []
  const miss = (what: string, why: string) => unknowns.push({ what, why })
  const receipts: Statement[] = []
  for (const supervisor of SUPERVISORS) {
    const look = facts.receipts[supervisor]
    const of = look.seen ? look.value : undefined
    const why = !look.seen ? look.why : of === undefined ? 'there is none' : whyNot(of, facts)
    if (why !== undefined) unknowns.push({ what: 'receipt', supervisor, why })
    else if (of !== undefined) receipts.push(fromReceipt(of, facts))
  }
  const rest: (Statement | undefined)[] = fromUnits(facts, receipts)
  if (!facts.units.seen) miss('units', facts.units.why)
  if (facts.journal !== undefined) {
    if (!facts.journal.seen) miss('journal', facts.journal.why)
    else {
      const { runs, incomplete, begins } = facts.journal.value
      if (begins !== undefined) miss('journal', begins)
      else if (runs.length === 0) miss('journal', 'no recent run in it')
      if (incomplete !== undefined) miss('journal', incomplete)
      for (const run of runs)
        if (incomplete === undefined || run.outcome === 'failure') rest.push(fromJournal(run, facts))
    }
  }
  if (!facts.logs.seen) miss('logs', facts.logs.why)
  else for (const line of facts.logs.value) rest.push(fromLog(line, facts))
  const counted = rest
    .filter((s) => s !== undefined)
    .filter((s) => tooOld(facts, s.supervisor, s.atBootMs) === undefined)
  const statements = [...receipts, ...counted].sort((a, b) => a.atBootMs - b.atBootMs)
  return { statements, unknowns }
}
