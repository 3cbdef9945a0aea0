import { backoffMs, waitLeftMs } from '../../base/damping.ts'
import type { Layer, LayerMark, Now, Verdict } from '../../base/types.ts'
import { relayFinding } from '../../relay/judge.ts'
import { belowFinding, notAsked, vethFinding } from '../../relay/judge-below.ts'
import type { Finding } from '../../relay/types.ts'
import { text } from '../../report/codes.ts'
import { HEALTHY } from '../../report/verdict.ts'
import type { RelayDecision, RelayMemory, RelayObservation, RelayPolicy } from './types.ts'

/** Milliseconds until the next attempt is allowed. After a reboot the wait starts again with the boot. */
export function waitMs(memory: RelayMemory, now: Now, policy: RelayPolicy): number {
  const last = memory.lastAttempt
  if (last === undefined) return 0
  // A restart that helped holds nothing back yet; the second one since the relay was last well does.
  return waitLeftMs(last, backoffMs(last.helped ? memory.attempts - 1 : memory.attempts, policy), now)
}

function find(o: RelayObservation): Finding {
  const veth = vethFinding(o)
  if (veth !== undefined) return veth
  // An answer came over the veth: it stands, even when `ip` could not be asked.
  if (o.browser !== undefined) return { verdict: HEALTHY }
  if (!o.veth.seen) return notAsked('netns', o.veth.why)
  const { close } = o
  if (close === undefined) return notAsked('relay', 'there was no time to look closer')
  return belowFinding(o, close) ?? relayFinding(o, close)
}

/** Below the finding a layer is well only when it was looked at, and a browser that answers shows its process as well. */
function wasSeenWell(o: RelayObservation, layer: Layer): boolean {
  if (layer === 'netns') return o.veth.seen
  const inner = o.close?.inner
  return inner?.seen === true && inner.value.browser === 'answers'
}

function marksOf(o: RelayObservation, finding: Verdict): LayerMark[] {
  const layers: readonly Layer[] = ['netns', 'process', 'cdp', 'relay']
  const at = layers.indexOf(finding.layer ?? 'relay')
  return layers.map((layer, i) => {
    if (finding.state === 'healthy') {
      return layer === 'process'
        ? { layer, state: 'not-checked' }
        : { layer, state: 'ok', ...(layer === 'relay' ? { note: `${o.answer.ms} ms` } : {}) }
    }
    if (i < at) return { layer, state: wasSeenWell(o, layer) ? 'ok' : 'not-checked' }
    if (i > at) return { layer, state: 'not-checked' }
    const state = finding.state === 'unknown' ? 'unknown' : 'fail'
    return { layer, state, code: finding.code, note: finding.reason }
  })
}

/**
 * What a run makes of one node. Pure: the same look, memory and time give the same decision, so that a
 * dry run prints what a real one would do.
 * @param now boot time and boot id count; the wall clock does not
 */
export function decide(
  o: RelayObservation,
  memory: RelayMemory,
  now: Now,
  policy: RelayPolicy,
): RelayDecision {
  const finding = find(o)
  const { verdict, level, next, actions = [], page = false } = finding
  const marks = marksOf(o, verdict)
  if (o.paused !== undefined) {
    return {
      verdict,
      layers: marks,
      actions: [],
      page: false,
      guard: { code: 'paused', text: text('paused', o.paused) },
      ...(next === undefined ? {} : { next }),
    }
  }
  const told = {
    verdict,
    layers: marks,
    page,
    ...(level === undefined ? {} : { level }),
    ...(next === undefined ? {} : { next }),
  }
  if (actions.length === 0) return { ...told, actions }
  const wait = waitMs(memory, now, policy)
  if (wait === 0) return { ...told, actions }
  return {
    ...told,
    level: 'FAIL',
    actions: [],
    guard: {
      code: 'relay-backoff',
      text: text('relay-backoff', {
        restarts: `${memory.attempts} restart${memory.attempts === 1 ? '' : 's'}`,
        wait: `${Math.ceil(wait / 1000)}s`,
      }),
    },
  }
}
