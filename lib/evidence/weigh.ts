import type { Layer } from '../base/types.ts'
import { text } from '../report/codes.ts'
import { liveMarks, unanswered } from './live-marks.ts'
import { OWNER, PATH, VOUCHED } from './owners.ts'
import { type Heard, newest, type Statement, tunnelOf } from './statements.ts'
import type { LayerKnowledge, Mark, NodeFacts } from './types.ts'

export const nothing = (layer: Layer, note = ''): LayerKnowledge => ({
  layer,
  state: 'unknown',
  source: 'none',
  ageMs: 0,
  note,
})

type Known = Map<Layer, LayerKnowledge>

/** One statement about one layer. */
interface Word {
  readonly by: Statement
  readonly mark: Mark
}

const decides = ({ mark }: Word): boolean => mark.state !== 'unknown'

/** "Healthy, or without a tunnel": takes back a fault, and adds nothing to what was seen of the tunnel before. */
const tunnelUnknown = ({ by, mark }: Word): boolean => by.tunnelUnknown === true && mark.state === 'unknown'

/**
 * The one that counts of all statements about a layer, oldest first. An `unknown` never replaces what somebody
 * saw; the owner's word stands before everybody else's, and a fault that was seen is never hidden: another's `fail`
 * counts when it is newer than the owner's `ok`, another's `ok` only where the owner has said nothing. Pure.
 */
export function counts(words: readonly Word[], owner: Statement['supervisor']): Word | undefined {
  const own = words.filter((w) => w.by.supervisor === owner)
  const seen = own.findLast(decides)
  const last = own.findLast((w) => decides(w) || tunnelUnknown(w))
  const said = last !== undefined && seen?.mark.state === 'fail' ? last : (seen ?? last)
  if (said?.mark.state === 'fail') return said
  // Of each of the others the newest: what he saw later he says himself.
  const others = words.filter(
    (w) =>
      w.by.supervisor !== owner &&
      w === words.findLast((x) => x.by.supervisor === w.by.supervisor && decides(x)),
  )
  const fault = others.findLast(
    (w) => w.mark.state === 'fail' && (last === undefined || w.by.atBootMs >= last.by.atBootMs),
  )
  if (fault !== undefined || (said !== undefined && decides(said))) return fault ?? said
  return others.at(-1) ?? said ?? own.at(-1) ?? words.at(-1)
}

/** Which half of the layer a statement is about: the namespace, or the veth that leads into it. */
const ofNamespace = ({ by, mark }: Word): boolean =>
  by.supervisor === OWNER.netns || mark.code === 'netns-missing' || mark.code === 'netns-unseen'

/** Two looks at two halves: a healthy one refutes no fault of the other, and is not the whole. */
function netnsKnown(words: readonly Word[], now: number): LayerKnowledge | undefined {
  const namespace = counts(words.filter(ofNamespace), OWNER.netns)
  const veth = counts(
    words.filter((w) => !ofNamespace(w)),
    OWNER.relay,
  )
  const halves = [namespace, veth].filter((w) => w !== undefined)
  const fault = halves.find((w) => w.mark.state === 'fail') ?? halves.find((w) => !decides(w))
  if (fault !== undefined) return knownBy('netns', fault, now)
  if (namespace === undefined && veth === undefined) return undefined
  if (veth === undefined) return { ...nothing('netns', 'the veth was not seen'), next: OWNER.relay }
  if (namespace === undefined) return nothing('netns', 'only its veth was seen')
  // As old as the older of the two.
  return knownBy('netns', veth.by.atBootMs < namespace.by.atBootMs ? veth : namespace, now)
}

const knownBy = (layer: Layer, { by, mark }: Word, now: number): LayerKnowledge => ({
  layer,
  ...mark,
  source: by.source,
  ageMs: Math.max(0, now - by.atBootMs),
})

/** Per layer what counts of all that was said. */
function remembered(facts: NodeFacts, heard: Heard): Known {
  const know: Known = new Map()
  for (const layer of PATH) {
    const words = heard.statements.flatMap((by): Word[] => {
      const mark = by.marks.get(layer)
      return mark === undefined ? [] : [{ by, mark }]
    })
    const now = facts.now.bootMs
    const word = layer === 'netns' ? undefined : counts(words, OWNER[layer])
    const own = layer === 'netns' ? netnsKnown(words, now) : undefined
    const known = word === undefined ? own : knownBy(layer, word, now)
    if (known !== undefined) know.set(layer, known)
  }
  // A run that found a fault and did not say where takes back what was seen healthy before it.
  for (const s of heard.statements) {
    if (!s.failedSomewhere || s !== newest(heard, s.supervisor)) continue
    const ageMs = facts.now.bootMs - s.atBootMs
    for (const layer of VOUCHED[s.supervisor]) {
      const k = know.get(layer)
      if (k?.state === 'ok' && k.ageMs >= ageMs) know.set(layer, nothing(layer, text('last-run-failed')))
    }
  }
  return know
}

/** What systemd says of the units as they are now. */
function addUnits(know: Known, facts: NodeFacts): void {
  if (!facts.units.seen) return
  const u = facts.units.value
  for (const [layer, unit] of [
    ['netns', u.netns],
    ['process', u.browser],
    ['relay', u.relay],
  ] as const) {
    const old = know.get(layer)
    // A fault that is known keeps its code when systemd says the same.
    const code = old?.state === 'fail' ? old.code : undefined
    const now = { layer, source: 'unit', ageMs: 0 } as const
    if (!unit.active && !unit.changing)
      know.set(layer, { ...now, state: 'fail', code, note: `unit ${unit.text}` })
    // A socket that listens and a namespace that was made are no look at what answers there.
    else if (layer === 'process' && unit.active && old?.state !== 'fail')
      know.set(layer, { ...now, state: 'ok', note: '' })
  }
}

