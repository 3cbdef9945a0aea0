import { seconds } from '../base/text.ts'
import { type Layer, SUPERVISORS } from '../base/types.ts'
import { text } from '../report/codes.ts'
import { answerOf, unanswered } from './live-marks.ts'
import { MAX_PERIODS, OF_THE_BROWSER, OWNER, PERIOD_MS } from './owners.ts'
import { addedSince, blindRun, type Heard, hear, newest, tunnelOf } from './statements.ts'
import type { LayerKnowledge, NodeFacts, NodeVerdict, Readable, Unknown, Word } from './types.ts'
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

/** Whether a layer was seen healthy recently enough, or the node has no such layer. */
function isHealthy(facts: NodeFacts, heard: Heard, k: LayerKnowledge): boolean {
  if (k.state === 'ok' || k.state === 'absent') return true
  if (k.layer !== 'egress' || k.state === 'fail') return false
  // Healthy as a whole, and only whether there is a tunnel is not known: either way the node is up.
  const core = newest(heard, OWNER.egress)
  return core?.tunnelUnknown === true && !addedSince(tunnelOf(facts), core.atBootMs)
}

/** Why a layer is not known to be healthy, and which supervisor looks next. */
function notSeen(facts: NodeFacts, heard: Heard, k: LayerKnowledge): string {
  const who = k.next ?? (k.layer === 'registry' ? OWNER.process : OWNER[k.layer])
  const units = facts.units.seen ? facts.units.value : undefined
  const timer = units?.timers[who]
  const next =
    timer === undefined || timer.state === 'armed'
      ? `${who} checks it next`
      : `nobody checks it, the timer of ${who} is ${timer.state} (${timer.why})`
  const windowMs = MAX_PERIODS * PERIOD_MS[who]
  const agoMs = (sinceBootMs: number | undefined) => facts.now.bootMs - (sinceBootMs ?? -windowMs)
  const [node, browser] = [agoMs(units?.netns.sinceBootMs), agoMs(units?.browser.sinceBootMs)]
  if (k.note !== '') return `${k.layer} not known, ${k.note}: ${next}`
  // Its owner has looked, and something below was in the way.
  const last = newest(heard, who)
  const inTheWay = [...(last?.marks.values() ?? [])].find((m) => m.state === 'unknown' && m.note !== '')
  if (last !== undefined && inTheWay !== undefined)
    return `${k.layer} not known, ${who} ${seconds(facts.now.bootMs - last.atBootMs)} ago: ${inTheWay.note}: ${next}`
  if (OF_THE_BROWSER.has(k.layer) && browser < windowMs)
    return `${k.layer} not seen since the browser started ${seconds(browser)} ago: ${next}`
  if (node < windowMs) return `${k.layer} not seen since the node started ${seconds(node)} ago: ${next}`
  return `${k.layer} not seen in the last ${seconds(windowMs)}: ${next}`
}

interface Found {
  readonly word: Exclude<Word, 'PAUSED'>
  readonly on?: LayerKnowledge | undefined
  readonly reason: string
}

function find(facts: NodeFacts, heard: Heard, layers: readonly LayerKnowledge[]): Found {
  const at = (layer: Layer) => layers.find((l) => l.layer === layer) ?? nothing(layer)
  const process = at('process')
  const answers = isAnswering(facts)
  const broken = layers.find((l) => l.state === 'fail')
  // STOPPED needs a look made now, at the process table or by systemd; what a run saw is past.
  const gone = process.state === 'fail' && (process.source === 'live' || process.source === 'unit')
  if (gone && !answers) return { word: 'STOPPED', on: process, reason: process.note }
  if (broken !== undefined) return { word: 'DEGRADED', on: broken, reason: broken.note }
  // Asked now and not answered is a finding, whoever is at fault.
  const silent = unanswered(facts.live)
  if (silent !== undefined) {
    const reason = `${silent}: ${OWNER.cdp} and ${OWNER.relay} find out which of the two it is`
    return { word: 'DEGRADED', on: { ...nothing('cdp'), source: 'live' }, reason }
  }
  const missing = layers.find((l) => !isHealthy(facts, heard, l))
  if (missing !== undefined) {
    const nowhere = heard.statements.some((s) => s.failedSomewhere && s === newest(heard, s.supervisor))
    if (nowhere) return { word: 'DEGRADED', reason: text('last-run-failed') }
    return { word: 'UNKNOWN', on: missing, reason: notSeen(facts, heard, missing) }
  }
  if (answers) return { word: 'ACTIVE', on: at('cdp'), reason: '' }
  if (newest(heard, OWNER.process) === undefined)
    return { word: 'UNKNOWN', reason: `no recent run of ${OWNER.process} is known` }
  const timer = facts.units.seen ? facts.units.value.timers[OWNER.process] : undefined
  if (timer !== undefined && timer.state !== 'armed')
    return { word: 'UNKNOWN', reason: `nothing watches it: timer ${timer.state} (${timer.why})` }
  return { word: 'ACTIVE [*]', on: oldest(layers), reason: '' }
}

