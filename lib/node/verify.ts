import type { Config } from '../base/config.ts'
import { type Deadline, deadlineIn } from '../base/deadline.ts'
import type { Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { lookBrowser } from '../browser/look.ts'
import { verifyEgress } from '../egress/verify.ts'
import { fetchInNetns } from '../host/curl.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'

/** How long a started browser may take until it lists its page, in milliseconds; polled, so a fast one is seen fast. */
const BROWSER_MS = 60_000
const POLL_MS = 150

export interface Part {
  readonly part: 'netns' | 'egress' | 'browser' | 'page' | 'relay'
  readonly ok: boolean
  readonly text: string
  /** The command to run when it is not ok. */
  readonly next?: string
}

interface Context {
  readonly p: Paths
  readonly config: Config
}

/** Looks at a node until it is whole or the time is over. What was not seen working is not called working. */
export async function verifyNode(ctx: Context, node: Node): Promise<Part[]> {
  const deadline = deadlineIn(ctx.config.probeDeadlineMs)
  const [egress, browser] = await Promise.all([verifyWayOut(ctx, node), verifyBrowserParts(ctx, node)])
  return [egress, ...browser, await verifyRelay(ctx, node, deadline)]
}

async function verifyWayOut(ctx: Context, node: Node): Promise<Part> {
  const conf = `${ctx.p.wireguardDir}/${node.name}.conf`
  if (!tunnelConfigured(ctx.p, node.name)) {
    return { part: 'egress', ok: true, text: `none (no ${conf})` }
  }
  const verdict = await verifyEgress(ctx, node)
  if (verdict.state === 'healthy') return { part: 'egress', ok: true, text: 'answers through the tunnel' }
  const next = `journalctl -u netvm-tunnel@${node.name} -n 30`
  return { part: 'egress', ok: false, text: verdict.reason || verdict.code, next }
}

async function verifyBrowserParts(ctx: Context, node: Node): Promise<Part[]> {
  const deadline = deadlineIn(BROWSER_MS)
  let judged = await lookBrowser(ctx, node)
  // Unknown is asked again like unhealthy: neither is what we wait for.
  while (judged.verdict.state !== 'healthy' && deadline.leftMs() > 0) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    judged = await lookBrowser(ctx, node)
  }
  const pid = judged.process?.pid
  if (judged.verdict.state === 'healthy') {
    const title = judged.marks.find((m) => m.layer === 'page')?.note
    return [
      { part: 'browser', ok: true, text: `pid ${pid}, CDP on 127.0.0.1:${node.cdpPort}` },
      { part: 'page', ok: true, text: title ?? 'there' },
    ]
  }
  const part = judged.verdict.layer === 'page' ? 'page' : 'browser'
  const next = `chromebox-watchdog ${node.name} --why`
  return [{ part, ok: false, text: judged.verdict.reason || judged.verdict.code, next }]
}

async function verifyRelay(ctx: Context, node: Node, deadline: Deadline): Promise<Part> {
  const url = `http://${node.peer}:${node.cdpPort}/json/version`
  const ask = () => fetchInNetns(undefined, [{ url, deadlineMs: ctx.config.probeDeadlineMs, wantBody: true }])
  let asked = await ask()
  const good = () => asked.seen && asked.value[0]?.exitCode === 0 && asked.value[0].body.includes('"Browser"')
  while (!good() && deadline.leftMs() > 0) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    asked = await ask()
  }
  if (good()) return { part: 'relay', ok: true, text: `${node.peer}:${node.cdpPort} answers` }
  const why = asked.seen ? (asked.value[0]?.error ?? 'no answer') : asked.why
  const said = why || `HTTP ${asked.seen ? asked.value[0]?.httpCode : '?'}`
  const text = `relay on ${node.peer}:${node.cdpPort} does not answer: ${said}`
  return { part: 'relay', ok: false, text, next: 'cdp-relay-watchdog' }
}
