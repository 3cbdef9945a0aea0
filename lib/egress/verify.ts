import { deadlineIn, sleep } from '../base/deadline.ts'
import type { Look, Node } from '../base/types.ts'
import { type FetchResult, fetchInNetns } from '../host/curl.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { diagnoseEgress } from './diagnose.ts'
import { answered, egressRequests } from './probes.ts'
import type { EgressContext, EgressVerdict } from './types.ts'

/** Deadlines of the first attempts in milliseconds; later ones have the whole probe deadline. A lost packet costs little. */
const FIRST_DEADLINES_MS: readonly number[] = [500, 1_000, 2_000]
/** Between attempts that fail at once (no route, refused): fast, and no busy loop. */
const PAUSE_MS = 50
/** Of the last attempt, in milliseconds, however little time is left. */
const LEAST_DEADLINE_MS = 100

export interface VerifyOptions {
  /** The interface has just been made anew, so any handshake on it is a fresh one. */
  readonly afterRestart?: boolean
  /** Milliseconds to go on probing; 0 probes once. Default `NETVM_TUNNEL_VERIFY`. */
  readonly budgetMs?: number | undefined
}

/** Probes until an URL answers through the tunnel or the time is over; says what is wrong if none did. */
export async function verifyEgress(
  ctx: EgressContext,
  node: Node,
  { afterRestart = false, budgetMs = ctx.config.tunnelVerifyMs }: VerifyOptions = {},
): Promise<EgressVerdict> {
  const none = { seen: true, value: [] } as const
  const probes = tunnelConfigured(ctx.p, node.name) ? await pollProbes(ctx, node, budgetMs) : none
  return diagnoseEgress(ctx, node, probes, afterRestart)
}

async function pollProbes(
  ctx: EgressContext,
  node: Node,
  budgetMs: number,
): Promise<Look<readonly FetchResult[]>> {
  const deadline = deadlineIn(budgetMs)
  for (let attempt = 0; ; attempt++) {
    const firstMs = FIRST_DEADLINES_MS[attempt] ?? Number.POSITIVE_INFINITY
    const mostMs = Math.min(firstMs, Math.max(deadline.leftMs(), LEAST_DEADLINE_MS))
    const probes = await fetchInNetns(node.netns, egressRequests(ctx.config, mostMs))
    const over = deadline.leftMs() <= PAUSE_MS
    if (over || !probes.seen || probes.value.length === 0 || probes.value.some(answered)) return probes
    await sleep(PAUSE_MS)
  }
}
