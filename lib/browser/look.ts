import type { Config } from '../base/config.ts'
import { type Paths, profileDir } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node } from '../base/types.ts'
import { mayBeErrorPage, type PageVerdict, pageVerdict, parseTargets, parseVersion } from '../cdp/targets.ts'
import { type FetchRequest, type FetchResult, fetchInNetns } from '../host/curl.ts'
import { holdsListener, listenersIn } from '../host/listeners.ts'
import { netnsInode } from '../host/netns.ts'
import { namespaceOf, readArgv } from '../host/proc.ts'
import { judgeBrowser } from './judge.ts'
import { findBrowsers } from './processes.ts'
import type { BrowserJudgement, BrowserLook, CdpFinding, MainProcess, PageFinding } from './types.ts'

export interface BrowserContext {
  readonly p: Paths
  readonly config: Config
}

/** `/json/version` and `/json/list`, in the order that `readAnswers` expects. */
export function cdpRequests(node: Node, deadlineMs: number): FetchRequest[] {
  const base = `http://127.0.0.1:${node.cdpPort}/json`
  return [`${base}/version`, `${base}/list`].map((url) => ({ url, deadlineMs, wantBody: true }))
}

/** The main process of the node's profile in its namespace, and those of the profile elsewhere. */
export function findMain(
  p: Paths,
  node: Node,
  inode: number | undefined,
): Pick<BrowserLook, 'process' | 'elsewhere'> {
  if (inode === undefined) {
    return { process: { seen: false, why: 'the inode of the namespace is not known' }, elsewhere: [] }
  }
  const found = findBrowsers(p, profileDir(p, node.name))
  if (!found.seen) return { process: found, elsewhere: [] }
  const placed = found.value.map((main) => ({ main, in: namespaceOf(p.proc, main.pid) }))
  const elsewhere = placed.filter((at) => at.in !== undefined && at.in !== inode)
  const rest = { elsewhere: elsewhere.map(({ main }) => main) }
  const here = placed.filter((at) => at.in === inode).map(({ main }) => main)
  const hidden = placed.find((at) => at.in === undefined)
  if (here.length === 0 && hidden !== undefined) {
    return { process: { seen: false, why: `cannot see the namespace of pid ${hidden.main.pid}` }, ...rest }
  }
  return { process: { seen: true, value: here.sort((a, b) => b.ageMs - a.ageMs)[0] }, ...rest }
}

/**
 * What the two CDP answers mean for this main process. The first two results are those of `cdpRequests`.
 * `known` is the identity that an earlier look proved by the socket; the same answer from the same process
 * needs no second proof, and the kernel's socket tables cost more CPU than anything else in a healthy tick.
 * @param main absent for a look that may not see processes: then it is not known whose answer it is
 */
export function readAnswers(
  p: Paths,
  node: Node,
  main: MainProcess | undefined,
  results: Look<readonly FetchResult[]>,
  known?: string,
): Pick<BrowserLook, 'cdp' | 'page' | 'doubtful'> {
  if (!results.seen) return { cdp: results }
  const [version, list] = results.value
  const cdp = readVersion(p, node, main, version, known)
  if (cdp.state !== 'ok') return { cdp: { seen: true, value: cdp } }
  if (list?.exitCode !== 0) {
    const detail = `/json/list: ${list?.error ?? 'not asked'}`
    return { cdp: { seen: true, value: { state: 'unreachable', detail } } }
  }
  return { cdp: { seen: true, value: cdp }, ...readPages(list.body, node.chatTitle) }
}

function readVersion(
  p: Paths,
  node: Node,
  main: MainProcess | undefined,
  got: FetchResult | undefined,
  known: string | undefined,
): CdpFinding {
  if (got?.exitCode !== 0) return { state: 'unreachable', detail: got?.error ?? 'not asked' }
  const version = got.httpCode === 200 ? parseVersion(got.body) : undefined
  const what = version ? clean(version.browser, 60) : `HTTP ${got.httpCode}, not a browser's answer`
  if (main === undefined)
    return version ? { state: 'ok', browser: what } : { state: 'unreachable', detail: what }
  // The id is random per start of a browser: it names one process.
  const identity = `${main.pid} ${main.startTicks} ${version?.wsUrl.replace(/^.*\//, '')}`
  if (version && identity === known) return { state: 'ok', browser: what, identity }
  // Whoever answers, the socket says whose answer it is: another browser's is as well-formed as ours.
  const ours = holdsListener(p, main.pid, node.cdpPort)
  if (version && (!ours.seen || ours.value)) {
    const proved = ours.seen ? { identity } : {}
    return { state: 'ok', browser: what, ...proved }
  }
  if (ours.seen && !ours.value) return { state: 'squatted', detail: `${what}${squatter(p, node, main)}` }
  return { state: 'unreachable', detail: what }
}

