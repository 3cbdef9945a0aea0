import { isIP } from 'node:net'
import { now } from '../base/clock.ts'
import { ConfigError } from '../base/errors.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { Look, Node } from '../base/types.ts'
import { type FetchRequest, type FetchResult, fetchInNetns } from '../host/curl.ts'
import { run } from '../host/exec.ts'
import { inNetns } from '../host/netns.ts'
import { lookUnit } from '../host/systemd.ts'
import { ifNames } from '../registry/names.ts'
import { readNodeEnv } from '../registry/node-env.ts'
import { readTunnelConf } from '../tunnel/conf-file.ts'
import { allEndpoints } from '../tunnel/endpoints.ts'
import type { TunnelConf } from '../tunnel/wg-conf.ts'
import { parseWgDump, type WgDump } from '../tunnel/wg-dump.ts'
import { keptHandshake } from './kept.ts'
import { answered, egressRequests } from './probes.ts'
import type { EgressContext, EgressFacts } from './types.ts'

/** Deadline of one look at the interface, in milliseconds; it takes 3 to 6. */
const LOOK_DEADLINE_MS = 3_000
/** The second round of probes: long enough for a handshake and an answer of a peer that is there. */
const SECOND_ROUND_MS = 1_500
/** The host's resolver is outside the tunnel; a run must not wait long for a name server that is dead. */
const RESOLVE_DEADLINE_MS = 2_000

export function wgName(p: Paths, node: Node): string {
  return readNodeEnv(p, node.name)?.WG ?? ifNames(node.name).wg
}

/** The interface's state; `undefined` inside when it is not in the namespace. */
export async function lookDump(netns: string, wg: string): Promise<Look<WgDump | undefined>> {
  const deadline = { deadlineMs: LOOK_DEADLINE_MS }
  const [link, dump] = await Promise.all([
    // wireguard-go answers for a moment after its interface was deleted, so the link is asked for too.
    run(['ip', '-n', netns, '-o', 'link', 'show', 'dev', wg], deadline),
    run(inNetns(netns, ['wg', 'show', wg, 'dump']), deadline),
  ])
  if (/does not exist/.test(link.stderr)) return { seen: true, value: undefined }
  if (dump.missing || link.missing) return { seen: false, why: 'the program ip or wg is missing' }
  if (dump.code !== 0) {
    if (/No such device/.test(dump.stderr)) return { seen: true, value: undefined }
    return { seen: false, why: clean(dump.stderr.trim()) || 'no answer' }
  }
  try {
    return { seen: true, value: parseWgDump(dump.stdout) }
  } catch (err) {
    return { seen: false, why: (err as Error).message }
  }
}

async function lookTunnelUnit(node: string): Promise<NonNullable<EgressFacts['unit']>> {
  const unit = await lookUnit(`netvm-tunnel@${node}.service`, LOOK_DEADLINE_MS)
  if (!unit.seen) return unit
  const { active, ended } = unit.value
  // systemd forgets a unit that ended cleanly, so "never ran" says nothing here.
  const detail = active === 'active' || ended.how === 'unknown' ? '' : ended.detail
  return { seen: true, value: { active: active || 'unknown', detail } }
}

type ConfLook = { readonly conf?: TunnelConf; readonly problem?: string }

function lookConf(p: Paths, node: string): ConfLook {
  try {
    return { conf: readTunnelConf(p, node) }
  } catch (err) {
    // Only root may read it; for anybody else that is nothing against the file.
    if (!(err instanceof ConfigError) || process.geteuid?.() !== 0) return {}
    return { problem: err.message }
  }
}

async function lookEndpoints(conf: TunnelConf | undefined): Promise<Look<readonly string[]>> {
  if (conf === undefined) return { seen: false, why: 'the configuration could not be read' }
  try {
    return { seen: true, value: await allEndpoints(conf, RESOLVE_DEADLINE_MS) }
  } catch (err) {
    return { seen: false, why: (err as Error).message }
  }
}

/** Any answer of the resolver's address, a refusal too, shows that the peer is there. */
function resolverRequests(conf: TunnelConf | undefined): FetchRequest[] {
  return (conf?.dns ?? []).map((address) => ({
    url: `http://${isIP(address) === 6 ? `[${address}]` : address}:53/`,
    deadlineMs: SECOND_ROUND_MS,
    wantBody: false,
  }))
}

function rxOf(dump: Look<WgDump | undefined>): number | undefined {
  return dump.seen ? dump.value?.peers.reduce((sum, peer) => sum + peer.rxBytes, 0) : undefined
}

/**
 * Everything there is to know about an egress whose probes have failed, in at most about 3 s. Where the interface is there
 * the probes are asked again meanwhile, and their new results count.
 */
export async function lookCloser(
  ctx: EgressContext,
  node: Node,
  probes: readonly FetchResult[],
  afterRestart: boolean,
): Promise<EgressFacts> {
  const wg = wgName(ctx.p, node)
  const { conf, problem } = lookConf(ctx.p, node.name)
  const kept = keptHandshake(ctx.p, node.name)
  const first = await lookDump(node.netns, wg)
  const there = first.seen && first.value !== undefined
  const again = egressRequests(ctx.config, SECOND_ROUND_MS)
  const [unit, endpoints, second] = await Promise.all([
    lookTunnelUnit(node.name),
    lookEndpoints(conf),
    there ? fetchInNetns(node.netns, [...again, ...resolverRequests(conf)]) : undefined,
  ])
  const dump = there ? await lookDump(node.netns, wg) : first
  const before = rxOf(first)
  const after = rxOf(dump)
  const renewed = second?.seen ? second.value.slice(0, again.length) : undefined
  return {
    node: node.name,
    configured: true,
    wg,
    probes: { seen: true, value: renewed?.some(answered) ? renewed : probes },
    dump,
    rxGrew: before !== undefined && after !== undefined && after > before,
    afterRestart,
    unit,
    endpoints,
    wallMs: now(ctx.p).wallMs,
    ...(problem === undefined ? {} : { confProblem: problem }),
    ...(kept === undefined ? {} : { keptHandshakeMs: kept }),
  }
}
