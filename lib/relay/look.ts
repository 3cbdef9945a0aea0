import type { Config } from '../base/config.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node } from '../base/types.ts'
import { findMain, isOwnAnswer, isProved, portTaker } from '../browser/look.ts'
import { browserId, parseVersion } from '../cdp/targets.ts'
import { fetchInNetns } from '../host/curl.ts'
import { type HttpAnswer, httpGet } from '../host/http.ts'
import { type Interface, netnsInode } from '../host/netns.ts'
import type { InnerAnswer, LinkState } from './types.ts'

const PATH = '/json/version'
/** Far above any browser's answer (under 1 KiB), far below what a hostile listener could send. */
const MAX_BYTES = 64 * 1024

export interface Asked {
  readonly answer: HttpAnswer
  /** The browser's name and version, when the node's own browser answered. */
  readonly browser?: string
  /** Its id, when a browser answered and whose that is could not be proved: the one inside must have the same. */
  readonly id?: string
}

/** Asks a node's browser from the host, through veth and relay, the way its users do. */
export async function askRelay(
  p: Paths,
  node: Pick<Node, 'name' | 'netns' | 'peer' | 'cdpPort'>,
  deadlineMs: number,
): Promise<Asked> {
  const { peer: host, cdpPort: port } = node
  const answer = await httpGet({ host, port, path: PATH, deadlineMs, maxBytes: MAX_BYTES })
  if (answer.kind !== 'answer' || answer.status !== 200) return { answer }
  const version = parseVersion(answer.body)
  if (version === undefined) return { answer }
  const id = browserId(version.wsUrl)
  return isOwnAnswer(p, node, id) ? { answer, browser: clean(version.browser, 80) } : { answer, id }
}

/**
 * Asks the browser inside its namespace, past the relay. The authority must be 127.0.0.1: Chromium refuses
 * a Host header that is a name other than localhost.
 */
export async function askInside(
  p: Paths,
  node: Pick<Node, 'name' | 'netns' | 'cdpPort'>,
  config: Pick<Config, 'innerDeadlineMs'>,
): Promise<Look<InnerAnswer>> {
  const url = `http://127.0.0.1:${node.cdpPort}${PATH}`
  const request = { url, deadlineMs: config.innerDeadlineMs, wantBody: true, maxBytes: MAX_BYTES }
  const look = await fetchInNetns(node.netns, [request])
  if (!look.seen) return look
  const [got] = look.value
  if (got === undefined) return { seen: false, why: 'curl gave no result' }
  const value = (browser: InnerAnswer['browser'], detail: string) =>
    ({ seen: true, value: { browser, detail } }) as const
  // curl(1): 7 could not connect, 28 out of time.
  if (got.exitCode === 7) return value('refused', 'connection refused')
  const version = got.exitCode === 0 && got.httpCode === 200 ? parseVersion(got.body) : undefined
  const id = version && browserId(version.wsUrl)
  if (version !== undefined && id !== undefined && isProved(p, node, id))
    return { seen: true, value: { browser: 'answers', detail: clean(version.browser, 80), id } }
  const { process } = findMain(p, node, netnsInode(p, node.netns))
  const taker = process.seen ? portTaker(p, node, process.value) : process
  if (taker.seen && taker.value.is === 'other') {
    const says = version?.browser ?? (got.exitCode === 0 ? `http ${got.httpCode}` : got.error)
    return value('squatted', `${clean(says, 80)}${taker.value.who}`)
  }
  if (got.exitCode !== 0) return value('silent', clean(got.error, 120))
  if (version !== undefined && id !== undefined)
    return { seen: true, value: { browser: 'answers', detail: clean(version.browser, 80), id } }
  return value('not-a-browser', `http ${got.httpCode} from something that is no browser`)
}

/**
 * The interface that carries a node's address. Found by its address when it is healthy, so that a healthy node
 * costs no hash; by its name only when something is wrong.
 * @param prefix what such names begin with, `ve-` or `vp-`
 */
export function linkWith(
  links: readonly Interface[],
  address: string,
  prefix: string,
  nameOf: () => string,
): LinkState {
  const has = (l: Interface) => l.ipv4.includes(`${address}/30`)
  const name = links.find((l) => l.name.startsWith(prefix) && l.up && has(l))?.name ?? nameOf()
  const link = links.find((l) => l.name === name)
  return {
    name,
    exists: link !== undefined,
    up: link?.up === true,
    hasAddress: link !== undefined && has(link),
  }
}
