import { type Paths, receiptPath } from '../base/paths.ts'
import { isRecord } from '../base/shape.ts'
import { clean } from '../base/text.ts'
import type { Look, Receipt, Supervisor } from '../base/types.ts'
import { parseReceipt as readReceipt } from '../store/receipts.ts'
import type { Trust } from './owner.ts'

/** Every text and name in a record, made fit to print. */
function cleaned<T>(v: T): T {
  if (typeof v === 'string') return clean(v) as T
  if (Array.isArray(v)) return v.map(cleaned) as T
  if (!isRecord(v)) return v
  return Object.fromEntries(Object.entries(v).map(([key, value]) => [clean(key, 40), cleaned(value)])) as T
}

/**
 * Reads a receipt's JSON. Everything in it is checked and cleaned: it gets printed, and it decides words.
 * @throws Error saying what is wrong with it
 */
export function parseReceipt(json: string): Receipt {
  return cleaned(readReceipt(JSON.parse(json)))
}

/** The receipt of a supervisor for a node; undefined when there is none. Not seen: why it cannot be believed. */
export function trustedReceipt(
  p: Paths,
  trust: Trust,
  supervisor: Supervisor,
  node: string,
): Look<Receipt | undefined> {
  const look = trust.parsed(receiptPath(p, supervisor, node), parseReceipt)
  if (!look.seen || look.value === undefined || look.value.supervisor === supervisor) return look
  return { seen: false, why: 'it is of another supervisor' }
}

/**
 * The namespaces that the supervisors of this boot call the host's: what most receipts say, because one
 * run by hand inside a sandbox would name the sandbox's. Undefined when no receipt of this boot says it.
 */
export function hostNamespaces(receipts: readonly Receipt[], bootId: string): Receipt['hostNs'] | undefined {
  const votes = new Map<string, { n: number; ns: Receipt['hostNs'] }>()
  for (const r of receipts) {
    if (r.at.bootId !== bootId || !(r.hostNs.net > 0) || !(r.hostNs.pid > 0)) continue
    const key = `${r.hostNs.net}:${r.hostNs.pid}`
    const vote = votes.get(key) ?? { n: 0, ns: r.hostNs }
    votes.set(key, { ...vote, n: vote.n + 1 })
  }
  return [...votes.values()].sort((a, b) => b.n - a.n)[0]?.ns
}
