import type { LayerMark, Look, MarkState, Verdict } from '../types.ts'
import type { BrowserJudgement, BrowserLook, CdpFinding, MainProcess, PageFinding } from './types.ts'

type Asked = { readonly title: string; readonly port: number }

const NOT_CHECKED: Look<never> = { seen: false, why: 'not asked' }

/**
 * Judges one look at the browser layers. Pure.
 *
 * The reason texts are a contract (people and monitors search for them): change none.
 *
 * @param look what was seen
 * @param asked the title a page must contain and the DevTools port
 */
export function judgeBrowser(look: BrowserLook, asked: Asked): BrowserJudgement {
  if (!look.process.seen) {
    return stop(unknown('process', 'process-unseen', `cannot see processes: ${look.process.why}`), [
      mark('process', 'unknown', look.process.why),
    ])
  }
  const main = look.process.value
  if (main === undefined) {
    const evidence = look.elsewhere.map((e) => `pid ${e.pid} has the profile, in another namespace`)
    return stop(unhealthy('process', 'no-process', 'no chromium process for profile', evidence), [
      mark('process', 'fail', evidence[0] ?? 'none for the profile'),
    ])
  }
  const process = mark('process', 'ok', describe(main))
  const cdp = judgeCdp(look.cdp ?? NOT_CHECKED, asked.port)
  if (cdp.verdict) return { ...stop(cdp.verdict, [process, cdp.mark]), process: main }
  const page = judgePage(look.page ?? NOT_CHECKED, asked.title)
  const verdict = page.verdict ?? { state: 'healthy', code: 'ok', reason: '', evidence: [] }
  return { verdict, marks: [process, cdp.mark, page.mark], process: main }
}

interface LayerResult {
  /** Absent when the layer is well. */
  verdict?: Verdict
  mark: LayerMark
}

function judgeCdp(cdp: Look<CdpFinding>, port: number): LayerResult {
  if (!cdp.seen) {
    const verdict = unknown('cdp', 'cdp-unseen', `cannot ask CDP on :${port}: ${cdp.why}`)
    return { verdict, mark: mark('cdp', 'unknown', cdp.why) }
  }
  const found = cdp.value
  if (found.state === 'ok') return { mark: mark('cdp', 'ok', found.browser) }
  if (found.state === 'squatted') {
    const reason = `port squatted: :${port} answers but is not this node's browser`
    return {
      verdict: unhealthy('cdp', 'port-squatted', reason, [found.detail]),
      mark: mark('cdp', 'fail', `port squatted: ${found.detail}`),
    }
  }
  return {
    verdict: unhealthy('cdp', 'cdp-unreachable', `CDP unreachable on :${port}`, [found.detail]),
    mark: mark('cdp', 'fail', found.detail),
  }
}

function judgePage(page: Look<PageFinding>, title: string): LayerResult {
  if (!page.seen) {
    const verdict = unknown('page', 'page-unseen', `cannot read the target list: ${page.why}`)
    return { verdict, mark: mark('page', 'unknown', page.why) }
  }
  const found = page.value
  if (found.state === 'ok') return { mark: mark('page', 'ok', JSON.stringify(found.title)) }
  if (found.state === 'doubtful') {
    const reason = `the page may be the browser's error page: ${found.detail}`
    return { verdict: unknown('page', 'page-doubtful', reason), mark: mark('page', 'unknown', found.detail) }
  }
  const code = { missing: 'page-missing', 'no-pages': 'no-pages', 'error-page': 'error-page' }[found.state]
  return {
    verdict: unhealthy('page', code, `chat page "${title}" missing from target list`, [found.detail]),
    mark: mark('page', 'fail', found.detail),
  }
}

function stop(verdict: Verdict, seen: readonly LayerMark[]): BrowserJudgement {
  const rest = (['process', 'cdp', 'page'] as const).slice(seen.length)
  return { verdict, marks: [...seen, ...rest.map((layer) => mark(layer, 'not-checked'))] }
}

function describe(p: MainProcess): string {
  const stopped = p.state === 'T' || p.state === 't' ? ', stopped' : ''
  return `pid ${p.pid}, ${Math.floor(p.ageMs / 1000)} s old${stopped}`
}

function mark(layer: LayerMark['layer'], state: MarkState, note?: string): LayerMark {
  return note === undefined ? { layer, state } : { layer, state, note }
}

function unhealthy(layer: LayerMark['layer'], code: string, reason: string, evidence: string[]): Verdict {
  return { state: 'unhealthy', layer, code, reason, evidence: evidence.filter((e) => e !== '') }
}

function unknown(layer: LayerMark['layer'], code: string, reason: string): Verdict {
  return { state: 'unknown', layer, code, reason, evidence: [] }
}