/** A browser answers this very shell. */
const isAnswering = ({ live }: NodeFacts): boolean => answerOf(live)?.kind === 'browser'

/** Evidence is as old as the oldest thing it rests on. */
function oldest(layers: readonly LayerKnowledge[]): LayerKnowledge | undefined {
  return layers
    .filter((l) => l.state === 'ok' && (l.layer === 'cdp' || l.layer === 'netns' || l.layer === 'relay'))
    .reduce<LayerKnowledge | undefined>((a, b) => (a === undefined || b.ageMs > a.ageMs ? b : a), undefined)
}

/**
 * The word for one node. Pure.
 *
 * A live look always wins over evidence, in both directions; evidence counts for the layers that
 * could not be looked at. A hold counts while nothing shows the node up.
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
    else if (found.word !== 'UNKNOWN' || !isAnswering(facts)) found = { ...found, word: 'HELD DOWN' }
    else notes.push('a hold is still recorded')
  }
  const { process, gateway, cdp, page } = facts.live
  const looks = Object.entries({ process, gateway, cdp, page, hold: facts.held })
  const unknowns: Unknown[] = [
    ...heard.unknowns,
    ...looks.flatMap(([what, look]) => (look.seen ? [] : [{ what, why: look.why }])),
  ]
  const paused = facts.intent !== undefined
  if (paused) notes.push(`beneath the pause: ${found.word}`)
  return {
    node: facts.node,
    word: paused ? 'PAUSED' : found.word,
    beneath: found.word,
    ...(found.word === 'DEGRADED' && found.on?.state === 'fail' ? { layer: found.on.layer } : {}),
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

/** What a reading over CDP rests on. */
const READS: readonly Layer[] = ['netns', 'process', 'cdp', 'relay']

/** May anything be read over CDP from this shell, and if not, is that the node's fault or the shell's? Pure. */
export function readable(
  facts: NodeFacts,
  v: NodeVerdict,
): { readonly word: Readable; readonly why: string } {
  const { cdp, listed } = facts.live
  const failing = (...of: Layer[]) => v.layers.some((l) => of.includes(l.layer) && l.state === 'fail')
  if (isAnswering(facts)) {
    // An answer without the browser's process or our relay's socket is somebody else's answer.
    if (failing('process', 'cdp', 'relay')) return { word: 'DOWN', why: v.reason }
    return listed ? { word: 'OK', why: '' } : { word: 'UNKNOWN', why: 'the target list was not read' }
  }
  if (failing(...READS) || unanswered(facts.live) !== undefined || v.beneath === 'HELD DOWN')
    return { word: 'DOWN', why: v.reason }
  // What CDP does not rest on (egress, page, API) may fail or be unknown beside it.
  const watched = !facts.units.seen || facts.units.value.timers[OWNER.cdp].state === 'armed'
  const fine = watched && READS.every((layer) => v.layers.some((l) => l.layer === layer && l.state === 'ok'))
  const why = v.beneath === 'ACTIVE [*]' && !cdp.seen ? cdp.why : v.reason
  return { word: fine ? 'BLIND' : 'UNKNOWN', why }
}
