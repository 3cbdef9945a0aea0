import { clean } from '../base/text.ts'
import type { Layer } from '../base/types.ts'
import { type Code, text } from '../report/codes.ts'

/** A layer below the API that was looked at and fails, for its mark; `code` is of the table. */
export interface Below {
  readonly code: string
  readonly note: string
}

/**
 * What one API check found. `failure` is a strike; `unknown` means that a lower layer or the check
 * itself was in the way, and never is one.
 */
export type Finding =
  | { readonly kind: 'ok'; readonly note: string }
  | {
      readonly kind: 'failure'
      readonly code: 'api-timeout' | 'api-http' | 'api-unreachable' | 'renderer-silent'
      readonly reason: string
      /** The API's answer proves that the tunnel works; silence proves nothing. */
      readonly egressInDoubt: boolean
    }
  | {
      readonly kind: 'unknown'
      readonly code: Code
      readonly reason: string
      readonly layer: Layer
      readonly below?: Below
    }

/** The answer of the expression that runs in the chat page. */
export type PageAnswer =
  | { readonly status: number; readonly redirect?: { readonly asked: string; readonly to: string } }
  /** Redirected to an origin that does not let the page look, or in a circle. */
  | { readonly redirectHidden: true }
  | { readonly timeout: true }
  | { readonly error: string }

export const ok = (note: string): Finding => ({ kind: 'ok', note })

/** @param below what is wrong with that layer, where it was looked at and fails */
export const unknown = (code: Code, reason: string, layer: Layer, below?: Below): Finding => ({
  kind: 'unknown',
  code,
  reason,
  layer,
  ...(below === undefined ? {} : { below }),
})

/** `api timeout`: no answer from the API within NETVM_API_DEADLINE. */
export const apiTimeout: Finding = {
  kind: 'failure',
  code: 'api-timeout',
  reason: text('api-timeout'),
  egressInDoubt: true,
}

/**
 * The page does not answer `Runtime.evaluate`. An endless loop, a renderer that was killed and a dialog that
 * nobody answers look the same to a client that comes later (measured on Chromium 156: the old title stays
 * listed, `Page.enable` hangs, and `Page.handleJavaScriptDialog` says "No dialog is showing" while one is).
 * All three stop the page for its agent, and a restart ends all three, so all three are a strike.
 */
export const rendererDead: Finding = {
  kind: 'failure',
  code: 'renderer-silent',
  reason: text('renderer-silent'),
  egressInDoubt: false,
}

/** 2xx is healthy. */
export function judgeStatus(status: number): Finding {
  return status >= 200 && status <= 299 ? ok(`http ${status}`) : httpFailure(`${status}`)
}

const httpFailure = (code: string): Finding => ({
  kind: 'failure',
  code: 'api-http',
  reason: text('api-http', { status: code }),
  egressInDoubt: false,
})

/**
 * A redirect's own status is kept from the page (Fetch: a followed one is gone, one that is not followed reads 0), so
 * what is reported is the class that it must have had.
 */
const REDIRECT = '3xx'

/**
 * Is the answer still that of the URL that was asked? A trailing slash and http → https on the same host are the usual
 * ways of a server to say "here, but spelled so". Anything else is another page, a login for instance, and its 200 says
 * nothing of the API.
 */
function samePlace(asked: string, to: string): boolean {
  if (!URL.canParse(asked) || !URL.canParse(to)) return false
  const [a, b] = [new URL(asked), new URL(to)]
  const path = (u: URL) => `${u.pathname.replace(/\/$/, '')}${u.search}`
  const upgraded = a.protocol === 'http:' && b.protocol === 'https:' && a.hostname === b.hostname
  return path(a) === path(b) && (a.origin === b.origin || upgraded)
}

/** Where it led, without the query, which may carry a token. */
function place(url: string): string {
  if (!URL.canParse(url)) return 'somewhere'
  const { origin, pathname } = new URL(url)
  return clean(`${origin}${pathname}`, 120)
}

function judgeRedirect(status: number, asked: string, to: string): Finding {
  if (samePlace(asked, to)) return judgeStatus(status)
  const good = status >= 200 && status <= 299
  return httpFailure(`${good ? REDIRECT : status} (redirected to ${place(to)})`)
}

/** Checks the shape of what a page returned: a page is untrusted input. */
export function parsePageAnswer(value: unknown): PageAnswer | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const v = value as Record<string, unknown>
  if (v.timeout === true) return { timeout: true }
  if (v.redirectHidden === true) return { redirectHidden: true }
  if (typeof v.error === 'string') return { error: v.error.slice(0, 200) }
  if (typeof v.status === 'number' && Number.isInteger(v.status) && v.status >= 0 && v.status <= 999) {
    const { status, redirected, asked, url } = v
    if (redirected !== true) return { status }
    if (typeof asked !== 'string' || typeof url !== 'string') return undefined
    return { status, redirect: { asked, to: url } }
  }
  return undefined
}

export function judgeAnswer(answer: PageAnswer): Finding {
  if ('timeout' in answer) return apiTimeout
  if ('error' in answer) {
    return {
      kind: 'failure',
      code: 'api-unreachable',
      reason: text('api-unreachable', { why: answer.error }),
      egressInDoubt: true,
    }
  }
  if ('redirectHidden' in answer) return httpFailure(`${REDIRECT} (redirected)`)
  const { status, redirect } = answer
  return redirect === undefined ? judgeStatus(status) : judgeRedirect(status, redirect.asked, redirect.to)
}

/**
 * The expression for `Runtime.evaluate` with `awaitPromise`. `API Check` resolves against the page's own
 * origin. The body is not read: headers answer the question, and a stream would never end. A redirect to an origin that
 * keeps the page out fails like a server that is not there; asking once more, without following, tells them apart.
 *
 * @param apiCheck a path that starts with `/`, or an absolute http(s) URL
 * @param deadlineMs time for the answer's headers
 */
export function fetchExpression(apiCheck: string, deadlineMs: number): string {
  const url = JSON.stringify(apiCheck)
  return `(async () => {
  const stop = new AbortController()
  let late = false
  const timer = setTimeout(() => { late = true; stop.abort() }, ${Math.round(deadlineMs)})
  const ask = (redirect) => fetch(new URL(${url}, location.origin), { credentials: 'include', cache: 'no-store', signal: stop.signal, redirect })
  try {
    const answer = await ask('follow')
    return { status: answer.status, redirected: answer.redirected, asked: new URL(${url}, location.origin).href, url: answer.url }
  } catch (e) {
    const again = late ? undefined : await ask('manual').catch(() => undefined)
    if (late) return { timeout: true }
    return again && again.type === 'opaqueredirect' ? { redirectHidden: true } : { error: String(e && e.message || e) }
  } finally { clearTimeout(timer); stop.abort() }
})()`
}
