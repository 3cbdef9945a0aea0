import net from 'node:net'

/**
 * One bare HTTP/1.1 GET over a plain socket. `node:http` would cost an agent, parsers and several
 * timers per node; a sweep asks hundreds of relays at once and must stay far below one `curl` each.
 */

/** How far a request had come when it failed. */
export type HttpStage = 'connect' | 'headers' | 'body'

export type HttpAnswer =
  | { readonly kind: 'answer'; readonly status: number; readonly body: string; readonly ms: number }
  | {
      /**
       * `refused`: nothing listens. `unreachable`: no route, no neighbour. `timeout`: the deadline passed.
       * `closed`: the other end hung up early. `bad`: not HTTP, or more than the size bound.
       */
      readonly kind: 'refused' | 'unreachable' | 'timeout' | 'closed' | 'bad'
      readonly stage: HttpStage
      readonly detail: string
      readonly ms: number
    }

export interface HttpGet {
  readonly host: string
  readonly port: number
  readonly path: string
  /** Milliseconds for everything: connect, headers and body. */
  readonly deadlineMs: number
  /** Most bytes read, headers included. A `/json/version` answer is under 1 KiB. */
  readonly maxBytes?: number
}

const MAX_BYTES = 64 * 1024
/** A timer that is later than this was kept waiting by this process, in milliseconds. */
const LOST_MS = 50
const UNREACHABLE = new Set(['EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENETDOWN', 'EADDRNOTAVAIL'])

interface Head {
  readonly status: number
  readonly bodyAt: number
  readonly length: number | undefined
  readonly chunked: boolean
}

/** Reads status line and the two headers that say where the body ends; `undefined` while incomplete. */
export function parseHead(raw: string): Head | 'bad' | undefined {
  // A server that speaks something else is recognized by its first bytes, not at the deadline.
  if (!'HTTP/1.'.startsWith(raw.slice(0, 7))) return 'bad'
  const end = raw.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const lines = raw.slice(0, end).split('\r\n')
  const status = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(lines[0] ?? '')
  if (status === null) return 'bad'
  let length: number | undefined
  let chunked = false
  for (const line of lines.slice(1)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).trim().toLowerCase()
    const value = line.slice(colon + 1).trim()
    if (name === 'content-length') {
      if (!/^\d{1,15}$/.test(value)) return 'bad'
      length = Number(value)
    } else if (name === 'transfer-encoding') {
      chunked = value.toLowerCase() === 'chunked'
      if (!chunked) return 'bad'
    }
  }
  return { status: Number(status[1]), bodyAt: end + 4, length, chunked }
}

/** Joins the chunks of a chunked body; `undefined` while the last one is not there, `bad` when malformed. */
export function parseChunks(raw: string): string | 'bad' | undefined {
  let at = 0
  let body = ''
  for (;;) {
    const eol = raw.indexOf('\r\n', at)
    if (eol < 0) return raw.length - at > 64 ? 'bad' : undefined
    const size = /^([0-9a-f]{1,7})(?:;.{0,40})?$/i.exec(raw.slice(at, eol))
    if (size === null) return 'bad'
    const bytes = Number.parseInt(size[1] ?? '', 16)
    if (bytes === 0) return body
    const start = eol + 2
    if (raw.length < start + bytes + 2) return undefined
    if (raw.slice(start + bytes, start + bytes + 2) !== '\r\n') return 'bad'
    body += raw.slice(start, start + bytes)
    at = start + bytes + 2
  }
}

/** The whole body when `raw` (one character per byte) holds all of it. `ended`: no more will come. */
export function parseAnswer(
  raw: string,
  ended: boolean,
): { status: number; body: string } | 'bad' | undefined {
  const head = parseHead(raw)
  if (head === undefined || head === 'bad') return head
  const rest = raw.slice(head.bodyAt)
  let body: string | undefined
  if (head.chunked) {
    const chunks = parseChunks(rest)
    if (chunks === undefined || chunks === 'bad') return chunks
    body = chunks
  } else if (head.length !== undefined) {
    if (rest.length < head.length) return undefined
    body = rest.slice(0, head.length)
  } else if (ended) body = rest
  if (body === undefined) return undefined
  return { status: head.status, body: Buffer.from(body, 'latin1').toString('utf8') }
}

/** Asks once. Never throws: everything that can go wrong is a kind of answer, with the stage it went wrong in. */
export function httpGet(request: HttpGet): Promise<HttpAnswer> {
  const { host, port, path, deadlineMs, maxBytes = MAX_BYTES } = request
  const started = performance.now()
  return new Promise((resolve) => {
    let stage: HttpStage = 'connect'
    let raw = ''
    const socket = net.connect({ host, port, family: 4 })
    const took = () => Math.round(performance.now() - started)
    let settled = false
    const settle = (answer: HttpAnswer) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      socket.destroy()
      resolve(answer)
    }
    const fail = (kind: Exclude<HttpAnswer['kind'], 'answer'>, detail: string) =>
      settle({ kind, stage, detail, ms: took() })
    // Timers run before what has arrived is read. When this process was busy past the deadline, the answer of a
    // healthy relay may be waiting, or its connection: the time lost by us is given back once.
    let timer = setTimeout(() => setImmediate(late, true), deadlineMs)
    const late = (first: boolean) => {
      const lost = Math.min(performance.now() - started - deadlineMs, deadlineMs)
      if (!first || lost < LOST_MS) return fail('timeout', `no answer within ${Math.round(deadlineMs)} ms`)
      if (!settled) timer = setTimeout(() => setImmediate(late, false), lost)
    }
    const judge = (ended: boolean) => {
      const answer = parseAnswer(raw, ended)
      if (answer === 'bad') fail('bad', 'the answer is not HTTP')
      else if (answer !== undefined) settle({ kind: 'answer', ...answer, ms: took() })
      else if (ended)
        fail('closed', raw === '' ? 'closed without an answer' : 'closed in the middle of its answer')
      else if (raw.includes('\r\n\r\n')) stage = 'body'
    }
    socket.on('connect', () => {
      stage = 'headers'
      socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`)
    })
    socket.on('data', (chunk: Buffer) => {
      if (raw.length + chunk.length > maxBytes) return fail('bad', `more than ${maxBytes} bytes`)
      raw += chunk.toString('latin1')
      judge(false)
    })
    socket.on('end', () => judge(true))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      const code = error.code ?? 'error'
      if (code === 'ECONNREFUSED') fail('refused', 'connection refused')
      else if (code === 'ETIMEDOUT') fail('timeout', 'connection timed out')
      else if (UNREACHABLE.has(code)) fail('unreachable', code)
      else fail('closed', code)
    })
  })
}
