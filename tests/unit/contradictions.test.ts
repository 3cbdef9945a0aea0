import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import fc from 'fast-check'
import type { Layer, LayerMark, Node, Receipt } from '../../lib/base/types.ts'
import { decide, readable } from '../../lib/evidence/decide.ts'
import { exitOf, perSupervisor } from '../../lib/evidence/report.ts'
import type { LayerKnowledge, NodeFacts, NodeVerdict } from '../../lib/evidence/types.ts'
import { entryOf } from '../../lib/report/codes.ts'
import { topologyExit } from '../../lib/topology/command.ts'
import { judge, museLook } from '../kit/topology-fixtures.ts'
import { NOW, receipt, SUPERVISORS, saw } from '../kit/truth-model.ts'
import { SHELLS, type Shell } from '../kit/truth-table.ts'
import { relaySees, says, type World, watchdogSees } from '../kit/world.ts'
import { factsOf, type History, histories, seesSockets } from '../kit/world-facts.ts'

// One node, as every program sees it at the same time: no two may contradict each other.

const SEQUENCES = 10_000
const seed = Number(process.env.SEED ?? Date.now() % 1e9)

type Truth = ReadonlyMap<Layer, LayerMark['state']>

/** What each layer's owner says of a node that is so, now. */
function truth(w: World): Truth {
  const [watchdog, relay, api] = SUPERVISORS.map((s) => says(s, w).layers)
  const at = (marks: readonly LayerMark[] | undefined, layer: Layer) =>
    marks?.find((m) => m.layer === layer)?.state ?? 'not-checked'
  const halves = [at(watchdog, 'netns'), at(relay, 'netns')]
  const netns = halves.includes('fail') ? 'fail' : halves.every((s) => s === 'ok') ? 'ok' : 'unknown'
  const own = (['egress', 'process', 'cdp', 'page'] as const).map((l) => [l, at(watchdog, l)] as const)
  return new Map([['netns', netns], ...own, ['relay', at(relay, 'relay')], ['api', at(api, 'api')]])
}

interface Screen {
  readonly shell: Shell
  readonly facts: NodeFacts
  readonly verdict: NodeVerdict
}

interface Case {
  readonly h: History
  readonly now: Truth
  /** As it was before it changed. */
  readonly earlier: Truth
  readonly screens: readonly Screen[]
}

/** A mark that speaks of the node as it is now: seen live, told by systemd, or said by a run since it became so. */
const ofNow = (h: History, k: LayerKnowledge): boolean =>
  k.source === 'live' ||
  (k.source === 'unit' && k.ageMs === 0) ||
  (k.source !== 'none' && k.ageMs < h.changedMs - 20)

/** Nothing has changed since anybody looked: then nobody may be wrong. */
const still = (h: History): boolean => h.runs.every((r) => r.ageMs < h.changedMs - 20)

/**
 * Another's answer on the browser's port is as well-formed as the browser's. Who may not look at sockets knows only once
 * the watchdog has said so.
 */
function fooled(h: History, { shell }: Screen): boolean {
  if (h.after.version !== 'squatted' || seesSockets(shell)) return false
  const last = h.runs.findLast((r) => r.supervisor === 'chromebox-watchdog')
  const told = last !== undefined && last.ageMs < Math.min(h.changedMs - 20, 360_000)
  return !told || h.otherBoot === 'chromebox-watchdog'
}

