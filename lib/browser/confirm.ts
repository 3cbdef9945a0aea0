import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { type EvalResult, evaluate } from '../cdp/evaluate.ts'
import {
  isErrorUrl,
  isTitledByHost,
  mayBeErrorPage,
  pageVerdict,
  rewriteAuthority,
  type Target,
} from '../cdp/targets.ts'
import type { PageFinding } from './types.ts'

/** Where it is, and what Chromium's error page says is wrong (`ERR_CONNECTION_REFUSED`); empty on others. */
export const WHERE = `[location.href, document.querySelector('.error-code')?.textContent ?? '']`

/** Pages asked at most; a node has one chat page, and each of these costs a connection. */
const MAX_ASKED = 3

/**
 * Tells a page from the browser's own error page by asking the pages themselves, where the target list cannot
 * (`mayBeErrorPage`): only `location.href` inside a failed navigation says `chrome-error://`. Asked over the
 * relay, because a socket inside the namespace would take a process of its own. Call it only for such a list.
 *
 * @param deadlineMs for all of the pages, which are asked side by side
 * @returns `doubtful` when no page is known to be well and one could not be asked
 */
export async function confirmPage(
  node: Pick<Node, 'peer' | 'cdpPort' | 'chatTitle'>,
  targets: readonly Target[],
  deadlineMs: number,
): Promise<PageFinding> {
  // A page that is plainly right may stand behind one that is not.
  const plain = pageVerdict(
    targets.filter((t) => !mayBeErrorPage(t)),
    node.chatTitle,
  )
  if (plain.kind === 'ok') return { state: 'ok', title: clean(plain.page.title, 80) }
  const asked = targets.filter((t) => pageVerdict([t], node.chatTitle).kind === 'ok').slice(0, MAX_ASKED)
  const found = await Promise.all(asked.map((t) => askPage(node, t, deadlineMs)))
  return (
    found.find((f) => f.state === 'ok') ??
    found.find((f) => f.state === 'doubtful') ??
    found[0] ?? { state: 'doubtful', detail: 'no page to ask' }
  )
}

async function askPage(
  node: Pick<Node, 'peer' | 'cdpPort'>,
  target: Target,
  deadlineMs: number,
): Promise<PageFinding> {
  const doubtful = (detail: string) => ({ state: 'doubtful', detail }) as const
  if (target.wsUrl === undefined) return doubtful('it offers no socket')
  const got = await evaluate(rewriteAuthority(target.wsUrl, node.peer, node.cdpPort), WHERE, deadlineMs)
  if (got.kind !== 'value') return doubtful(`over the relay: ${unanswered(got)}`)
  const [href, code] = Array.isArray(got.value) ? got.value.map(String) : []
  const at = href !== undefined && URL.canParse(href) ? new URL(href) : undefined
  const title = clean(target.title, 80)
  if (href !== undefined && isErrorUrl(href)) {
    const says = code === undefined || code === '' ? '' : `, ${clean(code, 60)}`
    return { state: 'error-page', detail: `error page: ${title}${says}` }
  }
  // A tab is listed under its URL before it is there: it is still at about:blank, and may yet fail.
  return at !== undefined && isTitledByHost(target.title, at)
    ? { state: 'ok', title }
    : doubtful(`it is at ${clean(href ?? 'no address', 80)}`)
}

function unanswered(got: Exclude<EvalResult, { kind: 'value' }>): string {
  switch (got.kind) {
    case 'timeout':
      return got.connected ? 'the page does not answer in time' : 'no connection in time'
    case 'exception':
      return clean(got.text, 80)
    case 'closed':
      return clean(got.why, 80)
    case 'refused':
      return `HTTP ${got.status}`
  }
}
