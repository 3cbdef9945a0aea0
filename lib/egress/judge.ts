import type { FetchResult } from '../host/curl.ts'
import { text, type Values } from '../report/codes.ts'
import type { WgDump, WgPeer } from '../tunnel/wg-dump.ts'
import { answered, diedResolving } from './probes.ts'
import type { EgressFacts, EgressFault, EgressVerdict } from './types.ts'

/** A handshake this far ahead of the clock means that the clock went back; less is jitter and slewing. */
const CLOCK_SLACK_MS = 5_000

/**
 * What a node's egress is, from what was seen. Pure.
 *
 * Any probe that answered settles it: the age of a handshake alone never condemns an idle tunnel, and no
 * clock takes part. Everything else is only asked for, and only weighed, once every probe has failed.
 */
export function judgeEgress(facts: EgressFacts): EgressVerdict {
  if (!facts.configured) {
    return { state: 'not-configured', code: 'not-configured', reason: '', evidence: [], repair: false }
  }
  if (!facts.probes.seen) return blind(facts.probes.why)
  const probes = facts.probes.value
  if (probes.length === 0) return blind('no egress URL was asked')
  if (probes.some(answered)) return passing(probes)

  const evidence = [...probes.map(describeProbe), ...describeRest(facts)]
  const down: Down = (code, repair, ...values) => ({
    state: 'unhealthy',
    code,
    reason: text(code, ...values),
    evidence,
    repair,
  })
  if (facts.confProblem !== undefined) {
    return down('egress-config', false, { why: facts.confProblem })
  }
  const unit = facts.unit?.seen ? facts.unit.value : undefined
  const unitDown = unit !== undefined && unit.active !== 'active' && unit.active !== 'reloading'
  const unitName = `netvm-tunnel@${facts.node}`
  const unitState = unitDown ? `${unit.active}${tail(unit.detail)}` : ''
  const dump = facts.dump?.seen ? facts.dump.value : undefined
  if (facts.dump?.seen && dump === undefined) {
    const unresolved = facts.endpoints?.seen === false && unitDown ? `, ${facts.endpoints.why}` : ''
    const more = unitDown ? `, ${unitName} is ${unitState}${unresolved}` : ''
    return down('egress-interface-missing', true, { wg: facts.wg, more })
  }
  if (unitDown) return down('egress-unit-inactive', true, { unit: unitName, state: unitState })
  if (dump === undefined) return down('egress-no-answer', true)
  return judgePeers(facts, probes, dump, down)
}

type Down = <C extends EgressFault>(code: C, repair: boolean, ...values: Values<C>) => EgressVerdict

function judgePeers(
  facts: EgressFacts,
  probes: readonly FetchResult[],
  dump: WgDump,
  down: Down,
): EgressVerdict {
  const peer = latest(dump.peers)
  if (peer === undefined) return down('egress-no-peers', true, { wg: facts.wg })

  // What an earlier run kept counts only while this interface has none of its own: a peer that answered a
  // present handshake is not one that refuses them.
  const newest = peer.latestHandshakeMs > 0 ? peer.latestHandshakeMs : (facts.keptHandshakeMs ?? 0)
  const ahead = facts.wallMs === undefined ? 0 : newest - facts.wallMs
  if (ahead > CLOCK_SLACK_MS) {
    // A peer refuses every handshake stamped earlier than one it has seen, so a restart cannot help:
    // it would be repeated each run until the clock has caught up.
    return down('egress-clock', false, { seconds: Math.round(ahead / 1000) })
  }

  const isMoved = endpointMoved(facts, dump.peers)
  if (peer.latestHandshakeMs === 0) {
    return down('egress-no-handshake', true, { moved: isMoved ? ', endpoint moved' : '' })
  }
  const age = ageSeconds(facts, peer)
  if (isMoved) return down('egress-endpoint-moved', true, { age })
  const alive = facts.rxGrew === true || facts.afterRestart === true
  if (!alive) return down('egress-peer-silent', true, { age })
  if (probes.every(diedResolving)) return down('egress-dns', true, { age })
  return down('egress-behind-peer', true, { age })
}

function passing(probes: readonly FetchResult[]): EgressVerdict {
  const dead = probes.filter(diedResolving)
  return {
    state: 'healthy',
    code: 'ok',
    reason: '',
    evidence: [],
    repair: false,
    ...(dead.length > 0 ? { note: 'an address answers, but names do not resolve through the tunnel' } : {}),
  }
}

function blind(why: string): EgressVerdict {
  return {
    state: 'unknown',
    code: 'egress-unseen',
    reason: text('egress-unseen', { why }),
    evidence: [why],
    repair: false,
  }
}

function latest(peers: readonly WgPeer[]): WgPeer | undefined {
  return peers.reduce<WgPeer | undefined>(
    (best, peer) => (best === undefined || peer.latestHandshakeMs > best.latestHandshakeMs ? peer : best),
    undefined,
  )
}

/** The interface talks to an address that no configured endpoint has any more. */
function endpointMoved(facts: EgressFacts, peers: readonly WgPeer[]): boolean {
  if (!facts.endpoints?.seen || facts.endpoints.value.length === 0) return false
  const now = new Set(facts.endpoints.value)
  const used = peers.flatMap((peer) => (peer.endpoint === undefined ? [] : [peer.endpoint]))
  return used.length > 0 && !used.some((endpoint) => now.has(endpoint))
}

function ageSeconds(facts: EgressFacts, peer: WgPeer): number {
  if (facts.wallMs === undefined) return 0
  return Math.max(0, Math.round((facts.wallMs - peer.latestHandshakeMs) / 1000))
}

function describeProbe(result: FetchResult): string {
  return `${result.url}: curl ${result.exitCode}${tail(result.error)}`
}

function describeRest(facts: EgressFacts): string[] {
  const lines: string[] = []
  if (facts.dump?.seen === false) lines.push(`wg show ${facts.wg}: ${facts.dump.why}`)
  if (facts.dump?.seen && facts.dump.value !== undefined) {
    for (const peer of facts.dump.value.peers) {
      lines.push(`peer ${peer.endpoint ?? 'without endpoint'}: rx ${peer.rxBytes}, tx ${peer.txBytes} bytes`)
    }
  }
  if (facts.endpoints?.seen === false) lines.push(`endpoint: ${facts.endpoints.why}`)
  if (facts.endpoints?.seen) lines.push(`endpoint is now ${facts.endpoints.value.join(' ')}`)
  if (facts.unit?.seen === false) lines.push(`netvm-tunnel@${facts.node}: ${facts.unit.why}`)
  if (facts.unit?.seen)
    lines.push(`netvm-tunnel@${facts.node}: ${facts.unit.value.active}${tail(facts.unit.value.detail)}`)
  return lines
}

function tail(detail: string): string {
  return detail === '' ? '' : ` (${detail})`
}
