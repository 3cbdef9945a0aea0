import type { Node } from '../types.ts'
import type { EgressContext, TunnelRepair } from './types.ts'

/**
 * D3: restarts the tunnel once (which reads the configuration and resolves the endpoint again) and verifies for up
 * to `NETVM_TUNNEL_VERIFY`, returning as soon as a probe answers. The caller holds the node lock and pages; the
 * browser is not touched here. Never throws for a failed restart: that is `ok: false` with the evidence.
 */
export async function repairTunnel(_ctx: EgressContext, _node: Node): Promise<TunnelRepair> {
  throw new Error('not there yet')
}