/** Every property of one case, by its name; it says what is wrong, or nothing. */
const PROPERTIES: Readonly<Record<string, (c: Case, s: Screen) => string | undefined>> = {
  'a layer is not well on one screen and failing for its owner, who looks at the same time': (c, s) => {
    if (fooled(c.h, s)) return undefined
    for (const k of s.verdict.layers) {
      const pair = `${k.state} ${c.now.get(k.layer)}`
      if (ofNow(c.h, k) && (pair === 'ok fail' || pair === 'fail ok')) return `${k.layer} ${pair}`
    }
    return undefined
  },
  'ACTIVE is said only of a node whose every layer was seen well, within its time, and fails nowhere': (
    c,
    s,
  ) => {
    if (!s.verdict.beneath.startsWith('ACTIVE')) return undefined
    for (const k of s.verdict.layers) {
      const mayBeNone = k.layer === 'egress' && !s.facts.tunnel.seen
      if (k.state !== 'ok' && k.state !== 'absent' && !mayBeNone) return `${k.layer} ${k.state}`
      if (k.state === 'absent' && k.layer !== 'egress') return `${k.layer} absent`
      if (k.state === 'ok' && k.ageMs > 900_000) return `${k.layer} is old`
      // The two halves of the namespace's layer are seen at two times.
      const halves = k.layer === 'netns' && k.source !== 'live'
      if (k.source === 'none' || halves || fooled(c.h, s)) continue
      const then = k.ageMs > c.h.changedMs ? c.earlier : c.now
      if (then.get(k.layer) === 'fail') return `${k.layer} was failing then`
    }
    if (still(c.h) && !fooled(c.h, s))
      for (const [layer, state] of c.now) if (state === 'fail') return `${layer} fails`
    return undefined
  },
  'the exit status, the layer and the reason go with the word': (c, s) => {
    const { beneath, word, layer, layers, reason } = s.verdict
    const status = beneath.startsWith('ACTIVE') ? 0 : beneath === 'UNKNOWN' ? 2 : 1
    const judged = { node: { name: 'muse' } as Node, facts: s.facts, verdict: s.verdict }
    if (exitOf({ judged: [judged] }, 0) !== status) return `not ${status}`
    if ((word === 'PAUSED') !== c.h.paused) return 'the pause'
    if (status !== 0 && reason === '') return 'no reason'
    const on = layers.find((k) => k.layer === layer)
    return layer !== undefined && on?.state !== 'fail' ? `${layer} does not fail` : undefined
  },
  'approvals are OK only where CDP answers, the list was read, and the watchdog finds CDP well': (c, s) => {
    const { word } = readable(s.facts, s.verdict)
    const cdp = s.verdict.layers.find((k) => k.layer === 'cdp')
    if (word === 'BLIND' && cdp?.state !== 'ok') return 'BLIND without evidence'
    if (word !== 'OK') return undefined
    if (!s.facts.live.listed || c.h.after.list !== 'answers') return 'no list'
    return c.now.get('cdp') === 'fail' && !fooled(c.h, s) ? 'the watchdog finds CDP failing' : undefined
  },
  'a fault stays one, whatever another does not know later': (_, s) => {
    const later = decide({ ...s.facts, receipts: { ...s.facts.receipts, 'agent-health': saw(VAGUE) } })
    for (const k of s.verdict.layers)
      if (k.state === 'fail' && k.layer !== 'api')
        if (later.layers.find((l) => l.layer === k.layer)?.state !== 'fail') return k.layer
    // Its owner has run again and could not tell; the line of the run before is in the log.
    for (const line of s.facts.logs.seen ? s.facts.logs.value : []) {
      const k = s.verdict.layers.find((l) => l.layer === line.layer)
      if (k?.state !== 'fail' || k.source !== 'receipt') continue
      const own = { ...VAGUE, supervisor: line.supervisor }
      const again = decide({ ...s.facts, receipts: { ...s.facts.receipts, [line.supervisor]: saw(own) } })
      if (again.layers.find((l) => l.layer === k.layer)?.state !== 'fail') return `${k.layer}, by its owner`
    }
    return undefined
  },
  'host-evidence finds no supervisor unhealthy behind an ACTIVE': (c, s) => {
    if (!still(c.h) || !s.verdict.beneath.startsWith('ACTIVE')) return undefined
    const judged = { node: { name: 'muse' } as Node, facts: s.facts, verdict: s.verdict }
    return perSupervisor(judged).find((e) => e.verdict === 'unhealthy')?.supervisor
  },
  'topology says of every layer what its owner says': ({ h, now }, s) => {
    if (s.shell !== 'root') return undefined
    const look = { ...museLook, watchdog: watchdogSees(h.after), relay: relaySees(h.after) }
    const t = judge({ nodes: new Map([['muse', look]]) })
    const part = (name: string) => t.nodes[0]?.parts.find((p) => p.part === name)?.state
    for (const layer of ['egress', 'process', 'cdp', 'page', 'relay'] as const)
      if (part(layer) !== now.get(layer)) return `${layer} ${part(layer)}`
    if (now.get('netns') === 'ok' && (part('veth') !== 'ok' || part('netns') !== 'ok')) return 'netns'
    // The fixture's own end of the veth in the namespace is always well.
    const broken = [...now].some(([layer, state]) => layer !== 'api' && state === 'fail')
    return broken && h.after.peer === 'well' && topologyExit(t) !== 1 ? 'exit status' : undefined
  },
  'every code that is told of a layer is in the table': ({ h }, s) => {
    for (const by of s.shell === 'root' ? SUPERVISORS : []) {
      const { verdict, layers } = says(by, h.after, h.paused)
      const told = layers
        .filter((m) => m.state === 'fail' || m.state === 'unknown')
        .map((m) => m.code ?? 'none')
      if (verdict.state !== 'healthy') told.push(verdict.code)
      for (const code of told) if (entryOf(code) === undefined) return `${by}: ${code}`
    }
    const codes = s.verdict.layers.flatMap(
      (k) => k.code ?? (k.state === 'fail' && k.source === 'live' ? 'none' : []),
    )
    return codes.find((code) => entryOf(code) === undefined)
  },
}

