import { type Deadline, deadlineIn } from '../base/deadline.ts'
import type { Node } from '../base/types.ts'
import { lookBrowser } from '../browser/look.ts'
import { verifyEgress } from '../egress/verify.ts'
import { fetchInNetns } from '../host/curl.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { type NodeContext, poll } from './context.ts'

/** How long a started browser may take until it lists its page, in milliseconds; polled, so a fast one is seen fast. */
const BROWSER_MS = 60_000

export interface Part {
  readonly part: 'netns' | 'egress' | 'browser' | 'page' | 'relay'
  readonly ok: boolean
  readonly text: string
  /** The command to run when it is not ok. */
  readonly next?: string
}

/** Looks at a node until every part answers or the time is over. What was not seen working is not called working. */
export async function verifyNode(ctx: NodeContext, node: Node): Promise<Part[]> {
  const deadline = deadlineIn(ctx.config.probeDeadlineMs)
  const [egress, browser] = await Promise.all([verifyWayOut(ctx, node), verifyBrowserParts(ctx, node)])
  return [egress, ...browser, await verifyRelay(ctx, node, deadline)]
}

async function verifyWayOut(ctx: NodeContext, node: Node): Promise<Part> {
  const conf = `${ctx.p.wireguardDir}/${node.name}.conf`
  if (!tunnelConfigured(ctx.p, node.name)) {
    return { part: 'egress', ok: true, text: `none (no ${conf})` }
  }
  const verdict = await verifyEgress(ctx, node)
  if (verdict.state === 'healthy') return { part: 'egress', ok: true, text: 'answers through the tunnel' }
  const next = `journalctl -u netvm-tunnel@${node.name} -n 30`
  return { part: 'egress', ok: false, text: verdict.reason || verdict.code, next }
}

async function verifyBrowserParts(ctx: NodeContext, node: Node): Promise<Part[]> {
  const healthy = (j: Awaited<ReturnType<typeof lookBrowser>>) => j.verdict.state === 'healthy'
  const { verdict, marks, process } = await poll(
    deadlineIn(BROWSER_MS),
    () => lookBrowser(ctx, node),
    healthy,
  )
  if (verdict.state === 'healthy') {
    const title = marks.find((m) => m.layer === 'page')?.note
    return [
      { part: 'browser', ok: true, text: `pid ${process?.pid}, CDP on 127.0.0.1:${node.cdpPort}` },
      { part: 'page', ok: true, text: title ?? 'there' },
    ]
  }
  const part = verdict.layer === 'page' ? 'page' : 'browser'
  const next = `chromebox-watchdog ${node.name} --why`
  return [{ part, ok: false, text: verdict.reason || verdict.code, next }]
}

async function verifyRelay({ config }: NodeContext, node: Node, deadline: Deadline): Promise<Part> {
  const where = `${node.peer}:${node.cdpPort}`
  const url = { url: `http://${where}/json/version`, deadlineMs: config.probeDeadlineMs, wantBody: true }
  const ask = async () => {
    const asked = await fetchInNetns(undefined, [url])
    if (!asked.seen) return asked.why
    const [answer] = asked.value
    if (answer?.exitCode === 0 && answer.body.includes('"Browser"')) return undefined
    return answer === undefined ? 'no answer' : answer.error || `HTTP ${answer.httpCode}`
  }
  const why = await poll(deadline, ask, (fault) => fault === undefined)
  if (why === undefined) return { part: 'relay', ok: true, text: `${where} answers` }
  const text = `relay on ${where} does not answer: ${why}`
  return { part: 'relay', ok: false, text, next: 'cdp-relay-watchdog' }
}
