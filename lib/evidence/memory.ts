import { elapsedMs } from '../clock.ts'
import type { Config } from '../config.ts'
import { type Paths, statePath } from '../paths.ts'
import { seconds } from '../text.ts'
import type { Look, Now } from '../types.ts'
import type { Trust } from './owner.ts'

/** What the supervisors remember of a node, as far as a status shows it. */
export interface NodeMemory {
  /** Not seen: the memory cannot be read, and a hold may be in it. */
  readonly held: Look<boolean>
  readonly memos: readonly string[]
}

type Json = Record<string, unknown>

const isRecord = (v: unknown): v is Json => typeof v === 'object' && v !== null && !Array.isArray(v)
const isNumber = (v: unknown): v is number => typeof v === 'number' && Number.isFinite(v)

function isNow(v: unknown): v is Now {
  return isRecord(v) && isNumber(v.wallMs) && isNumber(v.bootMs) && typeof v.bootId === 'string'
}

const inOrDue = (ms: number): string => (ms > 0 ? `in ${seconds(ms)}` : 'due')

/** The hold in words, with the next half-open attempt where the boot's clock still tells. Pure. */
export function holdMemo(state: Json, at: Now, halfOpenMs: number): string | undefined {
  if (!isRecord(state.held)) return undefined
  const since = state.held.sinceWallMs
  const last = isRecord(state.last) && state.bootId === at.bootId ? state.last : {}
  const tried = isNumber(last.endBootMs) ? last.endBootMs : last.startBootMs
  const held = isNumber(since) ? `held for ${seconds(Math.max(0, at.wallMs - since))}` : 'held'
  return isNumber(tried) ? `${held}, next probe ${inOrDue(tried + halfOpenMs - at.bootMs)}` : held
}

/** An open or half-open circuit in words; undefined when it is closed. Pure. */
export function circuitMemo(state: Json, at: Now, cooldownMs: number): string | undefined {
  if (!isNow(state.openedAt)) return undefined
  const left = cooldownMs - elapsedMs(state.openedAt, at)
  return left > 0 ? `circuit open, next probe in ${seconds(left)}` : 'circuit half-open, next probe due'
}

/** Reads the memory files (root writes them, everybody may read them). Changes nothing, a corrupt file included. */
export function readMemory(
  p: Paths,
  trust: Trust,
  node: string,
  at: Now,
  config: Pick<Config, 'halfOpenMs' | 'circuitCooldownMs'>,
): NodeMemory {
  const watchdog = parse(trust.read(statePath(p, 'chromebox-watchdog', node)))
  const api = parse(trust.read(statePath(p, 'agent-health', node)))
  const memos = [
    watchdog.seen ? holdMemo(watchdog.value, at, config.halfOpenMs) : undefined,
    api.seen ? circuitMemo(api.value, at, config.circuitCooldownMs) : undefined,
  ]
  return {
    held: watchdog.seen ? { seen: true, value: isRecord(watchdog.value.held) } : watchdog,
    memos: memos.filter((m) => m !== undefined),
  }
}

function parse(raw: Look<string | undefined>): Look<Json> {
  if (!raw.seen) return raw
  if (raw.value === undefined) return { seen: true, value: {} }
  try {
    const v: unknown = JSON.parse(raw.value)
    if (isRecord(v)) return { seen: true, value: v }
  } catch {
    // The answer is below: an unreadable memory is not an empty one.
  }
  return { seen: false, why: 'the state file cannot be read' }
}