/** A node without a tunnel has no egress to be healthy, and one that got its tunnel after the last look has not "none". */
function addTunnel(know: Known, facts: NodeFacts): void {
  const tunnel = tunnelOf(facts)
  if (tunnel === undefined) return
  const { source, sinceBootMs } = tunnel
  const ageMs = Math.max(0, facts.now.bootMs - sinceBootMs)
  const said = know.get('egress')
  const older = said === undefined || said.ageMs >= ageMs || source === 'live'
  if (!tunnel.configured && older)
    know.set('egress', { layer: 'egress', state: 'absent', source, ageMs, note: 'not configured' })
  if (tunnel.configured && older && said?.state === 'absent')
    know.set('egress', nothing('egress', 'a tunnel was configured since the last look'))
  const down = facts.units.seen ? facts.units.value.tunnel?.down : undefined
  // A run that looked after it stopped knows better: somebody may have taken the configuration away first.
  if (!tunnel.configured || down === undefined) return
  if (said !== undefined && facts.now.bootMs - said.ageMs > down.sinceBootMs) return
  const note = `egress down: netvm-tunnel@${facts.node} is ${down.text}`
  know.set('egress', { layer: 'egress', state: 'fail', source: 'unit', ageMs: 0, note })
}

/** Whether a live look that finds a layer healthy takes back the fault that is known of it. */
function refutes(facts: NodeFacts, fault: LayerKnowledge): boolean {
  const { cdp } = facts.live
  const found = cdp.seen && cdp.value.kind === 'browser' ? cdp.value.found : undefined
  // The look that finds the layer healthy has seen the name again.
  if (fault.code === 'netns-missing') return true
  // The host's end of the veth is half of the layer: without an answer it says nothing of the other end.
  if (fault.layer === 'netns') return fault.source === 'unit' || found !== undefined
  // An answer is somebody's, and whose is seen at the process. A browser started since has voided the watchdog's word
  // already; one that runs outside its unit is not what systemd looks at.
  if (fault.layer === 'process') return facts.live.process.seen || fault.code === undefined
  // An answer while our socket is down is somebody else's.
  if (fault.layer === 'relay') return fault.source !== 'unit'
  // Another's answer is as well-formed as the browser's; only a look at the sockets distinguishes them.
  if (fault.code === 'port-squatted') return found?.state === 'ok' && found.identity !== undefined
  return true
}

function addLive(know: Known, facts: NodeFacts): void {
  const silent = unanswered(facts.live)
  if (silent !== undefined)
    for (const layer of ['cdp', 'page', 'relay'] as const)
      if (know.get(layer)?.state === 'ok') know.set(layer, nothing(layer, silent))
  for (const m of liveMarks(facts.live)) {
    const old = know.get(m.layer)
    if (old?.state === 'fail' && (m.state === 'unknown' || (m.state === 'ok' && !refutes(facts, old)))) {
      if (m.layer === 'relay')
        know.set('relay', { ...old, note: `something that is not the relay answers (${old.note})` })
      // What lists its pages is not the node's browser.
      if (m.layer === 'cdp') break
      continue
    }
    know.set(m.layer, { ...m, source: 'live', ageMs: 0 })
  }
}

/** What a layer cannot be healthy without. The API is checked over the relay and does not live behind it. */
const RESTS_ON: readonly (readonly [Layer, readonly Layer[]])[] = [
  ['cdp', ['process']],
  ['page', ['process', 'cdp']],
  ['api', ['egress', 'process', 'cdp', 'page']],
]

/** Takes back what was seen healthy before something below it failed: it was not seen since. */
function doubt(know: Known): void {
  const failed = (layer: Layer) => (know.get(layer)?.state === 'fail' ? know.get(layer) : undefined)
  const netns = failed('netns')
  // The namespace itself, not an end of the veth: nothing inside is known to have outlived it.
  const gone = netns !== undefined && (netns.source === 'unit' || netns.code === 'netns-missing')
  for (const layer of PATH) {
    const k = know.get(layer)
    if (k === undefined || k.state !== 'ok' || k.source === 'live') continue
    const below = RESTS_ON.find(([l]) => l === layer)?.[1].map(failed) ?? []
    if (gone && layer !== 'netns') below.push(netns)
    // systemd's socket listens on its address even when no interface has it (FreeBind=).
    const cut = layer === 'relay' && netns !== undefined ? netns : undefined
    const fault = cut ?? below.find((b) => b !== undefined && b.ageMs < k.ageMs)
    if (fault !== undefined) know.set(layer, nothing(layer, `not seen since ${fault.layer} failed`))
  }
}

/** Per layer: what is seen live wins, then systemd's word about the unit as it is now, then what was said. Pure. */
export function weigh(facts: NodeFacts, heard: Heard): LayerKnowledge[] {
  const know = remembered(facts, heard)
  addTunnel(know, facts)
  addUnits(know, facts)
  addLive(know, facts)
  doubt(know)
  return PATH.map((layer) => know.get(layer) ?? nothing(layer))
}
