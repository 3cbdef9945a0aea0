import { deadlineIn, sleep } from '../base/deadline.ts'
import { call, whyUnanswered } from '../cdp/evaluate.ts'
import { parseVersion, rewriteAuthority } from '../cdp/targets.ts'
import { httpGet } from '../host/http.ts'
import { holdsListener } from '../host/listeners.ts'
import { readRunning } from '../host/proc.ts'

/**
 * How long a browser has to take the request, in milliseconds. A healthy one takes it in a few; a stopped one
 * never does, and the whole stop must stay within what a relaunch allows for it.
 */
const ASK_MS = 2000
/** How long a browser that took the request may flush, in milliseconds; TERM comes after it. */
const FLUSH_MS = 8000

/**
 * Asks the browser to close over its DevTools port and waits for its end. `Browser.close` writes cookies and
 * storage before anything ends. A TERM does not: of six fresh profiles, three had lost a cookie set just before.
 * Runs inside the browser's own unit: its namespace, its user.
 *
 * @param pid the unit's main process; no other process on that port is asked to close
 * @returns why the browser was left to the TERM that follows, or undefined when it has ended
 */
export async function closeBrowser(proc: string, pid: number, port: number): Promise<string | undefined> {
  const deadline = deadlineIn(ASK_MS)
  const ours = holdsListener({ proc }, pid, port)
  // What is asked is told to close: without the proof that it is this browser, nobody is asked.
  if (!ours.seen) return `whose port ${port} is cannot be seen: ${ours.why}`
  if (!ours.value) return `port ${port} is not held by pid ${pid}`
  const at = { host: '127.0.0.1', port }
  const answer = await httpGet({ ...at, path: '/json/version', deadlineMs: deadline.leftMs() })
  const version = answer.kind === 'answer' ? parseVersion(answer.body) : undefined
  if (version === undefined) return `no answer of a browser on port ${port}`
  const url = rewriteAuthority(version.wsUrl, at.host, port)
  const got = await call(url, 'Browser.close', {}, deadline.leftMs())
  // A browser that ends at once closes the connection instead of answering.
  const taken = got.kind === 'answer' || (got.kind === 'closed' && got.connected)
  if (!taken) return `Browser.close: ${whyUnanswered(got, 'the browser')}`
  for (const flush = deadlineIn(FLUSH_MS); flush.leftMs() > 0; await sleep(20)) {
    if (readRunning(proc, pid) === undefined) return undefined
  }
  return `pid ${pid} took the request and did not end in ${FLUSH_MS / 1000} s`
}
