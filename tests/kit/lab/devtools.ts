import WebSocket from 'ws'
import { patience } from '../unit.ts'
import { addresses } from './relay.ts'
import { ok, until } from './run.ts'

type Result = Record<string, unknown>

/** One DevTools connection to a page, over the node's relay as an agent has it. */
export class DevTools {
  private next = 0
  private readonly waiting = new Map<number, (answer: { result?: Result; error?: object }) => void>()
  private readonly events: { method: string; params: Result }[] = []

  private constructor(private readonly socket: WebSocket) {
    socket.on('message', (data) => {
      const message = JSON.parse(String(data))
      if (message.id === undefined) this.events.push(message)
      else this.waiting.get(message.id)?.(message)
    })
    socket.on('error', () => {})
  }

  /** Connects to the node's first page. */
  static async ofPage(node: string): Promise<DevTools> {
    const page = await until('a page', () => targets(node).find((target) => target.type === 'page'))
    const { peer, port } = addresses(node)
    const url = `ws://${peer}:${port}/devtools/page/${page.id}`
    const socket = new WebSocket(url, { perMessageDeflate: false, maxPayload: 64 << 20 })
    await new Promise((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
    })
    return new DevTools(socket)
  }

  /** Sends one command; rejects with what the browser says against it, or when nothing comes. */
  call(method: string, params: Result = {}): Promise<Result> {
    const id = ++this.next
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer`)), patience(15_000))
      this.waiting.set(id, ({ result, error }) => {
        clearTimeout(timer)
        this.waiting.delete(id)
        if (result === undefined) reject(new Error(`${method}: ${JSON.stringify(error)}`))
        else resolve(result)
      })
      this.socket.send(JSON.stringify({ id, method, params }))
    })
  }

  /** Waits for an event, also one that has come already, whose parameters `wanted` takes. */
  async event(method: string, wanted: (params: Result) => boolean = () => true): Promise<Result> {
    const found = await until(method, () => this.events.find((e) => e.method === method && wanted(e.params)))
    return found.params
  }

  /** The value of an expression in the page (a promise is awaited); rejects when it throws. */
  async value(expression: string): Promise<unknown> {
    const params = { expression, returnByValue: true, awaitPromise: true }
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', params)
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails))
    return (result as { value?: unknown }).value
  }

  close(): void {
    this.socket.terminate()
  }
}

/** The targets that the browser lists over its relay. */
export function targets(node: string): { id: string; type: string; title: string }[] {
  const { peer, port } = addresses(node)
  return JSON.parse(ok(['curl', '-sS', '-m', '60', `http://${peer}:${port}/json/list`]))
}