function squatter(p: Paths, node: Node, main: MainProcess): string {
  const found = listenersIn(p, main.pid, node.cdpPort)
  const pid = found.seen ? found.value.find((l) => l.pid !== undefined && l.pid !== main.pid)?.pid : undefined
  if (pid === undefined) return ''
  return `, from pid ${pid} (${clean(readArgv(p.proc, pid)[0] ?? '?', 60)})`
}

function readPages(list: string, title: string): Pick<BrowserLook, 'page' | 'doubtful'> {
  const targets = parseTargets(list)
  if (!targets)
    return { page: { seen: true, value: { state: 'missing', detail: '/json/list is not a target list' } } }
  const found = pageVerdict(targets, title)
  if (found.kind === 'ok' && mayBeErrorPage(found.page)) {
    const value = { state: 'doubtful', detail: 'the page was not asked' } as const
    return { page: { seen: true, value }, doubtful: targets }
  }
  return { page: { seen: true, value: pageFinding(found) } }
}

function pageFinding(found: PageVerdict): PageFinding {
  switch (found.kind) {
    case 'ok':
      return { state: 'ok', title: clean(found.page.title, 80) }
    case 'missing':
      return { state: 'missing', detail: `titles: ${clean(found.titles.slice(0, 3).join(' | '), 120)}` }
    case 'noPages': {
      const types = found.types.length > 0 ? `, only ${clean(found.types.join(' '), 80)}` : ''
      return { state: 'no-pages', detail: `no page at all${types}` }
    }
    case 'errorPage':
      return { state: 'error-page', detail: `error page: ${clean(found.page.title, 80)}` }
  }
}

/**
 * Asks the pages themselves where the target list left them in doubt; every other look comes back as it is, and
 * loads nothing for it.
 *
 * @param deadlineMs added to that of the requests before it: their slowest answer may have used all of theirs
 */
export async function settlePage<T extends Pick<BrowserLook, 'page' | 'doubtful'>>(
  node: Node,
  look: T,
  deadlineMs: number,
): Promise<T> {
  if (look.doubtful === undefined) return look
  const { confirmPage } = await import('./confirm.ts')
  return { ...look, page: { seen: true, value: await confirmPage(node, look.doubtful, deadlineMs) } }
}

/** One look at process, CDP and page of a node whose namespace is there, judged. One curl process at most. */
export async function lookBrowser(
  ctx: BrowserContext,
  node: Node,
  deadlineMs = ctx.config.probeDeadlineMs,
): Promise<BrowserJudgement> {
  const found = findMain(ctx.p, node, netnsInode(ctx.p, node.netns))
  const main = found.process.seen ? found.process.value : undefined
  if (!main) return judgeBrowser(found, { title: node.chatTitle, port: node.cdpPort })
  return askBrowser(ctx, node, main, deadlineMs, found)
}

/** The same where the main process is known, with one curl process. */
export async function askBrowser(
  ctx: BrowserContext,
  node: Node,
  main: MainProcess,
  deadlineMs: number,
  found: Pick<BrowserLook, 'process' | 'elsewhere'> = { process: { seen: true, value: main }, elsewhere: [] },
): Promise<BrowserJudgement> {
  const results = await fetchInNetns(node.netns, cdpRequests(node, deadlineMs))
  const answers = readAnswers(ctx.p, node, main, results)
  const look = { ...found, ...(await settlePage(node, answers, ctx.config.innerDeadlineMs)) }
  return judgeBrowser(look, { title: node.chatTitle, port: node.cdpPort })
}
