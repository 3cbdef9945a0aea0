import { existsSync } from 'node:fs'
import { clocks } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { elapsedMs } from '../base/damping.ts'
import { namesIn } from '../base/files.ts'
import { intentPath, type Paths } from '../base/paths.ts'
import { type Look, type Node, type Now, type Receipt, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { provedIdentity } from '../browser/look.ts'
import { parseIntent, pauseLeftMs } from '../store/intent.ts'
import { decide } from './decide.ts'
import { lookAtJournal } from './journal.ts'
import { lookLive } from './live.ts'
import { lookAtLogs } from './logs.ts'
import { type MemoryPolicy, readMemory } from './memory.ts'
import { ownIdMap, Trust } from './owner.ts'
import { hostNamespaces, trustedReceipt } from './receipts.ts'
import { judgeSight, lookAtShell, type Sight } from './sight.ts'
import { lookAtTunnel } from './tunnel.ts'
import type { NodeFacts, NodeVerdict } from './types.ts'
import { lookAtUnits } from './units.ts'

/** systemd answers in some 15 ms; one that does not is a bus in trouble, and status must not hang on it. */
const BUS_DEADLINE_MS = 2_500
/** A bounded query takes tens of milliseconds even on a journal of gigabytes. */
const JOURNAL_DEADLINE_MS = 4_000

export interface Judged {
  readonly node: Node
  readonly facts: NodeFacts
  readonly verdict: NodeVerdict
}

export interface Collected {
  readonly at: Now
  readonly sight: Sight
  readonly judged: readonly Judged[]
}

export interface CollectOptions {
  /** Ask the journal even where the word is clear without it. */
  readonly journal?: boolean
}

/**
 * Looks at everything there is to know about the nodes, side by side, and decides. At most one child
 * process (journalctl, where nothing else decides), whatever the number of nodes.
 */
export async function collect(
  p: Paths,
  config: Pick<Config, 'innerDeadlineMs'> & MemoryPolicy,
  nodes: readonly Node[],
  options: CollectOptions = {},
): Promise<Collected> {
  const at = clocks(p)
  const names = nodes.map((n) => n.name)
  // PID 1 answers while we read files.
  const unitsAsked = lookAtUnits(p, names, at, BUS_DEADLINE_MS)
  const ids = ownIdMap(p.proc)
  const trust = new Trust(p, ids)
  const receipts = new Map(
    names.map((name) => {
      const of = SUPERVISORS.map((s) => [s, trustedReceipt(p, trust, s, name)] as const)
      return [name, Object.fromEntries(of) as Record<Supervisor, Look<Receipt | undefined>>]
    }),
  )
  const hostNs = hostNamespaces(known(receipts.values()), at.bootId) ?? askTheOthers(p, trust, at.bootId)
  const shell = lookAtShell(p, hostNs, ids)
  const sight = judgeSight(shell)
  const identity = (node: string): string | undefined => {
    const look = receipts.get(node)?.['chromebox-watchdog']
    const of = look?.seen === true && look.value?.at.bootId === at.bootId ? look.value : undefined
    return provedIdentity(of)
  }
  const liveAsked = lookLive(p, nodes, shell, sight, config.innerDeadlineMs, identity)
  const logs = lookAtLogs(p, trust)
  // Without our own file the kernel's boot id may be that of another namespace: then the wall clock is all there is.
  const dated: Now = existsSync(p.bootIdFile) ? at : { ...at, bootId: '' }
  const pauses = new Map(names.map((name) => [name, trustedPause(p, trust, name, dated)]))
  const tunnels = new Map(names.map((name) => [name, lookAtTunnel(p, trust, name, at)]))
  const memory = new Map(names.map((name) => [name, readMemory(p, trust, name, dated, config)]))
  const [units, live] = await Promise.all([unitsAsked, liveAsked])
  const missing = { seen: false as const, why: 'not looked' }
  let judged = nodes.flatMap((node): Judged[] => {
    const look = live.get(node.name)
    if (look === undefined) return []
    const facts: NodeFacts = {
      node: node.name,
      retired: node.status === 'retired',
      now: at,
      live: look,
      units: units(node.name),
      receipts:
        receipts.get(node.name) ?? (Object.fromEntries(SUPERVISORS.map((s) => [s, missing])) as never),
      logs: logs(node.name),
      tunnel: tunnels.get(node.name) ?? missing,
      ...pauses.get(node.name),
      held: memory.get(node.name)?.held ?? missing,
      memos: memory.get(node.name)?.memos ?? [],
    }
    return [{ node, facts, verdict: decide(facts) }]
  })
  const ask = judged.filter((j) => options.journal === true || needsJournal(j)).map((j) => j.node.name)
  if (ask.length > 0) {
    const journal = await lookAtJournal(ask, at, JOURNAL_DEADLINE_MS)
    judged = judged.map((j) => {
      if (!ask.includes(j.node.name)) return j
      const facts = { ...j.facts, journal: journal(j.node.name) }
      return { ...j, facts, verdict: decide(facts) }
    })
  }
  return { at, sight, judged }
}

/**
 * Only where nothing else decides, and where runs in the journal could: not when nobody watches the node. A
 * line in a log alone is not enough to go by, because healthy runs after it are silent.
 */
function needsJournal({ facts, verdict }: Judged): boolean {
  if ((verdict.beneath !== 'UNKNOWN' && verdict.source !== 'log') || facts.retired) return false
  return !facts.units.seen || facts.units.value.timers['chromebox-watchdog'].state === 'armed'
}

function* known(all: Iterable<Record<Supervisor, Look<Receipt | undefined>>>): Iterable<Receipt> {
  for (const of of all) for (const look of Object.values(of)) if (look.seen && look.value) yield look.value
}

/** Enough of the fleet's receipts to know the host by, when the nodes that were asked about have none. */
const OTHERS = 12

function askTheOthers(p: Paths, trust: Trust, bootId: string) {
  const found: Receipt[] = []
  for (const s of SUPERVISORS)
    for (const file of namesIn(`${p.receipts}/${s}`)
      .filter((f) => f.endsWith('.json'))
      .slice(0, OTHERS)) {
      const look = trustedReceipt(p, trust, s, file.slice(0, -'.json'.length))
      if (look.seen && look.value) found.push(look.value)
    }
  return hostNamespaces(found, bootId)
}

/** The pause on record, read without touching it (the supervisors repair a corrupt one). */
function trustedPause(
  p: Paths,
  trust: Trust,
  node: string,
  at: Now,
): Pick<NodeFacts, 'intent' | 'pausedBootMs'> {
  const raw = trust.read(intentPath(p, node))
  if (!raw.seen || raw.value === undefined) return {}
  try {
    const pause = parseIntent(JSON.parse(raw.value), node)
    const leftMs = pauseLeftMs(pause, at)
    const pausedBootMs = { from: at.bootMs - elapsedMs(pause.since, at), until: at.bootMs + leftMs }
    const { by, reason } = pause
    return { ...(leftMs > 0 && { intent: { by, reason, untilWallMs: at.wallMs + leftMs } }), pausedBootMs }
  } catch {
    return {}
  }
}
