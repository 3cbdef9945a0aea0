import type { Layer, Look } from '../types.ts'
import {
  addedSince,
  blindRun,
  type Heard,
  hear,
  type Statement,
  SUPERVISORS,
  tunnelOf,
} from './statements.ts'
import type { LayerKnowledge, NodeFacts, NodeVerdict, Readable, Word } from './types.ts'
import { nothing, weigh } from './weigh.ts'

function notesOf(facts: NodeFacts): string[] {
  const notes: string[] = [...facts.memos]
  if (facts.units.seen)
    for (const [name, t] of Object.entries(facts.units.value.timers))
      if (t.state !== 'armed') notes.push(`timer of ${name} ${t.state}: ${t.why}`)
      else if (!t.enabled) notes.push(`timer of ${name} is not enabled: it will not be back after a reboot`)
  for (const s of SUPERVISORS) {
    const why = blindRun(facts, s)
    if (why !== undefined) notes.push(why)
  }
  const ran = facts.units.seen ? facts.units.value.tunnel : undefined
  if (
    facts.tunnel.seen &&
    !facts.tunnel.value.configured &&
    ran?.configured === true &&
    ran.down === undefined
  )
    notes.push('its tunnel runs without its configuration, and nobody looks at it')
  for (const look of Object.values(facts.receipts)) {
    if (!look.seen || look.value?.at.bootId !== facts.now.bootId) continue
    const r = look.value
    if (facts.now.bootMs > r.nextDueBootMs + 30_000) notes.push(`${r.supervisor} is overdue`)
  }
  return notes
}

const newest = (heard: Heard, s: Statement['supervisor']): Statement | undefined =>
  heard.statements.findLast((x) => x.supervisor === s)

/** Why evidence alone does not say ACTIVE; undefined when it does. */
function lacking(facts: NodeFacts, heard: Heard, layers: readonly LayerKnowledge[]): string | undefined {
  const core = newest(heard, 'chromebox-watchdog')
  if (core === undefined) return 'no recent run of chromebox-watchdog is known'
  if (!core.healthy) return 'the last run of chromebox-watchdog was not healthy'
  if (facts.units.seen) {
    const timer = facts.units.value.timers['chromebox-watchdog']
    if (timer.state !== 'armed') return `nothing watches it: timer ${timer.state} (${timer.why})`
  }
  for (const layer of ['netns', 'egress', 'process', 'cdp', 'relay'] as const) {
    const k = layers.find((l) => l.layer === layer)
    // Well as a whole, and only whether there is a tunnel is not known: either way the node is up.
    if (layer === 'egress' && core.tunnelNotTold && !addedSince(tunnelOf(facts), core.atBootMs)) continue
    if (k?.state !== 'ok' && k?.state !== 'absent') return `${layer} not known`
  }
  // The restart of a browser voids what was said of it before, whoever said it.
  if (!core.marks.has('cdp')) return 'the browser was started again since the last run'
  return undefined
}

interface Found {
  readonly word: Exclude<Word, 'PAUSED'>
  readonly on?: LayerKnowledge | undefined
  readonly reason: string
}

function find(facts: NodeFacts, heard: Heard, layers: readonly LayerKnowledge[]): Found {
  const at = (layer: Layer) => layers.find((l) => l.layer === layer) ?? nothing(layer)
  const [process, cdp] = [at('process'), at('cdp')]
  const answers = cdp.source === 'live' && cdp.state === 'ok'
  const broken = layers.find((l) => l.state === 'fail')
  // STOPPED needs a look made now, at the process table or by systemd; what a run saw is history.
  const gone = process.state === 'fail' && (process.source === 'live' || process.source === 'unit')
  if (gone && !answers) return { word: 'STOPPED', on: process, reason: process.note }
  if (broken !== undefined) return { word: 'DEGRADED', on: broken, reason: broken.note }
  const page = at('page')
  // Looked at now and not told apart from an error page: that is not well, whatever a run saw before.
  if (answers && page.source === 'live' && page.state === 'unknown')
    return { word: 'UNKNOWN', on: page, reason: page.note }
  if (answers) return { word: 'ACTIVE', on: cdp, reason: '' }
  if (heard.statements.some((s) => s.failedSomewhere && s === newest(heard, s.supervisor)))
    return { word: 'DEGRADED', reason: 'the last run found a fault and did not say where' }
  const why = lacking(facts, heard, layers)
  if (why === undefined) return { word: 'ACTIVE [*]', on: oldest(layers), reason: '' }
  return { word: 'UNKNOWN', reason: why }
}

