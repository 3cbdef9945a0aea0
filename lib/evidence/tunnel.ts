import type { Clocks } from '../base/damping.ts'
import type { Paths } from '../base/paths.ts'
import type { Look, Now } from '../base/types.ts'
import { momentMs, momentProps, type UnitShow } from '../host/systemd.ts'
import { tunnelConfPath } from '../tunnel/configured.ts'
import type { Trust } from './owner.ts'
import type { TunnelFact } from './types.ts'

/**
 * Whether the node is meant to have a tunnel, by its configuration. Not seen without the right to look into the
 * directory, and not where there is no such directory (a sandbox with an /etc of its own).
 */
export function lookAtTunnel(p: Paths, trust: Trust, node: string, at: Now): Look<TunnelFact> {
  const changed = trust.changed(tunnelConfPath(p, node))
  if (!changed.seen) return changed
  if (changed.value === undefined)
    return { seen: true, value: { configured: false, sinceBootMs: at.bootMs, source: 'live' } }
  const sinceBootMs = at.bootMs - Math.max(0, at.wallMs - changed.value)
  return { seen: true, value: { configured: true, sinceBootMs, source: 'live' } }
}

/** What `readTunnel` reads besides the state: among others how the unit's ConditionPathExists= ended when it was last started. */
export const TUNNEL_PROPS: readonly string[] = [
  'ConditionResult',
  ...momentProps(['ConditionTimestamp', 'InactiveEnterTimestamp']),
]

/** The same from systemd, which any user may ask; undefined when the unit was never started in this boot. */
export function readTunnel(u: UnitShow, at: Clocks): TunnelFact | undefined {
  const sinceBootMs = momentMs(u, 'ConditionTimestamp', at)
  if (sinceBootMs === undefined) return undefined
  if (u.ConditionResult !== 'yes' && u.ConditionResult !== 'no') return undefined
  const configured = u.ConditionResult === 'yes'
  const fact = { configured, sinceBootMs, source: 'unit' } as const
  // An inactive tunnel is a fault however it ended: wireguard-go exits cleanly when its interface goes.
  const stopped = u.ActiveState === 'inactive' || u.ActiveState === 'failed'
  if (!configured || !stopped) return fact
  const endedMs = momentMs(u, 'InactiveEnterTimestamp', at) ?? sinceBootMs
  return { ...fact, down: { text: u.ActiveState ?? '', sinceBootMs: endedMs } }
}
