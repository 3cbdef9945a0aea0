import { performance } from 'node:perf_hooks'
import { type WgServer, wgServer } from '../../../tests/kit/lab/wg-server.ts'
import { browser, cursor, receipt, said, until } from '../../../tests/kit/lab.ts'

export interface TunnelSite {
  readonly url: string
  /** By address: the host, which has no name server here, must be able to ask it too. */
  readonly egressUrl: string
  readonly title: string
  readonly server: WgServer
}

/** A WireGuard server with a chat site behind it, and the node's configuration for it. */
export async function tunnelReady(node: string): Promise<TunnelSite> {
  const server = await wgServer()
  server.conf(node)
  return { url: server.url, egressUrl: server.addressUrl, title: server.title, server }
}

/** Cuts the node's tunnel at the far end, sees it paged with the browser untouched, restores it, sees the recovery. */
export async function tunnelAct(node: string, site: TunnelSite): Promise<{ seconds: number; proof: string }> {
  const unit = `chromebox-watchdog@${node}.service`
  const before = browser(node)
  const position = cursor()
  const reported = (wanted: RegExp): string | undefined =>
    said(position, unit)
      .split('\n')
      .find((line) => wanted.test(line))
  site.server.cutNode(node)
  const page = await until(
    'the tunnel fault is paged',
    () => reported(/PAGE.*tunnel-fault|tunnel-fault/),
    90_000,
  )
  const begun = performance.now()
  site.server.mendNode(node)
  await until(
    'a healthy look',
    () => receipt('chromebox-watchdog', node)?.verdict.state === 'healthy',
    90_000,
  )
  const seconds = (performance.now() - begun) / 1000
  if (browser(node)?.pid !== before?.pid || browser(node)?.startTicks !== before?.startTicks)
    throw new Error('a tunnel fault touched the browser')
  return {
    seconds,
    proof: `${page}; browser pid ${before?.pid} untouched; healthy again once it was restored`,
  }
}
