import { fromJson, object } from '../base/shape.ts'
import { clean } from '../base/text.ts'

export type EvalResult =
  /** The expression's value, by value (a promise is awaited). */
  | { readonly kind: 'value'; readonly value: unknown }
  /** No answer in time; `connected` separates a port that never answered from a renderer that does not. */
  | { readonly kind: 'timeout'; readonly connected: boolean }
  /** The expression threw, or the browser refused to run it. */
  | { readonly kind: 'exception'; readonly text: string }
  /** The connection could not be made, or ended before the answer. */
  | { readonly kind: 'closed'; readonly why: string }
  /** The handshake was answered with an HTTP status: 403 is a foreign Origin, 404 a target that is gone. */
  | { readonly kind: 'refused'; readonly status: number }

/** An answer of ours is a few bytes; more than this is not one. */
const MAX_PAYLOAD = 1024 * 1024
const REQUEST_ID = 1

/**
 * Runs an expression in a page over its DevTools WebSocket. One deadline covers connecting, the handshake
 * and the answer. Sends no Origin header: Chromium answers 403 to a foreign one. Never rejects.
 */
export async function evaluate(wsUrl: string, expression: string, deadlineMs: number): Promise<EvalResult> {
  const deadline = performance.now() + deadlineMs
  const { WebSocket } = await import('ws')
  return new Promise((resolve) => {
    let connected = false
    let socket: InstanceType<typeof WebSocket>
    let done = false
    const finish = (result: EvalResult): void => {
      if (done) return
      done = true
      clearTimeout(timer)
      resolve(result)
      // terminate(), because a peer that hangs does not answer a close frame either.
      socket?.terminate()
    }
    const timer = setTimeout(
      () => finish({ kind: 'timeout', connected }),
      Math.max(0, deadline - performance.now()),
    )
    try {
      socket = new WebSocket(wsUrl, {
        perMessageDeflate: false,
        followRedirects: false,
        maxPayload: MAX_PAYLOAD,
      })
    } catch (err) {
      finish({ kind: 'closed', why: clean((err as Error).message) })
      return
    }
    socket.on('open', () => {
      connected = true
      const params = { expression, returnByValue: true, awaitPromise: true }
      socket.send(JSON.stringify({ id: REQUEST_ID, method: 'Runtime.evaluate', params }))
    })
    socket.on('message', (data) => {
      const result = parseAnswer(String(data))
      if (result !== undefined) finish(result)
    })
    socket.on('unexpected-response', (request, response) => {
      request.destroy()
      finish({ kind: 'refused', status: response.statusCode ?? 0 })
    })
    // Stays attached when done, because terminate() makes an error of a handshake that it ends.
    socket.on('error', (err) => finish({ kind: 'closed', why: clean(err.message) }))
    socket.on('close', (code) => finish({ kind: 'closed', why: `closed by the browser (code ${code})` }))
  })
}

/** Reads one message; undefined for events, answers to others, and anything that is no protocol message. */
function parseAnswer(message: string): EvalResult | undefined {
  const data = fromJson(message, object)
  if (data?.id !== REQUEST_ID) return undefined
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
