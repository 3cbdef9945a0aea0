import { type Paths, receiptHistoryPath } from '../base/paths.ts'
import type { Look, Receipt, Supervisor } from '../base/types.ts'
import { MAX_BYTES, readTrusted, receiptOf } from './receipts.ts'
import { writeAtomic } from './state.ts'

/** `--why` shows this many. */
const KEPT = 5

/**
 * Adds a receipt that is news (`isNews`) to the last few of its node, oldest first. A history that cannot be
 * read starts anew: it is for people, and nothing is decided by it. No fsync: /run is a tmpfs.
 * @throws the file system's error
 */
export function keepReceipt(p: Paths, r: Receipt): void {
  const before = readHistory(p, r.supervisor, r.node)
  const receipts = [...(before.seen ? before.value : []), r].slice(-KEPT)
  // A file that its reader refuses for its size would never be read again.
  while (receipts.length > 1 && Buffer.byteLength(text(receipts)) > MAX_BYTES) receipts.shift()
  writeAtomic(receiptHistoryPath(p, r.supervisor, r.node), text(receipts), 0o644, { sync: false })
}

/** The last receipts that were news, oldest first; empty when none was kept since this boot. */
export function readHistory(p: Paths, supervisor: Supervisor, node: string): Look<Receipt[]> {
  const path = receiptHistoryPath(p, supervisor, node)
  const read = readTrusted(p, path)
  if (!read.seen) return read
  if (read.value === undefined) return { seen: true, value: [] }
  const { version, receipts } = (read.value ?? {}) as { version?: unknown; receipts?: unknown }
  if (version !== 1 || !Array.isArray(receipts)) return { seen: false, why: `${path} is no history` }
  const kept = receipts.flatMap((r: unknown) => receiptOf(r, supervisor, node) ?? [])
  return { seen: true, value: kept.slice(-KEPT) }
}

function text(receipts: readonly Receipt[]): string {
  return `${JSON.stringify({ version: 1, receipts })}\n`
}
