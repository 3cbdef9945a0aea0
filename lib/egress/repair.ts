import { existsSync } from 'node:fs'
import { clean, seconds } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { type JobResult, restart } from '../host/systemd.ts'
import { unitOutput } from '../host/unit-output.ts'
import { text } from '../report/codes.ts'
import { lastHandshakeOf } from '../tunnel/device.ts'
import { handoverApplied, offerHandover, withdrawHandover } from '../tunnel/handover.ts'
import { keepHandshake } from './kept.ts'
import { lookDump, wgName } from './look.ts'
import type { EgressContext, EgressVerdict, TunnelRepair } from './types.ts'
import { verifyEgress } from './verify.ts'

/** Above the unit's own TimeoutStopSec + TimeoutStartSec (10 + 30 s), in milliseconds, so that systemd's word comes first. */
const RESTART_DEADLINE_MS = 42_000

/**
 * D3: restarts the tunnel once (which reads the configuration and resolves the endpoint again) and verifies for up
 * to `NETVM_TUNNEL_VERIFY`, returning as soon as a probe answers. The caller holds the node lock and pages; the
 * browser is not touched here. Never throws for a failed restart: that is `ok: false` with the evidence.
 */
export async function repairTunnel(ctx: EgressContext, node: Node): Promise<TunnelRepair> {
  const startedWallMs = Date.now()
  const started = performance.now()
  const unit = `netvm-tunnel@${node.name}.service`
  const { job, verdict } = await restartAndVerify(ctx, node, unit)
  const durationMs = Math.round(performance.now() - started)
  const ok = verdict.state === 'healthy'
  const evidence = [
    ...(job.ok ? [] : [job.detail, ...(await lastWords(unit, startedWallMs))]),
    ...verdict.evidence,
  ]
  return {
    ok,
    text: ok ? text('tunnel-restart-ok', { took: seconds(durationMs) }) : text('tunnel-restart-failed'),
    verdict,
    evidence,
    startedWallMs,
    durationMs,
  }
}

async function restartAndVerify(
  ctx: EgressContext,
  node: Node,
  unit: string,
): Promise<{ job: JobResult; verdict: EgressVerdict }> {
  const wg = wgName(ctx.p, node)
  try {
    const [handshake, offered] = await Promise.all([
      lastHandshake(ctx, node, wg),
      offerHandover(ctx.p, { node: node.name, netns: node.netns, wg }),
    ])
    const restarting = restart(unit, RESTART_DEADLINE_MS)
    // Meanwhile: a disk may take as long as the restart.
    if (handshake > 0) keepHandshake(ctx.p, node.name, handshake)
    if (offered && (await handoverApplied(ctx.p, node.name, restarting))) {
      // The tunnel is there; the unit's own bookkeeping need not be waited for.
      const [verdict, job] = await Promise.all([verifyEgress(ctx, node, { afterRestart: true }), restarting])
      return { job, verdict }
    }
    const job = await restarting
    // A restart that systemd calls failed leaves nothing to wait for: one look says what is missing.
    const budgetMs = job.ok || job.timedOut ? undefined : 0
    return { job, verdict: await verifyEgress(ctx, node, { afterRestart: true, budgetMs }) }
  } finally {
    withdrawHandover(ctx.p, node.name)
  }
}

/** A new interface knows of no handshake; the time of the last one reveals a clock that went back. 0 when there is none. */
async function lastHandshake(ctx: EgressContext, node: Node, wg: string): Promise<number> {
  const served = await lastHandshakeOf(ctx.p, wg)
  if (served !== undefined) return served
  // Present when WireGuard is built in, too. Without it no interface can be asked, which `lookDump` would take two
  // processes to find out.
  if (!existsSync('/sys/module/wireguard')) return 0
  const dump = await lookDump(node.netns, wg)
  return Math.max(0, ...((dump.seen && dump.value?.peers) || []).map((peer) => peer.latestHandshakeMs))
}

/** What netvm-tunnel said when this restart failed; empty when that cannot be read. */
async function lastWords(unit: string, sinceWallMs: number): Promise<string[]> {
  const said = await unitOutput(unit, { lines: 2, sinceWallMs, match: 'SYSLOG_IDENTIFIER=netvm-tunnel' })
  return said.seen ? said.value.map((line) => clean(line)) : []
}
