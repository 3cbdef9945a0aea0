import type { Layer } from '../types.ts'
import { liveMarks } from './live-marks.ts'
import { type Heard, type Statement, tunnelOf } from './statements.ts'
import type { LayerKnowledge, NodeFacts } from './types.ts'

/** The path of a node as the status shows it; `registry` is where the node's name comes from. */
export const PATH: readonly Layer[] = ['netns', 'egress', 'process', 'cdp', 'page', 'relay', 'api']

export const nothing = (layer: Layer, note = ''): LayerKnowledge => ({
  layer,
  state: 'unknown',
  source: 'none',
  ageMs: 0,
  note,
})

type Known = Map<Layer, LayerKnowledge>

const markOf = (
  layer: Layer,
  m: { state: LayerKnowledge['state']; note: string },
  s: Statement,
  now: number,
) => ({
  layer,
  ...m,
  source: s.source,
  ageMs: Math.max(0, now - s.atBootMs),
})

/** Per layer the newest statement, oldest statements first. */
function remembered(facts: NodeFacts, heard: Heard): Known {
  const know: Known = new Map()
  let netnsBlamedBy: Statement['supervisor'] | undefined
  for (const s of heard.statements)
    for (const [layer, m] of s.marks) {
      if (layer === 'netns') {
        // Each supervisor looks at one half of this layer (the namespace; the veth), so one's "ok" does
        // not refute the other's "fail".
        if (m.state !== 'fail' && netnsBlamedBy !== undefined && netnsBlamedBy !== s.supervisor) continue
        netnsBlamedBy = m.state === 'fail' ? s.supervisor : undefined
      }
      // "Well, or without a tunnel" adds nothing to what was seen of it before, unless that was a fault.
      const before = know.get(layer)?.state
      if (layer === 'egress' && s.tunnelNotTold && (before === 'ok' || before === 'absent')) continue
      know.set(layer, markOf(layer, m, s, facts.now.bootMs))
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
  ] as const)
    if (!unit.active && !unit.changing)
      know.set(layer, { layer, state: 'fail', source: 'unit', ageMs: 0, note: `unit ${unit.text}` })
    else if (unit.active && know.get(layer)?.state !== 'fail' && layer !== 'netns')
      know.set(layer, { layer, state: 'ok', source: 'unit', ageMs: 0, note: '' })
}

/** A node without a tunnel has no egress to be well, and one that got its tunnel after the last look has not "none". */
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

function addLive(know: Known, facts: NodeFacts): void {
  const seen = liveMarks(facts.live)
  const answers = seen.some((m) => m.layer === 'cdp' && m.state === 'ok')
  for (const m of seen) {
    const old = know.get(m.layer)
    if (m.state === 'ok' && old?.state === 'fail') {
      // The host's end of the veth is half of the netns layer: alone it does not refute what a run found.
      if (m.layer === 'netns' && old.source !== 'unit' && !answers) continue
      // An answer while our socket is down is somebody else's.
      if (m.layer === 'relay' && old.source === 'unit') {
        know.set('relay', { ...old, note: `something that is not the relay answers (${old.note})` })
        continue
      }
    }
    know.set(m.layer, { ...m, source: 'live', ageMs: 0 })
  }
  if (answers && !facts.live.process.seen)
    know.set('process', { layer: 'process', state: 'ok', source: 'live', ageMs: 0, note: 'answers over CDP' })
}

/** What a layer cannot be well without. The API is checked over the relay and does not live behind it. */
const RESTS_ON: readonly (readonly [Layer, readonly Layer[]])[] = [
  ['cdp', ['process']],
  ['page', ['process', 'cdp']],
  ['api', ['egress', 'process', 'cdp', 'page']],
]

/** In the namespace itself, not at the host's end of the veth: nothing inside is known to have outlived it. */
const NAMESPACE_GONE = /\bnetns \S+ (missing|broken|is not a namespace)/

/** Takes back what was seen well before something below it failed: nobody has seen it since. */
function doubt(know: Known): void {
  const failed = (layer: Layer) => (know.get(layer)?.state === 'fail' ? know.get(layer) : undefined)
  const netns = failed('netns')
  const gone = netns !== undefined && (netns.source === 'unit' || NAMESPACE_GONE.test(netns.note))
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

/** Per layer: what is seen live wins, then systemd's word about the unit as it is now, then the newest statement. Pure. */
export function weigh(facts: NodeFacts, heard: Heard): LayerKnowledge[] {
  const know = remembered(facts, heard)
  addTunnel(know, facts)
  addUnits(know, facts)
  addLive(know, facts)
  doubt(know)
  return PATH.map((layer) => know.get(layer) ?? nothing(layer))
}
