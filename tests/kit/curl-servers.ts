import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { type FetchRequest, type FetchResult, fetchInNetns } from '../../lib/host/curl.ts'
import { patience, scaled } from './unit.ts'

// Servers on loopback for the tests of curl, and how they are asked.

export async function httpServer(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

export async function tcpServer(t: TestContext, onSocket: (socket: Socket) => void): Promise<string> {
  const sockets: Socket[] = []
  const server = createTcpServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    onSocket(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** For an answer that comes: only a failing test waits so long. */
export const LONG_MS = patience(30_000)
/** For one that never comes. What a server says before its silence has this time to arrive. */
export const SHORT_MS = scaled(1000)
/** A test that only a kept deadline ends. */
export const ENDS = { timeout: LONG_MS }

export const ask = (url: string, over: Partial<FetchRequest> = {}): FetchRequest => {
  return { url, deadlineMs: LONG_MS, wantBody: true, ...over }
}

export async function fetchAll(
  requests: FetchRequest[],
  netns?: string,
): Promise<{ results: FetchResult[]; ms: number }> {
  const start = performance.now()
  // How long curl takes to start and to report is no subject of these tests.
  const look = await fetchInNetns(netns, requests, { slackMs: LONG_MS })
  assert.ok(look.seen, JSON.stringify(look))
  return { results: look.value, ms: performance.now() - start }
}

export async function fetchOne(request: FetchRequest): Promise<FetchResult & { ms: number }> {
  const { results, ms } = await fetchAll([request])
  assert.equal(results.length, 1)
  return { ...(results[0] as FetchResult), ms }
}
