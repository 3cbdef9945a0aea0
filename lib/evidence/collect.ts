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

/**
 * Looks at everything there is to know about the nodes, side by side, and decides. At most one child
 * process (journalctl, where nothing else decides), whatever the number of nodes.
 * @param journal ask the journal even where the word is clear without it
 */
export async function collect(
  p: Paths,
  config: Pick<Config, 'innerDeadlineMs'> & MemoryPolicy,
  nodes: readonly Node[],
  journal = false,
): Promise<Collected> {
  const at = clocks(p)
  const names = nodes.map((n) => n.name)
  // PID 1 answers while we read files.
  const unitsAsked = lookAtUnits(p, names, at, BUS_DEADLINE_MS)
  const ids = ownIdMap(p.proc)
  const trust = new Trust(p, ids)
  const receipts = new Map(names.map((name) => [name, receiptsOf(p, trust, name)]))
  const looks = [...receipts.values()].flatMap((of) => Object.values(of))
  const hostNs = hostNamespaces(there(looks), at.bootId) ?? askTheOthers(p, trust, at.bootId)
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
  const read = nodes.map((node) => ({
    node,
    facts: {
      node: node.name,
      retired: node.status === 'retired',
      now: at,
      receipts: receipts.get(node.name) ?? receiptsOf(p, trust, node.name),
      logs: logs(node.name),
      tunnel: lookAtTunnel(p, trust, node.name, at),
      ...trustedPause(p, trust, node.name, dated),
      ...readMemory(p, trust, node.name, dated, config),
    },
  }))
  const [units, live] = await Promise.all([unitsAsked, liveAsked])
  const judge = (node: Node, facts: NodeFacts): Judged => ({ node, facts, verdict: decide(facts) })
  let judged = read.flatMap(({ node, facts }) => {
    const look = live.get(node.name)
    return look === undefined ? [] : [judge(node, { ...facts, live: look, units: units(node.name) })]
  })
  const ask = judged.filter((j) => journal || needsJournal(j)).map((j) => j.node.name)
  if (ask.length > 0) {
    const runs = await lookAtJournal(ask, at, JOURNAL_DEADLINE_MS)
    judged = judged.map((j) =>
      ask.includes(j.node.name) ? judge(j.node, { ...j.facts, journal: runs(j.node.name) }) : j,
    )
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

function receiptsOf(p: Paths, trust: Trust, node: string): NodeFacts['receipts'] {
  const of = SUPERVISORS.map((s) => [s, trustedReceipt(p, trust, s, node)] as const)
  return Object.fromEntries(of) as Record<Supervisor, Look<Receipt | undefined>>
}

const there = (looks: readonly Look<Receipt | undefined>[]): Receipt[] =>
  looks.flatMap((look) => (look.seen && look.value ? [look.value] : []))

/** Enough of the fleet's receipts to know the host by, when the nodes that were asked about have none. */
const OTHERS = 12

function askTheOthers(p: Paths, trust: Trust, bootId: string) {
  const looks = SUPERVISORS.flatMap((s) => {
    const files = namesIn(`${p.receipts}/${s}`).filter((f) => f.endsWith('.json'))
    return files.slice(0, OTHERS).map((f) => trustedReceipt(p, trust, s, f.slice(0, -'.json'.length)))
  })
  return hostNamespaces(there(looks), bootId)
}

/** The pause on record, read without touching it (the supervisors repair a corrupt one). */
function trustedPause(
  p: Paths,
  trust: Trust,
  node: string,
  at: Now,
): Pick<NodeFacts, 'intent' | 'pausedBootMs'> {
  const look = trust.parsed(intentPath(p, node), (json) => parseIntent(JSON.parse(json), node))
  const pause = look.seen ? look.value : undefined
  if (pause === undefined) return {}
  const leftMs = pauseLeftMs(pause, at)
  const pausedBootMs = { from: at.bootMs - elapsedMs(pause.since, at), until: at.bootMs + leftMs }
  const { by, reason } = pause
  return { ...(leftMs > 0 && { intent: { by, reason, untilWallMs: at.wallMs + leftMs } }), pausedBootMs }
}
