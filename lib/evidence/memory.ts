import { type CircuitMemory, circuitState, cooldownLeftMs, freshMemory } from '../api/circuit.ts'
import type { Config } from '../base/config.ts'
import { type Paths, statePath } from '../base/paths.ts'
import { seconds } from '../base/text.ts'
import type { Look, Now, Supervisor } from '../base/types.ts'
import { decodeState } from '../store/state.ts'
import { parseMemory as parseCircuit } from '../supervisors/agent-health/memory.ts'
import { emptyMemory, holdLeftMs, holdOf, parseMemory } from '../supervisors/chromebox-watchdog/memory.ts'
import type { Memory, Policy } from '../supervisors/chromebox-watchdog/types.ts'
import type { Trust } from './owner.ts'
import type { NodeFacts } from './types.ts'

export type MemoryPolicy = Policy & Pick<Config, 'circuitCooldownMs'>

/** A shell that does not know its boot cannot date what is in it. */
const inOrDue = (ms: number, at: Now): string =>
  at.bootId === '' ? 'not known from here' : ms > 0 ? `in ${seconds(ms)}` : 'due'

/** The hold in words, with the next half-open attempt, by the watchdog's own rule. Pure. */
export function holdMemo(m: Memory, at: Now, policy: Policy): string | undefined {
  const held = holdOf(m, at, policy)
  if (held === undefined) return undefined
  const forMs = Math.max(0, at.wallMs - held.sinceWallMs)
  return `held for ${seconds(forMs)}, next probe ${inOrDue(holdLeftMs(m, at, policy), at)}`
}

/** An open or half-open circuit in words, by agent-health's own rule; undefined when it is closed. Pure. */
export function circuitMemo(m: CircuitMemory, at: Now, cooldownMs: number): string | undefined {
  const state = circuitState(m, at, { cooldownMs })
  if (state === 'closed') return undefined
  return `circuit ${state}, next probe ${inOrDue(cooldownLeftMs(m, at, { cooldownMs }), at)}`
}

/**
 * What the supervisors remember of a node, as far as a status shows it (root writes the files, everybody may read
 * them). Changes nothing, a corrupt file included. `held` is not seen when a hold may be in what cannot be read.
 */
export function readMemory(
  p: Paths,
  trust: Trust,
  node: string,
  at: Now,
  config: MemoryPolicy,
): Pick<NodeFacts, 'held' | 'memos'> {
  const read = <T>(of: Supervisor, parse: (v: unknown) => T, fresh: T): Look<T> => {
    const path = statePath(p, of, node)
    // An unreadable memory is not an empty one.
    const look = trust.parsed(path, (t) => parse(decodeState(t)), 'the state file cannot be read')
    return look.seen ? { seen: true, value: look.value ?? fresh } : look
  }
  const watchdog = read('chromebox-watchdog', parseMemory, emptyMemory(at))
  const api = read('agent-health', parseCircuit, freshMemory)
  const memos = [
    watchdog.seen ? holdMemo(watchdog.value, at, config) : undefined,
    api.seen ? circuitMemo(api.value, at, config.circuitCooldownMs) : undefined,
  ]
  return {
    held: watchdog.seen ? { seen: true, value: holdOf(watchdog.value, at, config) !== undefined } : watchdog,
    memos: memos.filter((m) => m !== undefined),
  }
}
