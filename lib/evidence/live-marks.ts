import type { Layer, Verdict } from '../base/types.ts'
import { judgeBrowser } from '../browser/judge.ts'
import type { BrowserLook } from '../browser/types.ts'
import { judgeNetns } from '../netns/judge.ts'
import { text } from '../report/codes.ts'
import type { CdpAnswer, FactState, LiveFacts, Mark } from './types.ts'

type LiveMark = Mark & { readonly layer: Layer }

function mark(layer: Layer, state: FactState, note = '', code?: string): LiveMark {
  return { layer, state, note, code }
}

const reasonOf = ({ reason, evidence }: Verdict): string =>
  evidence.length === 0 ? reason : `${reason} (${evidence.join('; ')})`

/** Without the host's end of the veth an answer cannot have come from this node. */
export function answerOf(live: LiveFacts): CdpAnswer | undefined {
  const noVeth = live.gateway.seen && !live.gateway.value
  return live.cdp.seen && !noVeth ? live.cdp.value : undefined
}

/**
 * Asked over the relay and not answered as a browser answers, which alone does not show whether the browser or the
 * relay is at fault: the watchdog looks from inside the namespace. Undefined when the answer is conclusive.
 */
export function unanswered(live: LiveFacts): string | undefined {
  const answer = answerOf(live)
  switch (answer?.kind) {
    case 'closed':
      return 'the connection to the relay was closed without an answer'
    case 'timeout':
      return `no answer over the relay in ${answer.afterMs} ms`
    case 'not-a-browser':
      return `something that is no browser answers: ${answer.detail}`
    default:
      return undefined
  }
}

function netnsMark(live: LiveFacts): LiveMark | undefined {
  const { gateway, cdp } = live
  const named = judgeNetns(live.netns.name, live.netns.look)
  // What runs in a namespace that lost its name may go on answering; nobody can enter it to watch or repair it.
  if (named.state === 'unhealthy') return mark('netns', 'fail', reasonOf(named), named.code)
  if (!gateway.seen) return undefined
  if (!gateway.value) return mark('netns', 'fail', 'the veth has no address on the host', 'veth-no-address')
  if (cdp.seen && cdp.value.kind === 'unreachable')
    return mark('netns', 'fail', cdp.value.detail, 'relay-unreachable')
  // The way to the node is one half of the layer; whether its namespace has its name is the other.
  return live.netns.look.seen ? mark('netns', 'ok', 'veth up') : undefined
}

/** The browser's layers, judged as the watchdog judges them from inside. */
function browserMarks(live: LiveFacts, answer: CdpAnswer | undefined): LiveMark[] {
  const found = answer?.kind === 'browser' ? answer.found : undefined
  if (!live.process.seen && found === undefined) return []
  // A browser that answers has a process, also for a shell that may not see it.
  const unseen = { pid: 0, startTicks: 0, ageMs: 0, state: '' }
  const look: BrowserLook = {
    process: live.process.seen ? live.process : { seen: true, value: unseen },
    elsewhere: [],
    ...(found === undefined ? {} : { cdp: { seen: true, value: found }, page: live.page }),
  }
  const { verdict, marks } = judgeBrowser(look, live.asked)
  return marks.flatMap(({ layer, state, note = '', code }): LiveMark[] => {
    if (layer !== 'process' && found === undefined) return []
    if (state !== 'ok' && state !== 'fail' && state !== 'unknown') return []
    if (layer === 'process' && state === 'ok' && !live.process.seen)
      return [mark(layer, 'ok', 'answers over CDP')]
    if (state === 'ok') return [mark(layer, 'ok', layer === 'page' ? '' : note)]
    return [mark(layer, state, reasonOf(verdict), code ?? verdict.code)]
  })
}

/** The marks that were seen live, lowest layer first. Nothing here for what this shell cannot see. */
export function liveMarks(live: LiveFacts): readonly LiveMark[] {
  const answer = answerOf(live)
  const netns = netnsMark(live)
  const out = [...(netns === undefined ? [] : [netns]), ...browserMarks(live, answer)]
  const main = live.process.seen ? live.process.value : undefined
  if (main !== undefined && /^[Tt]$/.test(main.state ?? '') && answer?.kind !== 'browser')
    out.push(mark('cdp', 'fail', text('browser-stopped', { pid: main.pid }), 'browser-stopped'))
  if (answer?.kind === 'browser') out.push(mark('relay', 'ok'))
  if (answer?.kind === 'refused')
    out.push(mark('relay', 'fail', 'nothing listens on the relay address', 'relay-down'))
  return out
}
