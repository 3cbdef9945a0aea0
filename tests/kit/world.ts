import fc from 'fast-check'
import { apiTimeout, type Finding, judgeStatus, rendererDead, unknown } from '../../lib/api/judge.ts'
import type { LayerMark, Supervisor, Verdict } from '../../lib/base/types.ts'
import { judgeBrowser } from '../../lib/browser/judge.ts'
import type { BrowserLook, CdpFinding, PageFinding } from '../../lib/browser/types.ts'
import type { EgressVerdict } from '../../lib/egress/types.ts'
import type { HttpAnswer } from '../../lib/host/http.ts'
import type { InnerAnswer } from '../../lib/relay/types.ts'
import { verdictOf } from '../../lib/supervisors/agent-health/decide.ts'
import { decide as decideRelay } from '../../lib/supervisors/cdp-relay-watchdog/decide.ts'
import type { Observation as RelayObservation } from '../../lib/supervisors/cdp-relay-watchdog/types.ts'
import { decide } from '../../lib/supervisors/chromebox-watchdog/decide.ts'
import { emptyMemory } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Observation } from '../../lib/supervisors/chromebox-watchdog/types.ts'
import { policy } from './chromebox-fixtures.ts'
import { chromium, close, listener, node, owner, units } from './relay-fixtures.ts'
import { ASKED, MAIN, NOW, saw } from './truth-model.ts'

// A node as it is, layer by layer, and what each supervisor sees and says of it.

const WORLD = {
  namespace: ['there', 'there', 'there', 'there', 'missing', 'file'],
  veth: ['well', 'well', 'well', 'well', 'well', 'missing', 'bare', 'down'],
  peer: ['well', 'well', 'well', 'well', 'well', 'missing', 'bare', 'down'],
  tunnel: ['passing', 'passing', 'passing', 'down', 'uplink', 'blind'],
  process: [
    'present',
    'present',
    'present',
    'present',
    'present',
    'absent',
    'stopped',
    'zombie',
    'elsewhere',
  ],
  version: ['answers', 'answers', 'answers', 'answers', 'odd', 'refused', 'silent', 'squatted'],
  list: ['answers', 'answers', 'answers', 'answers', 'silent', 'broken'],
  page: ['well', 'well', 'well', 'missing', 'none', 'error', 'doubtful'],
  relay: ['up', 'up', 'up', 'up', 'down', 'foreign', 'stuck'],
  api: ['ok', 'ok', 'ok', 'timeout', 'http', 'renderer', 'no-slot'],
} as const

type Drawn = { readonly [K in keyof typeof WORLD]: (typeof WORLD)[K][number] }
export type World = Drawn & { readonly tunnelWanted: boolean }

const drawn = fc.record(
  Object.fromEntries(Object.entries(WORLD).map(([k, v]) => [k, fc.constantFrom(...v)])),
) as unknown as fc.Arbitrary<Drawn>

const WELL = Object.fromEntries(Object.entries(WORLD).map(([k, v]) => [k, v[0]])) as Drawn

/** What cannot be otherwise: nobody answers for a browser that is not there or is stopped, but a squatter. */
function settled(w: Drawn): Drawn {
  const gone = w.process !== 'present' && w.process !== 'stopped'
  if (w.version === 'squatted') return w
  if (gone) return { ...w, version: 'refused' }
  return w.process === 'stopped' ? { ...w, version: 'silent' } : w
}

/** Any node; as often one with a single fault, which is what a screen has to find. */
export const worlds: fc.Arbitrary<Drawn> = fc
  .oneof(
    fc.constant(WELL),
    drawn,
    fc.tuple(fc.constantFrom(...(Object.keys(WORLD) as (keyof Drawn)[])), drawn).map(([k, w]) => ({
      ...WELL,
      [k]: w[k],
    })),
  )
  .map(settled)

/** Whether the browser that answers is the node's own. */
const genuine = (w: World): boolean => w.version === 'answers'

