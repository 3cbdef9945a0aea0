import type { Config } from '../base/config.ts'
import { sleep } from '../base/deadline.ts'
import { clean } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { type EvalResult, evaluate } from '../cdp/evaluate.ts'
import { isErrorUrl, pageVerdict, parseTargets, rewriteAuthority } from '../cdp/targets.ts'
import { fetchInNetns } from '../host/curl.ts'
import { type Code, text } from '../report/codes.ts'
import {
  apiTimeout,
  type Finding,
  fetchExpression,
  judgeAnswer,
  ok,
  parsePageAnswer,
  rendererDead,
  unknown,
} from './judge.ts'

/**
 * What the answer may take on its way from the page to us beyond the API's own deadline, in ms. The page
 * measures the deadline; this only ends a check whose page has stopped in the middle of it.
 */
const ANSWER_SLACK_MS = 1500
/** Before the second try of a check that a navigation interrupted: the new document needs a moment, in ms. */
const RETRY_DELAY_MS = 500

type Asked = Pick<Config, 'probeDeadlineMs' | 'apiDeadlineMs'>

/** The longest that one check takes, in ms. */
export function checkBoundMs(config: Asked): number {
  const once = 3 * config.probeDeadlineMs + config.apiDeadlineMs + ANSWER_SLACK_MS
  return 2 * once + RETRY_DELAY_MS
}

/**
 * Checks a node's API through the chat page, over the relay. The caller holds a CDP slot. Never throws; what
 * is in the way below the API (relay, browser, page) is `unknown`: it has owners of its own.
 */
export async function checkApi(node: Node, config: Asked): Promise<Finding> {
  const first = await checkOnce(node, config)
  // A page that navigates, or a socket that ends, in the middle of a check says nothing of the API.
  if (first.kind !== 'unknown' || first.code !== INTERRUPTED) return first
  await sleep(RETRY_DELAY_MS)
  return checkOnce(node, config)
}

const INTERRUPTED = 'check-interrupted' satisfies Code

async function checkOnce(node: Node, config: Asked): Promise<Finding> {
  const page = await findPage(node, config.probeDeadlineMs)
  if ('kind' in page) return page
  const ask = (expression: string, ms: number) => evaluate(page.wsUrl, expression, ms)
  const alive = await ask('location.href', config.probeDeadlineMs)
  if (alive.kind === 'timeout' && alive.connected) return rendererDead
  if (alive.kind !== 'value') return interrupted(alive)
  // Listed under the URL and the host name that were asked for (see mayBeErrorPage); it answers, and is not the page.
  if (isErrorUrl(String(alive.value)))
    return unknown('api-unseen', "the page shows the browser's error page", 'page')
  if (node.apiCheck === '') return ok('the page answers')
  const expression = fetchExpression(node.apiCheck, config.apiDeadlineMs)
  const answer = await ask(expression, config.apiDeadlineMs + ANSWER_SLACK_MS)
  if (answer.kind === 'value') {
    const parsed = parsePageAnswer(answer.value)
    return parsed
      ? judgeAnswer(parsed)
      : unknown('api-unseen', 'the page gave an answer that is none', 'page')
  }
  if (answer.kind !== 'timeout') return interrupted(answer)
  // Silence is the API's, unless the page has stopped meanwhile.
  const still = await ask('1', config.probeDeadlineMs)
  if (still.kind === 'timeout' && still.connected) return rendererDead
  return still.kind === 'value' ? apiTimeout : interrupted(still)
}

async function findPage(node: Node, deadlineMs: number): Promise<Finding | { readonly wsUrl: string }> {
  const where = `${node.peer}:${node.cdpPort}`
  const asked = await fetchInNetns(undefined, [
    { url: `http://${where}/json/list`, deadlineMs, wantBody: true },
  ])
  if (!asked.seen) return unknown('api-unseen', `cannot ask ${where}: ${asked.why}`, 'relay')
  const got = asked.value[0]
  if (got?.exitCode !== 0) {
    const why = got?.error ?? 'not asked'
    return unknown('api-unseen', `CDP unreachable over the relay ${where}: ${why}`, 'relay')
  }
  const targets = got.httpCode === 200 ? parseTargets(got.body) : undefined
  if (!targets) return unknown('api-unseen', `${where} answers HTTP ${got.httpCode}, no target list`, 'cdp')
  const verdict = pageVerdict(targets, node.chatTitle)
  if (verdict.kind !== 'ok') {
    return unknown('api-unseen', text('page-missing', { title: node.chatTitle }), 'page')
  }
  const { wsUrl } = verdict.page
  if (wsUrl === undefined) return unknown('api-unseen', 'the chat page offers no socket', 'page')
  return { wsUrl: rewriteAuthority(wsUrl, node.peer, node.cdpPort) }
}

function interrupted(r: EvalResult): Finding {
  switch (r.kind) {
    case 'refused':
      // 403: the browser does not allow this client; a configuration fault that no kill cures.
      return r.status === 403
        ? unknown('api-unseen', 'CDP answers 403: this client is not allowed', 'cdp')
        : unknown(INTERRUPTED, `the page went away during the check (HTTP ${r.status})`, 'page')
    case 'timeout':
      return unknown('api-unseen', 'CDP accepts no WebSocket in time', 'cdp')
    case 'closed':
      return unknown(INTERRUPTED, `CDP connection ended during the check: ${clean(r.why, 80)}`, 'cdp')
    default: {
      const what = r.kind === 'exception' ? clean(r.text, 80) : r.kind
      return unknown(INTERRUPTED, `the page changed during the check: ${what}`, 'page')
    }
  }
}
