import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { attempt } from '../base/attempt.ts'
import { errnoOf } from '../base/files.ts'
import { type Paths, receiptPath } from '../base/paths.ts'
import {
  flag,
  list,
  number,
  object,
  oneOf,
  optional,
  type Reader,
  record,
  stamp,
  text,
  usable,
} from '../base/shape.ts'
import {
  LAYERS,
  type LayerMark,
  type Look,
  type Receipt,
  SUPERVISORS,
  type Supervisor,
} from '../base/types.ts'
import { namespaceOf } from '../host/proc.ts'
import { writeAtomic } from './state.ts'

/** A receipt is a few hundred bytes, a history five of them; anything of this size is neither. */
export const MAX_BYTES = 256 * 1024

/**
 * Replaces the receipt of this supervisor and node. No fsync: /run is a tmpfs.
 * @throws the file system's error
 */
export function writeReceipt(p: Paths, r: Receipt): void {
  writeAtomic(receiptPath(p, r.supervisor, r.node), `${JSON.stringify(r)}\n`, 0o644, { sync: false })
}

/**
 * The last receipt; `undefined` in `value` when there is none. On a real host a file that is not
 * root's, or that others may write, is not believed.
 */
export function readReceipt(p: Paths, supervisor: Supervisor, node: string): Look<Receipt | undefined> {
  const path = receiptPath(p, supervisor, node)
  const read = readTrusted(p, path)
  if (!read.seen || read.value === undefined) return read as Look<undefined>
  const value = receiptOf(read.value, supervisor, node)
  if (value === undefined) return { seen: false, why: `${path} is no receipt of ${supervisor} ${node}` }
  return { seen: true, value }
}

/**
 * Does this run say what the previous one did not: another verdict, or something done? The first run
 * does. What differs in every run (times, pids, numbers in a reason) is no news.
 */
export function isNews(r: Receipt, before: Receipt | undefined): boolean {
  const [now, was] = [r.verdict, before?.verdict]
  return r.actions.length > 0 || was?.state !== now.state || was.layer !== now.layer || was.code !== now.code
}

/** JSON of a file below the receipts' directory, by the same rule of trust; `undefined` when there is none. */
export function readTrusted(p: Paths, path: string): Look<unknown> {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (err) {
    const code = errnoOf(err)
    if (code === 'ENOENT') return { seen: true, value: undefined }
    return { seen: false, why: `cannot read ${path}: ${code}` }
  }
  try {
    const st = fstatSync(fd)
    if (!st.isFile() || st.size > MAX_BYTES) return { seen: false, why: `${path} is no receipt` }
    if (p.root === '' && (st.uid !== 0 || (st.mode & 0o022) !== 0)) {
      return { seen: false, why: `${path} is not trusted: not root's, or others may write it` }
    }
    return { seen: true, value: JSON.parse(readFileSync(fd, 'utf8')) }
  } catch (err) {
    const why = err instanceof SyntaxError ? 'not JSON' : (err as Error).message
    return { seen: false, why: `${path}: ${why}` }
  } finally {
    closeSync(fd)
  }
}

const mark: Reader<LayerMark> = record({
  layer: oneOf(LAYERS),
  state: oneOf(['ok', 'fail', 'unknown', 'not-checked', 'not-configured', 'paused']),
  code: optional(text),
  note: optional(text),
})

const scalars: Reader<Receipt['extra']> = (v, what) => {
  const isScalar = (value: unknown) => ['string', 'number', 'boolean'].includes(typeof value)
  return Object.fromEntries(Object.entries(object(v, what)).filter(([, value]) => isScalar(value))) as never
}

/** A receipt as it comes from a file. Its texts are to be cleaned before they are printed. */
export const parseReceipt: Reader<Receipt> = record({
  version: oneOf([1]),
  supervisor: oneOf(SUPERVISORS),
  node: text,
  verdict: record({
    state: oneOf(['healthy', 'unhealthy', 'unknown']),
    layer: optional(oneOf(LAYERS)),
    code: text,
    reason: text,
    evidence: list(text),
  }),
  layers: usable(mark),
  actions: list(
    record({
      kind: text,
      code: optional(text),
      startedWallMs: number,
      durationMs: number,
      helped: flag,
      detail: text,
    }),
  ),
  at: stamp,
  durationMs: number,
  hostNs: record({ net: number, pid: number }),
  nextDueBootMs: number,
  extra: scalars,
})

/** The receipt of this supervisor and node that a parsed value is; undefined when it is none. */
export function receiptOf(v: unknown, supervisor: Supervisor, node: string): Receipt | undefined {
  const receipt = attempt(() => parseReceipt(v))
  return receipt?.supervisor === supervisor && receipt.node === node ? receipt : undefined
}

/**
 * Inodes of the namespaces this process runs in; the supervisors run in the host's. 0 when one cannot be
 * read, which no reader's own inode equals.
 */
export function hostNamespaces(p: Paths): { net: number; pid: number } {
  return { net: namespaceOf(p.proc, 'self', 'net') ?? 0, pid: namespaceOf(p.proc, 'self', 'pid') ?? 0 }
}
