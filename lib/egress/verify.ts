import type { Node } from '../types.ts'
import type { EgressContext, EgressVerdict } from './types.ts'

/** Probes until an URL answers through the tunnel, at most `NETVM_TUNNEL_VERIFY`; says what is wrong if none did. */
export async function verifyEgress(_ctx: EgressContext, _node: Node): Promise<EgressVerdict> {
  throw new Error('not there yet')
}
