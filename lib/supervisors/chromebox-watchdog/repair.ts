import { now } from '../../base/clock.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import { repairTunnel } from '../../egress/repair.ts'
import { askUplink } from '../../egress/uplink.ts'
import { pageUplink } from '../../egress/uplink-page.ts'
import type { Code } from '../../report/codes.ts'
import { withLock } from '../../store/lock.ts'
import { egressFinding } from './egress-port.ts'
import { type RunContext, say, whyCommand } from './finish.ts'
import { observe } from './observe.ts'
import type { Observation } from './types.ts'

/** A lock that came at once makes the look before it recent enough to act on. */
const AT_ONCE_MS = 250

interface Repaired {
  readonly observation: Observation
  readonly actions: readonly ReceiptAction[]
}

/**
 * D3 under the node lock: is it everybody's uplink? Else restart the tunnel once and look again. The
 * browser is not touched here; the caller goes on with it only when egress is back.
 */
export function repairPhase(ctx: RunContext, node: Node, first: Observation): Promise<Repaired> {
  const asked = performance.now()
  const doing = `restarting the tunnel (${first.egress?.reason ?? 'egress down'})`
  const opts = { waitMs: ctx.lockWaitMs, onWait: ctx.tell }
  return withLock(ctx.p, `node-${node.name}`, doing, opts, async () => {
    const waited = performance.now() - asked > AT_ONCE_MS
    const seen = waited ? await observe(ctx, node, now(ctx.p)) : first
    if (seen.egress?.state !== 'down' || seen.egress.futile) return { observation: seen, actions: [] }
    const uplink = await askUplink(ctx, node, ctx.others)
    if (uplink.down) {
      pageUplink({ p: ctx.p, config: ctx.config, now: now(ctx.p), log: ctx.log }, uplink)
      const { reason, evidence } = uplink
      const egress = { state: 'uplink-down', code: 'uplink-down', reason, evidence } as const
      return { observation: { ...seen, egress }, actions: [] }
    }
    return restart(ctx, node, seen)
  })
}

async function restart(ctx: RunContext, node: Node, seen: Observation): Promise<Repaired> {
  const { reason, evidence, code } = seen.egress ?? {
    reason: 'egress down',
    evidence: [],
    code: 'egress-no-answer',
  }
  const facts = evidence.length > 0 ? ` (${evidence.join('; ')})` : ''
  const next = whyCommand(node.name)
  say(ctx, node, {
    level: 'FAIL',
    code: code as Code,
    text: `${reason}${facts}; restarting the tunnel`,
    next,
  })
  const repair = await repairTunnel(ctx, node)
  const action: ReceiptAction = {
    kind: 'restart-tunnel',
    startedWallMs: repair.startedWallMs,
    durationMs: Math.round(repair.durationMs),
    helped: repair.ok,
    code: repair.ok ? 'tunnel-restart-ok' : 'tunnel-restart-failed',
    detail: [repair.text, ...repair.evidence].join('; '),
  }
  if (repair.ok) {
    say(ctx, node, { level: 'INFO', code: 'tunnel-restart-ok', text: repair.text })
    return {
      observation: { ...(await observe(ctx, node, now(ctx.p))), tunnelTried: true },
      actions: [action],
    }
  }
  const why = repair.evidence.length > 0 ? ` (${repair.evidence.join('; ')})` : ''
  const failed = { code: 'tunnel-restart-failed', cause: repair.verdict.code } as const
  say(ctx, node, { level: 'FAIL', ...failed, text: `${repair.text}: ${repair.verdict.reason}${why}`, next })
  const egress = egressFinding(repair.verdict)
  return { observation: { ...seen, egress, tunnelTried: true }, actions: [action] }
}
