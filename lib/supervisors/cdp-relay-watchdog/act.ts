import { makeGate } from '../../base/bounded.ts'
import { now } from '../../base/clock.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import { type ActResult, removeListener, restartRelay, verifyRelay } from '../../relay/repair.ts'
import type { RelayAction } from '../../relay/types.ts'
import type { Done, Round, Tick } from '../types.ts'
import { removalLine, settle } from './decide.ts'
import type { Memory, Observation } from './types.ts'

/** How each action ends: helped, and not. */
const CODES = {
  'remove-listener': ['listener-removed', 'listener-kept'],
  'restart-relay': ['relay-restart-ok', 'relay-restart-failed'],
} as const

/** systemd jobs under way at once: a fault of the whole fleet must not stop and start everything in one instant. */
const MAX_JOBS = 8
const gate = makeGate(MAX_JOBS)

/** Removes what is in the way, restarts the relay, and asks through it. */
export async function act(
  { p, config }: Tick,
  node: Node,
  { observation, decision, say }: Round<Observation, RelayAction, Memory>,
): Promise<Done<RelayAction, Memory>> {
  say(decision.lines)
  const began = performance.now()
  const actions: ReceiptAction[] = []
  const recorded = async (kind: RelayAction['kind'], work: () => Promise<ActResult>): Promise<ActResult> => {
    const startedWallMs = Date.now()
    const at = performance.now()
    const { ok: helped, detail } = await work()
    const durationMs = Math.round(performance.now() - at)
    actions.push({ kind, code: CODES[kind][helped ? 0 : 1], startedWallMs, durationMs, helped, detail })
    return { ok: helped, detail }
  }
  let failure: string | undefined
  for (const action of decision.actions) {
    if (action.kind === 'remove-listener') {
      say([removalLine(observation, await recorded(action.kind, () => removeListener(p, action)))])
      continue
    }
    const done = await recorded(action.kind, async () => {
      const bound = await gate(() => restartRelay(node, action))
      return bound.ok ? verifyRelay(p, node, config) : bound
    })
    if (!done.ok) failure = done.detail
  }
  const restarted = { durationMs: performance.now() - began, ...(failure !== undefined && { failure }) }
  return { ...settle(observation, decision, restarted, now(p)), actions }
}
