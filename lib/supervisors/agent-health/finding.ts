import type { Layer } from '../../types.ts'

/**
 * What one API check found. `failure` is a strike; `unknown` means that a lower layer or the check
 * itself was in the way, and never is one.
 */
export type Finding =
  | { readonly kind: 'ok'; readonly note: string }
  | {
      readonly kind: 'failure'
      readonly code: 'api-timeout' | 'api-http' | 'api-unreachable' | 'renderer'
      /** Contract texts: `api timeout`, `api http <code>`, `renderer not responding`. */
      readonly reason: string
      /** The API's answer proves that the tunnel works; silence proves nothing. */
      readonly egressInDoubt: boolean
    }
  | { readonly kind: 'unknown'; readonly code: string; readonly reason: string; readonly layer: Layer }

/** The answer of the expression that runs in the chat page. */
export type PageAnswer = { readonly status: number } | { readonly timeout: true } | { readonly error: string }

export const ok = (note: string): Finding => ({ kind: 'ok', note })

export const unknown = (code: string, reason: string, layer: Layer): Finding => ({
  kind: 'unknown',
  code,
  reason,
  layer,
})

/** `api timeout`: no answer from the API within NETVM_API_DEADLINE. */
export const apiTimeout: Finding = {
  kind: 'failure',
  code: 'api-timeout',
  reason: 'api timeout',
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
  code: 'renderer',
  reason: 'renderer not responding',
  egressInDoubt: false,
}

/** 2xx is well. The page has followed redirects already. */
export function judgeStatus(status: number): Finding {
  if (status >= 200 && status <= 299) return ok(`http ${status}`)
  return { kind: 'failure', code: 'api-http', reason: `api http ${status}`, egressInDoubt: false }
}

/** Checks the shape of what a page returned: a page is untrusted input. */
export function parsePageAnswer(value: unknown): PageAnswer | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const v = value as Record<string, unknown>
  if (v.timeout === true) return { timeout: true }
  if (typeof v.error === 'string') return { error: v.error.slice(0, 200) }
  if (typeof v.status === 'number' && Number.isInteger(v.status) && v.status >= 0 && v.status <= 999) {
    return { status: v.status }
  }
  return undefined
}

export function judgeAnswer(answer: PageAnswer): Finding {
  if ('timeout' in answer) return apiTimeout
  if ('error' in answer) {
    return {
      kind: 'failure',
      code: 'api-unreachable',
      reason: `api unreachable: ${answer.error}`,
      egressInDoubt: true,
    }
  }
  return judgeStatus(answer.status)
}

/**
 * The expression for `Runtime.evaluate` with `awaitPromise`. `API Check` resolves against the page's own
 * origin. The body is not read: headers answer the question, and a stream would never end.
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
  try {
    const answer = await fetch(new URL(${url}, location.origin), { credentials: 'include', cache: 'no-store', signal: stop.signal })
    return { status: answer.status }
  } catch (e) {
    return late ? { timeout: true } : { error: String(e && e.message || e) }
  } finally { clearTimeout(timer); stop.abort() }
})()`
}
