import type { Config } from '../base/config.ts'
import { type Paths, profileDir } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node, Receipt } from '../base/types.ts'
import {
  browserId,
  mayBeErrorPage,
  type PageVerdict,
  pageVerdict,
  parseTargets,
  parseVersion,
} from '../cdp/targets.ts'
import { type FetchRequest, type FetchResult, fetchInNetns } from '../host/curl.ts'
import { takerOf, whoseListener } from '../host/listeners.ts'
import { netnsInode } from '../host/netns.ts'
import { namespaceOf, readRunning } from '../host/proc.ts'
import { readReceipt } from '../store/receipts.ts'
import { judgeBrowser } from './judge.ts'
import { findBrowsers } from './processes.ts'
import type {
  BrowserJudgement,
  BrowserLook,
  CdpFinding,
  MainProcess,
  PageFinding,
  PortTaker,
} from './types.ts'

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
  node: Pick<Node, 'name'>,
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
  const answered = got?.exitCode === 0
  const version = got?.httpCode === 200 && answered ? parseVersion(got.body) : undefined
  const what = answered
    ? version
      ? clean(version.browser, 60)
      : `HTTP ${got.httpCode}, not a browser's answer`
    : (got?.error ?? 'not asked')
  if (main === undefined)
    return version ? { state: 'ok', browser: what } : { state: 'unreachable', detail: what }
  const identity = version && `${main.pid} ${main.startTicks} ${browserId(version.wsUrl)}`
  if (identity !== undefined && identity === known) return { state: 'ok', browser: what, identity }
  // Whoever answers, or is silent, the socket says who it is: another browser's answer is as well-formed as ours.
  const taker = portTaker(p, node, main)
  const { is, who } = taker.seen ? taker.value : { is: 'unseen', who: '' }
  if (is === 'other' || (is === 'nobody' && answered)) return { state: 'squatted', detail: `${what}${who}` }
  if (identity !== undefined) return { state: 'ok', browser: what, ...(is === 'own' ? { identity } : {}) }
  const says = got?.httpCode === REFUSES && answered ? sentence(got.body) : ''
  return says === ''
    ? { state: 'unreachable', detail: what }
    : { state: 'refuses', detail: `HTTP ${REFUSES} "${says}"` }
}

/** Chromium's answer to a question that it does not allow, with one sentence of plain text. */
const REFUSES = 500

/** The first line of a plain text; empty for markup, JSON and nothing. */
function sentence(body: string): string {
  const line = clean(body.trim().split('\n')[0] ?? '', 160)
  return /^[<{[]/.test(line) ? '' : line
}

/**
 * Whose listener takes what is sent to 127.0.0.1:<port> of the node's namespace. Everybody who dials the browser, from
 * inside or over the relay, has this one's answers, so every look, stop and repair asks here whose they are.
 * @param main the node's browser; without one whoever listens is another
 */
export function portTaker(
  p: Paths,
  node: Pick<Node, 'netns' | 'cdpPort'>,
  main: MainProcess | undefined,
): Look<PortTaker> {
  if (main !== undefined) {
    const whose = whoseListener(p, main.pid, node.cdpPort)
    if (!whose.seen) return whose
    if (whose.value !== 'other') return { seen: true, value: { is: whose.value, who: '' } }
  }
  const other = takerOf(p, main?.pid ?? node.netns, node.cdpPort)
  if (!other.seen) return other
  if (other.value === undefined) {
    const is = main === undefined ? 'nobody' : 'other'
    return { seen: true, value: { is, who: is === 'other' ? ', from a process that cannot be seen' : '' } }
  }
  const { pid, program } = other.value
  return { seen: true, value: { is: 'other', who: `, from pid ${pid} (${program})` } }
}

/**
 * Whether a browser's answer that came over the relay is the node's own browser's: by the id that the watchdog's last
 * look proved, else by the two sockets on the way, the relay's and the browser's. True where these cannot be seen.
 */
export function isOwnAnswer(
  p: Paths,
  node: Pick<Node, 'name' | 'netns' | 'peer' | 'cdpPort'>,
  id: string,
): boolean {
  if (isProved(p, node, id)) return true
  const { process } = findMain(p, node, netnsInode(p, node.netns))
  const taker = process.seen ? portTaker(p, node, process.value) : process
  if (!process.seen || !taker.seen) return true
  if (process.value === undefined || taker.value.is !== 'own') return false
  const relay = takerOf(p, process.value.pid, node.cdpPort, node.peer)
  if (!relay.seen || relay.value === undefined) return true
  // systemd holds the sockets of its units.
  return relay.value.pid === 1 || relay.value.unit === `cdp-relay@${node.name}.service`
}

/**
 * Whether the watchdog's last look proved that the browser of this id holds the node's port, and that very process lives:
 * an id is one browser's alone, and whoever repeats it after its end is another.
 */
export function isProved(p: Paths, node: Pick<Node, 'name'>, id: string): boolean {
  const last = readReceipt(p, 'chromebox-watchdog', node.name)
  const identity = last.seen ? provedIdentity(last.value) : undefined
  const [pid, startTicks, proved] = identity?.split(' ') ?? []
  return proved === id && readRunning(p.proc, Number(pid))?.startTicks === Number(startTicks)
}

/** The browser that a run of chromebox-watchdog proved to hold the port: its pid, start ticks and id. */
export function provedIdentity(last: Receipt | undefined): string | undefined {
  const identity = last?.extra.browserIdentity
  return typeof identity === 'string' ? identity : undefined
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
