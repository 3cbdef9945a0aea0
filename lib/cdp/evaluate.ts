import { deadlineIn } from '../base/deadline.ts'
import { fromJson, type Json, object } from '../base/shape.ts'
import { clean } from '../base/text.ts'

/** A call that brought no answer. */
export type Unanswered =
  /** No answer in time; `connected` separates a port that never answered from a renderer that does not. */
  | { readonly kind: 'timeout'; readonly connected: boolean }
  /** The connection could not be made, or ended before the answer. */
  | { readonly kind: 'closed'; readonly why: string; readonly connected: boolean }
  /** The handshake was answered with an HTTP status: 403 is a foreign Origin, 404 a target that is gone. */
  | { readonly kind: 'refused'; readonly status: number }

export type EvalResult =
  /** The expression's value, by value (a promise is awaited). */
  | { readonly kind: 'value'; readonly value: unknown }
  /** The expression threw, or the browser refused to run it. */
  | { readonly kind: 'exception'; readonly text: string }
  | Unanswered

/** An answer of ours is a few bytes; more than this is not one. */
const MAX_PAYLOAD = 1024 * 1024
const REQUEST_ID = 1

/**
 * Runs an expression in a page over its DevTools WebSocket. One deadline covers connecting, the handshake
 * and the answer. Never rejects.
 */
export async function evaluate(wsUrl: string, expression: string, deadlineMs: number): Promise<EvalResult> {
  const params = { expression, returnByValue: true, awaitPromise: true }
  const got = await call(wsUrl, 'Runtime.evaluate', params, deadlineMs)
  return got.kind === 'answer' ? readEvaluated(got.message) : got
}

/** Calls one method over a DevTools WebSocket, like `evaluate`. */
export async function call(
  wsUrl: string,
  method: string,
  params: Json,
  deadlineMs: number,
): Promise<{ readonly kind: 'answer'; readonly message: Json } | Unanswered> {
  const deadline = deadlineIn(deadlineMs)
  const { WebSocket } = await import('ws')
  return new Promise((resolve) => {
    let connected = false
    let socket: InstanceType<typeof WebSocket>
    let done = false
    const finish = (result: Awaited<ReturnType<typeof call>>): void => {
      if (done) return
      done = true
      clearTimeout(timer)
      resolve(result)
      // terminate(), because a peer that hangs does not answer a close frame either.
      socket?.terminate()
    }
    const timer = setTimeout(() => finish({ kind: 'timeout', connected }), deadline.leftMs())
    const closed = (why: string) => finish({ kind: 'closed', why, connected })
    try {
      // No Origin header: Chromium answers 403 to a foreign one.
      socket = new WebSocket(wsUrl, {
        perMessageDeflate: false,
        followRedirects: false,
        maxPayload: MAX_PAYLOAD,
      })
    } catch (err) {
      closed(clean((err as Error).message))
      return
    }
    socket.on('open', () => {
      connected = true
      socket.send(JSON.stringify({ id: REQUEST_ID, method, params }))
    })
    socket.on('message', (data) => {
      // Events, and anything that is no protocol message, are passed over.
      const message = fromJson(String(data), object)
      if (message?.id === REQUEST_ID) finish({ kind: 'answer', message })
    })
    socket.on('unexpected-response', (request, response) => {
      request.destroy()
      finish({ kind: 'refused', status: response.statusCode ?? 0 })
    })
    // Stays attached when done, because terminate() makes an error of a handshake that it ends.
    socket.on('error', (err) => closed(clean(err.message)))
    socket.on('close', (code) => closed(`closed by the browser (code ${code})`))
  })
}

/** Why there is no answer, for people. @param who was asked */
export function whyUnanswered(got: Unanswered, who: string): string {
  switch (got.kind) {
    case 'timeout':
      return got.connected ? `${who} does not answer in time` : 'no connection in time'
    case 'closed':
      return clean(got.why, 80)
    case 'refused':
      return `HTTP ${got.status}`
  }
}

function readEvaluated(data: Json): EvalResult {
  const error = data.error as { message?: unknown } | undefined
  if (error !== undefined) return { kind: 'exception', text: clean(`refused: ${String(error?.message)}`) }
  const { result, exceptionDetails: thrown } = (data.result ?? {}) as {
    result?: { value?: unknown }
    exceptionDetails?: { text?: unknown; exception?: { description?: unknown; value?: unknown } }
  }
  if (thrown !== undefined) {
    const { description, value } = thrown.exception ?? {}
    return { kind: 'exception', text: clean(String(description ?? value ?? thrown.text ?? 'thrown')) }
  }
  return { kind: 'value', value: result?.value }
}
