import { mayBeErrorPage, pageVerdict, rewriteAuthority, type Target } from '../cdp.ts'
import { type EvalResult, evaluate } from '../cdp-socket.ts'
import { clean } from '../text.ts'
import type { Node } from '../types.ts'
import type { PageFinding } from './types.ts'

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
  const answers = await Promise.all(asked.map((t) => isErrorPage(node, t, deadlineMs)))
  const well = asked[answers.indexOf(false)]
  if (well) return { state: 'ok', title: clean(well.title, 80) }
  const unclear = answers.find((a) => typeof a === 'string')
  if (typeof unclear === 'string') return { state: 'doubtful', detail: unclear }
  return { state: 'error-page', detail: `error page: ${clean(asked[0]?.title ?? '', 80)}` }
}

/** Text says why it cannot be told. */
async function isErrorPage(
  node: Pick<Node, 'peer' | 'cdpPort'>,
  target: Target,
  deadlineMs: number,
): Promise<boolean | string> {
  if (target.wsUrl === undefined) return 'it offers no socket'
  const got = await evaluate(
    rewriteAuthority(target.wsUrl, node.peer, node.cdpPort),
    'location.href',
    deadlineMs,
  )
  if (got.kind !== 'value') return `over the relay: ${unanswered(got)}`
  const at = typeof got.value === 'string' && URL.canParse(got.value) ? new URL(got.value) : undefined
  if (at?.protocol === 'chrome-error:') return true
  // A tab is listed under its URL before it is there: it is still at about:blank, and may yet fail.
  return at?.hostname === target.title ? false : `it is at ${clean(String(got.value), 80)}`
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