/** Evidence is as old as the oldest thing it rests on. */
function oldest(layers: readonly LayerKnowledge[]): LayerKnowledge | undefined {
  return layers
    .filter((l) => l.state === 'ok' && (l.layer === 'cdp' || l.layer === 'netns' || l.layer === 'relay'))
    .reduce<LayerKnowledge | undefined>((a, b) => (a === undefined || b.ageMs > a.ageMs ? b : a), undefined)
}

/**
 * The word for one node. Pure.
 *
 * A live look always wins over evidence, in both directions; evidence speaks for the layers nobody
 * could look at. A hold counts while nothing shows the node up.
 */
export function decide(facts: NodeFacts): NodeVerdict {
  const heard = hear(facts)
  const layers = weigh(facts, heard)
  let found = find(facts, heard, layers)
  const held = facts.held.seen && facts.held.value
  const notes = notesOf(facts)
  if (facts.retired) {
    notes.push('retired in the registry')
  } else if (held) {
    if (found.word === 'ACTIVE' || found.word === 'ACTIVE [*]') notes.push('a hold is still recorded')
    else found = { ...found, word: 'HELD DOWN' }
  }
  const unknowns = [...heard.unknowns]
  for (const [what, look] of Object.entries(facts.live) as [string, Look<unknown> | string][])
    if (typeof look !== 'string' && !look.seen) unknowns.push(`${what}: ${look.why}`)
  if (!facts.held.seen) unknowns.push(`hold: ${facts.held.why}`)
  const paused = facts.intent !== undefined
  if (paused) notes.push(`beneath the pause: ${found.word}`)
  return {
    node: facts.node,
    word: paused ? 'PAUSED' : found.word,
    beneath: found.word,
    ...(found.word === 'DEGRADED' && found.on !== undefined ? { layer: found.on.layer } : {}),
    reason: found.reason,
    source: found.on?.source ?? 'none',
    ageMs: found.on?.ageMs ?? 0,
    layers,
    notes,
    unknowns,
  }
}

/** The word as it is printed: `DEGRADED relay`. */
export function phrase(v: Pick<NodeVerdict, 'word' | 'layer'>): string {
  if (v.word !== 'DEGRADED') return v.word
  return `DEGRADED ${v.layer ?? '(layer not known)'}`
}

/** May anything be read over CDP from this shell, and if not, is that the node's fault or the shell's? Pure. */
export function readable(
  facts: NodeFacts,
  v: NodeVerdict,
): { readonly word: Readable; readonly why: string } {
  const cdp = facts.live.cdp
  const noVeth = facts.live.gateway.seen && !facts.live.gateway.value
  if (cdp.seen && cdp.value.kind === 'browser' && !noVeth) {
    // An answer without the browser's process or our relay's socket is somebody else's answer.
    const impostor = v.layers.some(
      (l) => (l.layer === 'process' || l.layer === 'relay') && l.state === 'fail',
    )
    return impostor ? { word: 'DOWN', why: v.reason } : { word: 'OK', why: '' }
  }
  if (v.beneath === 'ACTIVE [*]') return { word: 'BLIND', why: cdp.seen ? '' : cdp.why }
  if (v.beneath === 'UNKNOWN') return { word: 'UNKNOWN', why: v.reason }
  const reads: readonly Layer[] = ['netns', 'process', 'cdp', 'relay']
  if (v.beneath === 'DEGRADED' && v.layer !== undefined && !reads.includes(v.layer)) {
    const fine = v.layers.find((l) => l.layer === 'cdp')?.state === 'ok'
    return fine ? { word: 'BLIND', why: v.reason } : { word: 'UNKNOWN', why: v.reason }
  }
  return { word: 'DOWN', why: v.reason }
}
