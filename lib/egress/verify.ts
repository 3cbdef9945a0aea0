import { sleep } from '../base/deadline.ts'
import type { Look, Node } from '../base/types.ts'
import { type FetchResult, fetchInNetns } from '../host/curl.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { judgeEgress } from './judge.ts'
import { lookCloser } from './look.ts'
import { answered, egressRequests } from './probes.ts'
import type { EgressContext, EgressVerdict } from './types.ts'

/** Deadlines of the first attempts in milliseconds; later ones have the whole probe deadline. A lost packet costs little. */
const FIRST_DEADLINES_MS: readonly number[] = [500, 1_000, 2_000]
/** Between attempts that fail at once (no route, refused): fast, and no busy loop. */
const PAUSE_MS = 50

/** Probes until an URL answers through the tunnel, at most `NETVM_TUNNEL_VERIFY`; says what is wrong if none did. */
export async function verifyEgress(ctx: EgressContext, node: Node): Promise<EgressVerdict> {
  return verify(ctx, node, false, ctx.config.tunnelVerifyMs)
}

/**
 * The same for an interface that has just been made anew, on which any handshake is a fresh one.
 * @param budgetMs milliseconds to go on probing; 0 probes once. Default `NETVM_TUNNEL_VERIFY`.
 */
export async function verifyAfterRestart(
  ctx: EgressContext,
  node: Node,
  budgetMs = ctx.config.tunnelVerifyMs,
): Promise<EgressVerdict> {
  return verify(ctx, node, true, budgetMs)
}

async function verify(
  ctx: EgressContext,
  node: Node,
  afterRestart: boolean,
  budgetMs: number,
): Promise<EgressVerdict> {
  const configured = tunnelConfigured(ctx.p, node.name)
  const base = { node: node.name, configured, wg: '' }
  if (!configured) return judgeEgress({ ...base, probes: { seen: true, value: [] } })
  const probes = await pollProbes(ctx, node, budgetMs)
  if (!probes.seen || probes.value.length === 0 || probes.value.some(answered)) {
    return judgeEgress({ ...base, probes })
  }
  return judgeEgress(await lookCloser(ctx, node, probes.value, afterRestart))
}

async function pollProbes(
  ctx: EgressContext,
  node: Node,
  budgetMs: number,
): Promise<Look<readonly FetchResult[]>> {
  const end = performance.now() + budgetMs
  for (let attempt = 0; ; attempt++) {
    const left = end - performance.now()
    const most = Math.min(FIRST_DEADLINES_MS[attempt] ?? ctx.config.probeDeadlineMs, Math.max(left, 100))
    const requests = egressRequests(ctx.config).map((r) => ({
      ...r,
      deadlineMs: Math.min(r.deadlineMs, most),
    }))
    const probes = await fetchInNetns(node.netns, requests)
    const over = performance.now() + PAUSE_MS >= end
    if (over || !probes.seen || probes.value.length === 0 || probes.value.some(answered)) return probes
    await sleep(PAUSE_MS)
  }
}
