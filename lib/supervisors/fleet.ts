import { hostname } from 'node:os'
import { mapBounded } from '../base/bounded.ts'
import { monotonicMs, now } from '../base/clock.ts'
import { loadConfig } from '../base/config.ts'
import { deadlineIn } from '../base/deadline.ts'
import type { Paths } from '../base/paths.ts'
import type { Layer, Node } from '../base/types.ts'
import { localNodes, type ParsedRegistry, readRegistry } from '../registry/read.ts'
import { makeLog } from '../report/log.ts'
import { pageConfigFault, pageConfigHealthy } from '../report/page.ts'
import { reportRefused } from '../report/refused.ts'
import { tickSafely } from './tick.ts'
import type { Observed, Outcome, Supervisor, Tick } from './types.ts'

/** A supervisor of many nodes at once. */
export interface FleetSupervisor<O extends Observed, A, M extends object> extends Supervisor<O, A, M> {
  /** The layer that it owns: a run that fails says so of this one. */
  readonly layer: Layer
  /** Nodes that are judged, and repaired, side by side. */
  readonly width: number
  /** The looks at all nodes together, in their order. Default: `observe`, node by node. */
  observeAll?(t: Tick, nodes: readonly Node[]): Promise<readonly O[]>
}

/** How a run over the fleet was asked for. */
export interface Asked extends Pick<Tick, 'named' | 'dryRun' | 'byHand' | 'lockWaitMs'> {
  /** The whole run, in ms. */
  readonly runMs: number
  /** The end of a sentence about a row that is retired or another host's: `its relay is not watched here`. */
  readonly notHere: string
}

export interface Fleet {
  readonly t: Tick
  readonly nodes: readonly Node[]
  /** The registry with the refused rows that this run is about: none when nodes are named. */
  readonly registry: ParsedRegistry
}

/**
 * Reads configuration and registry. When they cannot be used, a run by a timer pages that; a person sees it on the
 * terminal.
 * @throws ConfigError (78); UsageError (64) for a node that is not watched here
 */
export function openFleet(p: Paths, program: string, asked: Asked): Fleet {
  const { named, dryRun, byHand, lockWaitMs } = asked
  const log = makeLog(program, p)
  try {
    const config = loadConfig(p)
    const all = readRegistry(p, config)
    const nodes = localNodes(all, named, hostname(), asked.notHere)
    if (!dryRun) pageConfigHealthy({ p, config, now: now(p), log })
    const tell = (message: string) => {
      if (byHand) console.error(message)
    }
    const deadline = deadlineIn(asked.runMs)
    const t: Tick = { p, config, log, registry: all, deadline, lockWaitMs, byHand, dryRun, named, tell }
    return { t, nodes, registry: named.length === 0 ? all : { ...all, errors: [] } }
  } catch (err) {
    if (!dryRun && !byHand) pageConfigFault(p, log, err)
    throw err
  }
}

/** One tick of every node, side by side. Reports the refused rows first. Never throws for one node. */
export async function tickFleet<O extends Observed, A, M extends object>(
  s: FleetSupervisor<O, A, M>,
  { t, nodes, registry }: Fleet,
): Promise<Outcome<O, A, M>[]> {
  if (!t.dryRun && t.named.length === 0) reportRefused(t.p, s.name, t.log, registry, now(t.p), s.dueMs)
  const began = monotonicMs()
  const looks = await s.observeAll?.(t, nodes)
  return mapBounded(nodes, s.width, (node, i) => {
    const look = looks?.[i]
    const given = look === undefined ? { began: monotonicMs() } : { look, began }
    return tickSafely(s, t, node, s.layer, given)
  })
}
