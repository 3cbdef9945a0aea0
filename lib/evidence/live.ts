import { statSync } from 'node:fs'
import { mapBounded } from '../bounded.ts'
import {
  mayBeErrorPage,
  pagesTitled,
  pageVerdict,
  parseTargets,
  parseVersion,
  rewriteAuthority,
  type Target,
} from '../cdp.ts'
import { lookNetns } from '../netns.ts'
import type { Paths } from '../paths.ts'
import { type HttpAnswer, httpGet } from '../supervisors/cdp-relay-watchdog/http.ts'
import { clean } from '../text.ts'
import type { Look, Node } from '../types.ts'
import { lookForBrowsers } from './process.ts'
import type { Shell, Sight } from './sight.ts'
import type { CdpAnswer, LiveFacts, PageFact } from './types.ts'

/** `/json/list` of a browser with many tabs; a page can make its title and URL long. */
const MAX_LIST_BYTES = 2 * 1024 * 1024
/** Sockets at a time: a fleet fits in one wave, and a host with few descriptors is not drained. */
const SOCKETS = 256

/** What one answer on the relay's address means. */
export function readAnswer(a: HttpAnswer, deadlineMs: number): CdpAnswer {
  switch (a.kind) {
    case 'answer': {
      const version = a.status === 200 ? parseVersion(a.body) : undefined
      if (version !== undefined) return { kind: 'browser', browser: clean(version.browser, 60) }
      const first = clean(a.body, 40)
      return { kind: 'not-a-browser', detail: `HTTP ${a.status}${first === '' ? '' : ` ${first}`}` }
    }
    case 'refused':
      return { kind: 'refused' }
    case 'unreachable':
      return { kind: 'unreachable', detail: `no way to the relay (${a.detail})` }
    case 'timeout':
      // Without an answer to the SYN nobody is at the address at all.
      return a.stage === 'connect'
        ? { kind: 'unreachable', detail: `nobody at the relay’s address in ${deadlineMs} ms` }
        : { kind: 'timeout', afterMs: deadlineMs }
    case 'closed':
      return a.stage === 'connect' || a.stage === 'headers'
        ? { kind: 'closed' }
        : { kind: 'not-a-browser', detail: a.detail }
    case 'bad':
      return { kind: 'not-a-browser', detail: a.detail }
  }
}

const ERROR_PAGE = 'the page shows the browser’s error page'

/** Pages of one title that look like an error page; more of them are not asked. */
const MAX_ASKED = 4

/**
 * A failed navigation is listed under the URL that was asked for and titled with its host name, which may contain the
 * title that is looked for. Only a page that could be one costs a connection: it is asked what it shows.
 * @param until the end of the look, on the scale of `performance.now()`
 */
async function proved(pages: readonly Target[], node: Node, until: number): Promise<PageFact> {
  if (pages.some((page) => !mayBeErrorPage(page))) return { ok: true }
  const { evaluate } = await import('../cdp-socket.ts')
  const asked = pages.slice(0, MAX_ASKED).map(async ({ wsUrl }): Promise<PageFact> => {
    const unsure = (why: string): PageFact => ({
      ok: 'unsure',
      detail: `the page may be the browser’s error page: ${why}`,
    })
    if (wsUrl === undefined) return unsure('it offers no socket to ask it')
    const url = rewriteAuthority(wsUrl, node.peer, node.cdpPort)
    const r = await evaluate(url, 'location.href', Math.max(0, until - performance.now()))
    if (r.kind === 'value' && typeof r.value === 'string')
      return r.value.startsWith('chrome-error:') ? { ok: false, detail: ERROR_PAGE } : { ok: true }
    return unsure(r.kind === 'timeout' ? 'it does not answer' : `asking it failed (${r.kind})`)
  })
  const found = await Promise.all(asked)
  const best = found.find((f) => f.ok === true) ?? found.find((f) => f.ok === 'unsure') ?? found[0]
  return best ?? { ok: false, detail: ERROR_PAGE }
}

async function askNode(node: Node, deadlineMs: number): Promise<{ cdp: CdpAnswer; page: Look<PageFact> }> {
  const started = performance.now()
  const at = { host: node.peer, port: node.cdpPort }
  const cdp = readAnswer(await httpGet({ ...at, path: '/json/version', deadlineMs }), deadlineMs)
  const left = deadlineMs - (performance.now() - started)
  const none: Look<PageFact> = { seen: false, why: 'no answer over CDP' }
  if (cdp.kind !== 'browser' || left <= 0) return { cdp, page: none }
  const list = await httpGet({ ...at, path: '/json/list', deadlineMs: left, maxBytes: MAX_LIST_BYTES })
  const targets = list.kind === 'answer' && list.status === 200 ? parseTargets(list.body) : undefined
  if (targets === undefined) return { cdp, page: { seen: false, why: 'the list of pages did not come' } }
  const verdict = pageVerdict(targets, node.chatTitle)
  if (verdict.kind === 'ok') {
    const value = await proved(pagesTitled(targets, node.chatTitle), node, started + deadlineMs)
    return { cdp, page: { seen: true, value } }
  }
  const detail =
    verdict.kind === 'errorPage'
      ? ERROR_PAGE
      : node.chatTitle === ''
        ? 'no page in the target list'
        : `chat page "${clean(node.chatTitle, 60)}" missing from target list`
  return { cdp, page: { seen: true, value: { ok: false, detail } } }
}

/**
 * Is the directory of named namespaces the host's? A container that was given /run/netvm has a /run of its own around it.
 * (`ip netns` mounts the directory over itself, which keeps its device.)
 */
function namesAreTheHosts(p: Paths, sight: Sight): boolean {
  if (!sight.absenceCounts) return false
  try {
    return statSync(p.netnsDir).dev === statSync(p.run).dev
  } catch {
    return false
  }
}

/**
 * Looks at every node at once: the process table, the veth's address on the host, the CDP answer over
 * the relay. No child process. Takes at most `deadlineMs` for the network, however many nodes there are.
 */
export async function lookLive(
  p: Paths,
  nodes: readonly Node[],
  shell: Shell,
  sight: Sight,
  deadlineMs: number,
): Promise<ReadonlyMap<string, LiveFacts>> {
  const named = namesAreTheHosts(p, sight)
  const asked = mapBounded(nodes, SOCKETS, async (node): Promise<Omit<LiveFacts, 'process'>> => {
    const network = sight.network(node.gw)
    if (!network.seen) return { gateway: network, cdp: network, page: network }
    const { cdp, page } = await askNode(node, deadlineMs)
    const gateway: Look<boolean> = { seen: true, value: shell.addresses.has(node.gw) }
    const netns = named ? lookNetns(p, node.netns) : undefined
    const missing = netns?.seen === true && !netns.value.exists ? { missingNetns: node.netns } : {}
    return { gateway, cdp: { seen: true, value: cdp }, page, ...missing }
  })
  // The process table is read while the sockets wait.
  const processes = lookForBrowsers(p, nodes, sight)
  const answers = await asked
  const out = new Map<string, LiveFacts>()
  const missing = { seen: false as const, why: 'not asked' }
  nodes.forEach((node, i) => {
    const a = answers[i] ?? { gateway: missing, cdp: missing, page: missing }
    out.set(node.name, { process: processes.get(node.name) ?? missing, ...a })
  })
  return out
}
