import { run } from '../exec.ts'
import { restart } from '../systemd.ts'
import { clean, seconds } from '../text.ts'
import type { Node } from '../types.ts'
import { keepHandshake } from './kept.ts'
import { lookDump, wgName } from './look.ts'
import type { EgressContext, TunnelRepair } from './types.ts'
import { verifyAfterRestart } from './verify.ts'

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
  await rememberHandshake(ctx, node)
  const job = await restart(unit, RESTART_DEADLINE_MS)
  // A restart that systemd calls failed leaves nothing to wait for: one look says what is missing.
  const verdict = await verifyAfterRestart(ctx, node, job.ok || job.timedOut ? undefined : 0)
  const durationMs = Math.round(performance.now() - started)
  const ok = verdict.state === 'healthy'
  const evidence = [...(job.ok ? [] : [job.detail, ...(await lastWords(unit))]), ...verdict.evidence]
  return {
    ok,
    text: ok ? `tunnel restart OK after ${seconds(durationMs)}` : 'tunnel restart FAILED',
    verdict,
    evidence,
    startedWallMs,
    durationMs,
  }
}

/** A new interface knows of no handshake; the time of the last one tells a clock that went back. */
async function rememberHandshake(ctx: EgressContext, node: Node): Promise<void> {
  const dump = await lookDump(node.netns, wgName(ctx.p, node))
  const latest = Math.max(
    0,
    ...((dump.seen && dump.value?.peers) || []).map((peer) => peer.latestHandshakeMs),
  )
  if (latest > 0) keepHandshake(ctx.p, node.name, latest)
}

/** What netvm-tunnel said when it failed, from the journal; empty when that cannot be read. */
async function lastWords(unit: string): Promise<string[]> {
  const argv = [
    'journalctl',
    '--quiet',
    '--no-pager',
    '--output=cat',
    '--lines=2',
    '--identifier=netvm-tunnel',
    `--unit=${unit}`,
  ]
  const said = await run(argv, { deadlineMs: 3_000 })
  return said.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => clean(line))
}
