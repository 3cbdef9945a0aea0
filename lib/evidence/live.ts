import { statSync } from 'node:fs'
import { attempt } from '../base/attempt.ts'
import { mapBounded } from '../base/bounded.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node } from '../base/types.ts'
import { readAnswers, settlePage } from '../browser/look.ts'
import type { MainProcess } from '../browser/types.ts'
import { browserId, parseTargets, parseVersion } from '../cdp/targets.ts'
import type { FetchResult } from '../host/curl.ts'
import { type HttpAnswer, httpGet } from '../host/http.ts'
import { lookNetns, type NetnsLook } from '../host/netns.ts'
import { lookForBrowsers } from './process.ts'
import type { Shell, Sight } from './sight.ts'
import type { CdpAnswer, LiveFacts } from './types.ts'

/** `/json/list` of a browser with many tabs; a page can make its title and URL long. */
const MAX_LIST_BYTES = 2 * 1024 * 1024
/** Nodes asked at a time, over two sockets each: a fleet fits in one wave or two, and no host runs out of descriptors. */
const NODES = 128

type Answer = Exclude<CdpAnswer, { readonly kind: 'browser' }>

/** What one answer to `/json/version` on the relay's address means; undefined when it is a browser's. */
export function readAnswer(a: HttpAnswer, deadlineMs: number): Answer | undefined {
  switch (a.kind) {
    case 'answer': {
      if (a.status === 200 && parseVersion(a.body) !== undefined) return undefined
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
        ? { kind: 'unreachable', detail: `nothing answers at the relay's address in ${deadlineMs} ms` }
        : { kind: 'timeout', afterMs: deadlineMs }
    case 'closed':
      return a.stage === 'connect' || a.stage === 'headers'
        ? { kind: 'closed' }
        : { kind: 'not-a-browser', detail: a.detail }
    case 'bad':
      return { kind: 'not-a-browser', detail: a.detail }
  }
}

/** A browser keeps its id as long as it lives: beside the proved one another id is another browser's, at its relay's address. */
function another(
  a: HttpAnswer,
  main: MainProcess | undefined,
  known: string | undefined,
): Answer | undefined {
  const id = a.kind === 'answer' ? browserId(parseVersion(a.body)?.wsUrl ?? '') : ''
  const isProved = main !== undefined && known?.startsWith(`${main.pid} ${main.startTicks} `)
  if (!isProved || known?.endsWith(` ${id}`)) return undefined
  return { kind: 'not-a-browser', detail: "another browser's id" }
}

/** An answer over the relay in the shape that a curl inside the namespace gives it. */
function asFetched(a: HttpAnswer): FetchResult {
  const base = { url: '', timeMs: a.ms, httpCode: 0, body: '', error: '' }
  return a.kind === 'answer'
    ? { ...base, exitCode: 0, httpCode: a.status, body: a.body }
    : { ...base, exitCode: a.kind === 'timeout' ? 28 : 52, error: a.detail }
}

const UNASKED = { seen: false, why: 'no answer over CDP' } as const

/**
 * Asks a node over the relay what the watchdog asks inside the namespace, and reads the answers by the same rules.
 * @param known the browser that the last run of the watchdog proved to hold the port
 */
async function askNode(
  p: Paths,
  node: Node,
  process: LiveFacts['process'],
  known: string | undefined,
  deadlineMs: number,
): Promise<Pick<LiveFacts, 'cdp' | 'page' | 'listed'>> {
  const at = { host: node.peer, port: node.cdpPort, deadlineMs }
  const [version, list] = await Promise.all([
    httpGet({ ...at, path: '/json/version' }),
    httpGet({ ...at, path: '/json/list', maxBytes: MAX_LIST_BYTES }),
  ])
  const main = process.seen ? process.value : undefined
  const other = readAnswer(version, deadlineMs) ?? another(version, main, known)
  if (other !== undefined) return { cdp: { seen: true, value: other }, page: UNASKED, listed: false }
  const results = { seen: true, value: [version, list].map(asFetched) } as const
  const { cdp, page = UNASKED } = await settlePage(
    node,
    readAnswers(p, node, main, results, known),
    deadlineMs,
  )
  const found = cdp?.seen ? cdp.value : undefined
  if (found === undefined) return { cdp: UNASKED, page, listed: false }
  const listed = found.state === 'ok' && list.kind === 'answer' && parseTargets(list.body) !== undefined
  return { cdp: { seen: true, value: { kind: 'browser', found } }, page, listed }
}

/**
 * Is the directory of named namespaces the host's? A container that was given /run/netvm has a /run of its own around it.
 * (`ip netns` mounts the directory over itself, which keeps its device.)
 */
function namesAreTheHosts(p: Paths, sight: Sight): boolean {
  const device = (dir: string) => attempt(() => statSync(dir).dev)
  const names = sight.absenceCounts ? device(p.netnsDir) : undefined
  return names !== undefined && names === device(p.run)
}

/**
 * Looks at every node at once: the process table, the veth's address on the host, the CDP answer over
 * the relay. No child process. Takes `deadlineMs` for the network, and once more where a page is in doubt, whatever
 * the number of nodes up to NODES.
 */
export async function lookLive(
  p: Paths,
  nodes: readonly Node[],
  shell: Shell,
  sight: Sight,
  deadlineMs: number,
  known: (node: string) => string | undefined = () => undefined,
): Promise<ReadonlyMap<string, LiveFacts>> {
  const named = namesAreTheHosts(p, sight)
  const processes = lookForBrowsers(p, nodes, sight)
  const missing = { seen: false, why: 'not asked' } as const
  const found = await mapBounded(nodes, NODES, async (node): Promise<LiveFacts> => {
    const { name, netns, gw, chatTitle: title, cdpPort: port } = node
    const process = processes.get(name) ?? missing
    const look: Look<NetnsLook> = named
      ? lookNetns(p, netns)
      : { seen: false, why: "the names of namespaces here may not be the host's" }
    const base = { asked: { title, port }, process, netns: { name: netns, look } }
    const network = sight.network(gw)
    if (!network.seen) return { ...base, gateway: network, cdp: network, page: network, listed: false }
    const gateway = { seen: true, value: shell.addresses.has(gw) } as const
    return { ...base, gateway, ...(await askNode(p, node, process, known(name), deadlineMs)) }
  })
  return new Map(nodes.map((node, i) => [node.name, found[i] as LiveFacts]))
}
