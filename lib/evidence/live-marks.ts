import type { Layer } from '../types.ts'
import type { CdpAnswer, FactState, LiveFacts } from './types.ts'

export interface LiveMark {
  readonly layer: Layer
  readonly state: FactState
  readonly note: string
}

/** What the answer on the relay's address says about the layers below and at it. */
function cdpMarks(cdp: CdpAnswer): LiveMark[] {
  switch (cdp.kind) {
    case 'browser':
      return [
        { layer: 'cdp', state: 'ok', note: cdp.browser },
        { layer: 'relay', state: 'ok', note: '' },
      ]
    case 'not-a-browser':
      return [
        { layer: 'relay', state: 'fail', note: `something that is not the relay answers: ${cdp.detail}` },
      ]
    case 'refused':
      return [{ layer: 'relay', state: 'fail', note: 'nothing listens on the relay address' }]
    case 'closed':
      return [
        { layer: 'cdp', state: 'fail', note: 'browser down behind a working relay' },
        { layer: 'relay', state: 'ok', note: '' },
      ]
    case 'timeout':
      // A connection that is taken and never answered: a stopped browser does this. So does a stopped
      // relay, but the browser is the lower layer and its owner looks from inside.
      return [{ layer: 'cdp', state: 'fail', note: `no answer in ${cdp.afterMs} ms` }]
    case 'unreachable':
      return [{ layer: 'netns', state: 'fail', note: cdp.detail }]
  }
}

/** The marks that were seen live, lowest layer first. Nothing here for what this shell cannot see. */
export function liveMarks(live: LiveFacts): readonly LiveMark[] {
  const out: LiveMark[] = []
  // Without the host's end of the veth an answer cannot have come from this node.
  const noVeth = live.gateway.seen && !live.gateway.value
  // What runs in a namespace that lost its name may go on answering; nobody can enter it to watch or repair it.
  if (live.missingNetns !== undefined)
    out.push({ layer: 'netns', state: 'fail', note: `netns ${live.missingNetns} missing` })
  else if (live.gateway.seen)
    out.push(
      noVeth
        ? { layer: 'netns', state: 'fail', note: 'the veth has no address on the host' }
        : { layer: 'netns', state: 'ok', note: 'veth up' },
    )
  const cdp = live.cdp.seen && !noVeth ? live.cdp.value : undefined
  const stopped = live.process.seen && /^[Tt]$/.test(live.process.value.state ?? '')
  if (live.process.seen) {
    const p = live.process.value
    const note = p.present ? `pid ${p.pid}` : 'no chromium process for profile'
    out.push({ layer: 'process', state: p.present ? 'ok' : 'fail', note })
    if (stopped && cdp?.kind !== 'browser')
      out.push({ layer: 'cdp', state: 'fail', note: `the browser is stopped (pid ${p.pid})` })
  }
  if (cdp !== undefined)
    for (const m of cdpMarks(cdp)) {
      const lower = out.find((o) => o.layer === m.layer)
      if (lower === undefined) out.push(m)
      else if (m.state === 'fail') out[out.indexOf(lower)] = m
    }
  if (live.page.seen && cdp?.kind === 'browser') {
    const page = live.page.value
    const state = page.ok === true ? 'ok' : page.ok === false ? 'fail' : 'unknown'
    out.push({ layer: 'page', state, note: page.ok === true ? '' : page.detail })
  }
  return out
}
