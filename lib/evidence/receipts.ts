import { type Paths, receiptPath } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import {
  LAYERS,
  type Layer,
  type LayerMark,
  type Look,
  type Receipt,
  type Supervisor,
} from '../base/types.ts'
import type { Trust } from './owner.ts'

type Json = Record<string, unknown>

const isRecord = (v: unknown): v is Json => typeof v === 'object' && v !== null && !Array.isArray(v)
const isLayer = (v: unknown): v is Layer => LAYERS.includes(v as Layer)
const MARKS = ['ok', 'fail', 'unknown', 'not-checked', 'not-configured', 'paused']
const STATES = ['healthy', 'unhealthy', 'unknown']

const text = (v: unknown, max = 300): string => (typeof v === 'string' ? clean(v, max) : '')

function num(v: unknown, what: string): number {
  if (typeof v !== 'number' || !Number.isFinite(v)) throw new Error(`${what} is not a number`)
  return v
}

function rec(v: unknown, what: string): Json {
  if (!isRecord(v)) throw new Error(`${what} is not an object`)
  return v
}

function mark(v: unknown): LayerMark | undefined {
  if (!isRecord(v) || !isLayer(v.layer) || !MARKS.includes(String(v.state))) return undefined
  const [note, code] = [text(v.note), text(v.code, 60)]
  return {
    layer: v.layer,
    state: v.state as LayerMark['state'],
    ...(code === '' ? {} : { code }),
    ...(note === '' ? {} : { note }),
  }
}

/**
 * Reads a receipt's JSON. Everything in it is checked and cleaned: it gets printed, and it decides words.
 * @throws Error saying what is wrong with it
 */
export function parseReceipt(json: string): Receipt {
  const o = rec(JSON.parse(json), 'receipt')
  if (o.version !== 1) throw new Error(`version ${String(o.version).slice(0, 20)} is not 1`)
  const verdict = rec(o.verdict, 'verdict')
  if (!STATES.includes(String(verdict.state))) throw new Error('verdict.state')
  const at = rec(o.at, 'at')
  const ns = rec(o.hostNs, 'hostNs')
  const extra: Record<string, string | number | boolean> = {}
  for (const [k, v] of Object.entries(isRecord(o.extra) ? o.extra : {}))
    if (typeof v === 'string') extra[clean(k, 40)] = clean(v)
    else if (typeof v === 'number' || typeof v === 'boolean') extra[clean(k, 40)] = v
  const actions = (Array.isArray(o.actions) ? o.actions : []).filter(isRecord).map((a) => ({
    kind: text(a.kind, 60),
    ...(text(a.code) === '' ? {} : { code: text(a.code, 60) }),
    startedWallMs: typeof a.startedWallMs === 'number' ? a.startedWallMs : 0,
    durationMs: typeof a.durationMs === 'number' ? a.durationMs : 0,
    helped: a.helped === true,
    detail: text(a.detail),
  }))
  return {
    version: 1,
    supervisor: text(o.supervisor, 40) as Supervisor,
    node: text(o.node, 40),
    verdict: {
      state: verdict.state as Receipt['verdict']['state'],
      ...(isLayer(verdict.layer) ? { layer: verdict.layer } : {}),
      code: text(verdict.code, 60),
      reason: text(verdict.reason),
      evidence: (Array.isArray(verdict.evidence) ? verdict.evidence : []).slice(0, 20).map((e) => text(e)),
    },
    layers: (Array.isArray(o.layers) ? o.layers : []).map(mark).filter((m) => m !== undefined),
    actions,
    at: {
      wallMs: num(at.wallMs, 'at.wallMs'),
      bootMs: num(at.bootMs, 'at.bootMs'),
      bootId: text(at.bootId, 64),
    },
    durationMs: num(o.durationMs, 'durationMs'),
    hostNs: { net: num(ns.net, 'hostNs.net'), pid: num(ns.pid, 'hostNs.pid') },
    nextDueBootMs: num(o.nextDueBootMs, 'nextDueBootMs'),
    extra,
  }
}

/** The receipt of a supervisor for a node; undefined when there is none. Not seen: why it cannot be believed. */
export function trustedReceipt(
  p: Paths,
  trust: Trust,
  supervisor: Supervisor,
  node: string,
): Look<Receipt | undefined> {
  const raw = trust.read(receiptPath(p, supervisor, node))
  if (!raw.seen || raw.value === undefined) return raw as Look<undefined>
  try {
    const receipt = parseReceipt(raw.value)
    if (receipt.supervisor !== supervisor) return { seen: false, why: 'it is of another supervisor' }
    return { seen: true, value: receipt }
  } catch (err) {
    return {
      seen: false,
      why: `cannot be read: ${clean(err instanceof Error ? err.message : String(err), 80)}`,
    }
  }
}

/**
 * The namespaces that the supervisors of this boot call the host's: what most receipts say, because one
 * run by hand inside a sandbox would name the sandbox's. Undefined when no receipt of this boot says it.
 */
export function hostNamespaces(
  receipts: Iterable<Receipt>,
  bootId: string,
): { readonly net: number; readonly pid: number } | undefined {
  const votes = new Map<string, { n: number; ns: Receipt['hostNs'] }>()
  for (const r of receipts) {
    if (r.at.bootId !== bootId || !(r.hostNs.net > 0) || !(r.hostNs.pid > 0)) continue
    const key = `${r.hostNs.net}:${r.hostNs.pid}`
    const vote = votes.get(key) ?? { n: 0, ns: r.hostNs }
    votes.set(key, { ...vote, n: vote.n + 1 })
  }
  return [...votes.values()].sort((a, b) => b.n - a.n)[0]?.ns
}