export function pageOf(w: World): PageFinding {
  if (w.list === 'broken') return { state: 'missing', detail: '/json/list is not a target list' }
  switch (w.page) {
    case 'well':
      return { state: 'ok', title: 'Chat with muse' }
    case 'missing':
      return { state: 'missing', detail: 'titles: Login' }
    case 'none':
      return { state: 'no-pages', detail: 'no page at all' }
    case 'error':
      return { state: 'error-page', detail: 'error page: muse.example' }
    case 'doubtful':
      return { state: 'doubtful', detail: 'the page does not answer in time' }
  }
}

/** What the two answers amount to, as `readAnswers` has it. */
export function cdpOf(w: World, maySeeSockets: boolean): CdpFinding {
  if (w.version === 'squatted' && maySeeSockets)
    return { state: 'squatted', detail: 'Chrome/156, from pid 12' }
  if (w.version === 'odd') return { state: 'unreachable', detail: "HTTP 200, not a browser's answer" }
  if (w.version === 'refused' || w.version === 'silent') return { state: 'unreachable', detail: w.version }
  if (w.list === 'silent') return { state: 'unreachable', detail: '/json/list: out of time' }
  const proved = genuine(w) && maySeeSockets ? { identity: '4711 1 id' } : {}
  return { state: 'ok', browser: 'Chrome/156', ...proved }
}

export const mainOf = (w: World) =>
  w.process === 'present' || w.process === 'stopped'
    ? { ...MAIN, state: w.process === 'stopped' ? 'T' : 'S' }
    : undefined

function inside(w: World): BrowserLook {
  const main = mainOf(w)
  const process = saw(main)
  const elsewhere = w.process === 'elsewhere' ? [{ ...MAIN, pid: 99 }] : []
  if (main === undefined) return { process, elsewhere }
  const cdp = cdpOf(w, true)
  return { process, elsewhere, cdp: saw(cdp), ...(cdp.state === 'ok' ? { page: saw(pageOf(w)) } : {}) }
}

function egressOf(w: World): EgressVerdict {
  const base = { reason: '', evidence: [], repair: false }
  if (!w.tunnelWanted) return { ...base, state: 'not-configured', code: 'not-configured' }
  switch (w.tunnel) {
    case 'passing':
      return { ...base, state: 'healthy', code: 'ok' }
    case 'down':
      return {
        ...base,
        state: 'unhealthy',
        code: 'egress-no-answer',
        reason: 'egress down: no probe answered',
        repair: true,
      }
    case 'uplink':
      return { ...base, state: 'unhealthy', code: 'uplink-down', reason: 'uplink down' }
    case 'blind':
      return { ...base, state: 'unknown', code: 'egress-unseen', reason: 'egress unknown: no curl' }
  }
}

/** What chromebox-watchdog sees of the node. */
export function watchdogSees(w: World): Observation {
  const isNamespace = w.namespace === 'there'
  const netns = saw({ exists: w.namespace !== 'missing', isNamespace })
  if (!isNamespace) return { node: 'muse', netns }
  return { node: 'muse', netns, egress: egressOf(w), browser: judgeBrowser(inside(w), ASKED) }
}

/** The answer to `/json/version` over the relay. */
export function overRelay(w: World): HttpAnswer {
  const ms = 3
  if (w.veth !== 'well') return { kind: 'unreachable', stage: 'connect', detail: 'no route', ms }
  if (w.peer !== 'well') return { kind: 'timeout', stage: 'connect', detail: 'no answer', ms }
  if (w.relay === 'down') return { kind: 'refused', stage: 'connect', detail: 'refused', ms }
  if (w.relay === 'stuck') return { kind: 'timeout', stage: 'headers', detail: 'no answer', ms }
  const html = { kind: 'answer', status: 200, body: '<html>', ms } as const
  if (w.relay === 'foreign' || w.version === 'odd') return html
  if (w.version === 'refused') return { kind: 'closed', stage: 'headers', detail: 'closed', ms }
  if (w.version === 'silent') return { kind: 'timeout', stage: 'headers', detail: 'no answer', ms }
  const body = '{"Browser":"Chrome/156","webSocketDebuggerUrl":"ws://x/devtools/browser/1"}'
  return { ...html, body }
}

