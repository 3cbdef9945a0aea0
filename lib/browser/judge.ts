import type { LayerMark, Look, MarkState, Verdict } from '../base/types.ts'
import { HEALTHY, verdict } from '../report/verdict.ts'
import type { BrowserJudgement, BrowserLook, CdpFinding, MainProcess, PageFinding } from './types.ts'

type Asked = { readonly title: string; readonly port: number }

const NOT_CHECKED: Look<never> = { seen: false, why: 'not asked' }

/**
 * Judges one look at the browser layers. Pure.
 *
 * @param look what was seen
 * @param asked the title a page must contain and the DevTools port
 */
export function judgeBrowser(look: BrowserLook, asked: Asked): BrowserJudgement {
  if (!look.process.seen) {
    return stop(verdict('process-unseen', [], { why: look.process.why }), look.process.why, [])
  }
  const main = look.process.value
  if (main === undefined) {
    const evidence = look.elsewhere.map((e) => `pid ${e.pid} has the profile, in another namespace`)
    return stop(verdict('no-process', evidence), evidence[0] ?? 'none for the profile', [])
  }
  const process = mark('process', 'ok', describe(main))
  const cdp = judgeCdp(look.cdp ?? NOT_CHECKED, asked.port)
  if (cdp.verdict) return { ...stop(cdp.verdict, cdp.note, [process]), process: main }
  const ok = mark('cdp', 'ok', cdp.note)
  const page = judgePage(look.page ?? NOT_CHECKED, asked.title)
  if (page.verdict) return { ...stop(page.verdict, page.note, [process, ok]), process: main }
  return { verdict: HEALTHY, marks: [process, ok, mark('page', 'ok', page.note)], process: main }
}

interface LayerResult {
  /** Absent when the layer is healthy. */
  readonly verdict?: Verdict
  readonly note: string
}

function judgeCdp(cdp: Look<CdpFinding>, port: number): LayerResult {
  if (!cdp.seen) return { verdict: verdict('cdp-unseen', [], { port, why: cdp.why }), note: cdp.why }
  const found = cdp.value
  if (found.state === 'ok') return { note: found.browser }
  const { detail } = found
  if (found.state === 'refuses') {
    return { verdict: verdict('cdp-refuses', [], { port, why: detail }), note: detail }
  }
  return found.state === 'squatted'
    ? { verdict: verdict('port-squatted', [detail], { port }), note: `port squatted: ${detail}` }
    : { verdict: verdict('cdp-unreachable', [detail], { port }), note: detail }
}

const PAGE_CODES = { missing: 'page-missing', 'no-pages': 'no-pages', 'error-page': 'error-page' } as const

function judgePage(page: Look<PageFinding>, title: string): LayerResult {
  if (!page.seen) return { verdict: verdict('page-unseen', [], { why: page.why }), note: page.why }
  const found = page.value
  if (found.state === 'ok') return { note: JSON.stringify(found.title) }
  const { detail } = found
  if (found.state === 'doubtful')
    return { verdict: verdict('page-doubtful', [], { why: detail }), note: detail }
  return { verdict: verdict(PAGE_CODES[found.state], [detail], { title }), note: detail }
}

/** The layer of the verdict is the last that was looked at. */
function stop(found: Verdict, note: string, healthy: readonly LayerMark[]): BrowserJudgement {
  const rest = (['process', 'cdp', 'page'] as const).slice(healthy.length)
  const state = found.state === 'unhealthy' ? 'fail' : 'unknown'
  const marks = rest.map((layer, i) =>
    i === 0 ? { ...mark(layer, state, note), code: found.code } : mark(layer, 'not-checked'),
  )
  return { verdict: found, marks: [...healthy, ...marks] }
}

function describe(p: MainProcess): string {
  const stopped = p.state === 'T' || p.state === 't' ? ', stopped' : ''
  return `pid ${p.pid}, ${Math.floor(p.ageMs / 1000)} s old${stopped}`
}

function mark(layer: LayerMark['layer'], state: MarkState, note?: string): LayerMark {
  return note === undefined ? { layer, state } : { layer, state, note }
}