/** What agent-health leaves when it could not get to the API for whatever is below it. */
const VAGUE: Receipt = {
  ...receipt('agent-health', undefined, { at: { ...NOW, bootMs: NOW.bootMs - 50 } }),
  verdict: { state: 'unknown', layer: 'egress', code: 'egress-below', reason: 'x', evidence: [] },
  layers: (['netns', 'egress', 'process', 'cdp', 'page', 'relay'] as const).map((layer) => ({
    layer,
    state: 'unknown',
  })),
}

describe('every screen, whatever the node, its history and the shell', () => {
  const wrong = new Map<string, string>()
  const words = new Map<string, number>()
  before(() => {
    for (const h of fc.sample(histories, { numRuns: SEQUENCES, seed })) {
      const screens = SHELLS.map((shell): Screen => {
        const facts = factsOf(h, shell)
        return { shell, facts, verdict: decide(facts) }
      })
      const c: Case = { h, now: truth(h.after), earlier: truth(h.before), screens }
      for (const s of screens) {
        for (const w of [s.verdict.beneath, readable(s.facts, s.verdict).word])
          words.set(w, (words.get(w) ?? 0) + 1)
        for (const [name, property] of Object.entries(PROPERTIES)) {
          if (wrong.has(name)) continue
          const what = property(c, s)
          if (what !== undefined)
            wrong.set(
              name,
              `${what}, seen by ${s.shell}: ${s.verdict.word} ${JSON.stringify(s.verdict.layers)} of ${JSON.stringify(h)}`,
            )
        }
      }
    }
  })
  for (const name of Object.keys(PROPERTIES))
    it(name, () => assert.equal(wrong.get(name), undefined, `SEED=${seed}: ${wrong.get(name)}`))
  it('says every word often enough for that to mean something', () => {
    for (const w of [
      'ACTIVE',
      'ACTIVE [*]',
      'DEGRADED',
      'STOPPED',
      'HELD DOWN',
      'UNKNOWN',
      'OK',
      'BLIND',
      'DOWN',
    ])
      assert.ok((words.get(w) ?? 0) > 100, `${w}: ${words.get(w)}`)
  })
})