export const answersAsBrowser = (a: HttpAnswer): boolean => a.kind === 'answer' && a.body.startsWith('{')

const linkOf = (name: string, is: World['veth']) =>
  saw({
    name,
    exists: is !== 'missing',
    up: is !== 'down' && is !== 'missing',
    hasAddress: is === 'well' || is === 'down',
  })

const INNER: Readonly<Record<World['version'], InnerAnswer['browser']>> = {
  answers: 'answers',
  squatted: 'answers',
  odd: 'not-a-browser',
  refused: 'refused',
  silent: 'silent',
}

/** What cdp-relay-watchdog sees of the node. */
export function relaySees(w: World): RelayObservation {
  const answer = overRelay(w)
  const base = { node, veth: linkOf('ve-1', w.veth), answer }
  if (answersAsBrowser(answer)) return { ...base, browser: 'Chrome/156' }
  if (w.veth !== 'well') return base
  const netns = { exists: w.namespace !== 'missing', isNamespace: w.namespace === 'there' }
  const own = w.relay === 'up' || w.relay === 'stuck'
  const relay = own ? [listener()] : w.relay === 'foreign' ? [listener({ owners: [owner()] })] : []
  const look = close({
    netns: saw(netns),
    peerLink: linkOf('vp-1', w.peer),
    inner: saw({ browser: INNER[w.version], detail: w.version }),
    units: saw(units({ socketActive: own ? 'active' : 'inactive' })),
    listeners: saw([...relay, chromium]),
  })
  return { ...base, close: look }
}

/** What agent-health finds. */
function apiOf(w: World): Finding {
  if (!answersAsBrowser(overRelay(w))) return unknown('api-unseen', 'CDP unreachable over the relay', 'relay')
  if (w.list !== 'answers') return unknown('api-unseen', 'no target list', 'cdp')
  if (w.page !== 'well') return unknown('api-unseen', 'chat page missing', 'page')
  if (w.api === 'no-slot') return unknown('no-slot', 'no CDP slot', 'cdp')
  if (w.api === 'renderer') return rendererDead
  if (w.api === 'http') return judgeStatus(503)
  const broken = w.tunnelWanted && (w.tunnel === 'down' || w.tunnel === 'uplink')
  if (broken) return unknown('egress-below', 'api timeout, and the tunnel below it: egress down', 'egress')
  return w.api === 'timeout' ? apiTimeout : { kind: 'ok', note: 'http 200' }
}

export interface Said {
  readonly verdict: Verdict
  readonly layers: readonly LayerMark[]
}

/** What a run of a supervisor makes of the node, by its own decision. */
export function says(s: Supervisor, w: World, paused = false): Said {
  if (s === 'chromebox-watchdog') {
    const o = watchdogSees(w)
    const seen = paused ? { ...o, paused: { reason: 'x', by: 'ops' } } : o
    const { verdict, marks: layers } = decide(seen, emptyMemory(NOW), NOW, policy)
    return { verdict, layers }
  }
  if (s === 'cdp-relay-watchdog') {
    const { verdict, marks } = decideRelay(relaySees(w), { attempts: 0 }, NOW, policy)
    return { verdict, layers: marks }
  }
  const verdict = verdictOf(apiOf(w), [])
  const { state, layer = 'api', code, reason: note } = verdict
  if (state === 'healthy') return { verdict, layers: [{ layer: 'api', state: 'ok' }] }
  return { verdict, layers: [{ layer, state: state === 'unhealthy' ? 'fail' : 'unknown', code, note }] }
}
