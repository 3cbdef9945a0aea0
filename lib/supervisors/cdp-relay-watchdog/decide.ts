import { backoffMs, waitLeftMs } from '../../base/damping.ts'
import { seconds } from '../../base/text.ts'
import type { Now } from '../../base/types.ts'
import { judgeRelay } from '../../relay/judge.ts'
import type { ActResult } from '../../relay/repair.ts'
import type { Code } from '../../report/codes.ts'
import { type Line, line, said } from '../../report/line.ts'
import { HEALTHY } from '../../report/verdict.ts'
import type { Guard, PageEvent } from '../types.ts'
import { afterRestart, NO_MEMORY, reanchor } from './memory.ts'
import type { Decision, Memory, Observation, Policy, Restarted } from './types.ts'

/** Lock, second look, stop, restart and verification at their own deadlines, in ms. A repair without this much left waits. */
const REPAIR_NEEDS_MS = 35_000

/** Milliseconds until the next attempt is allowed. After a reboot the wait starts again with the boot. */
export function waitMs(memory: Memory, now: Now, policy: Policy): number {
  const last = memory.lastAttempt
  if (last === undefined) return 0
  // A restart that helped holds nothing back yet; the second one since the relay was last healthy does.
  return waitLeftMs(last, backoffMs(last.helped ? memory.attempts - 1 : memory.attempts, policy), now)
}

/** What forbids a repair that would help. */
function guardOf(o: Observation, memory: Memory, now: Now, policy: Policy): Guard | undefined {
  const wait = policy.named ? 0 : waitMs(memory, now, policy)
  if (wait > 0) {
    const restarts = `${memory.attempts} restart${memory.attempts === 1 ? '' : 's'}`
    return said('relay-backoff', { restarts, wait: `${Math.ceil(wait / 1000)}s` })
  }
  const { leftMs = REPAIR_NEEDS_MS } = policy
  if (o.again || leftMs >= REPAIR_NEEDS_MS) return undefined
  return said('out-of-time', { why: 'no time left in this run to restart and verify; the next run does it' })
}

/**
 * What a run makes of one node. Pure: the same look, memory and time give the same decision, so that a
 * dry run prints what a real one would do.
 * @param now boot time and boot id count; the wall clock does not
 */
export function decide(o: Observation, before: Memory, now: Now, policy: Policy): Decision {
  const { verdict, marks, level = 'WARN', next, actions = [], page = false } = judgeRelay(o)
  const memory = verdict.state === 'healthy' ? NO_MEMORY : reanchor(before, now)
  const found = { verdict, marks, actions: [], memory, lines: [], pages: [] }
  if (o.paused !== undefined) return { ...found, guard: said('paused', o.paused) }
  if (verdict.state === 'healthy') {
    const over = { kind: 'relay-fault', failing: false, ...said('relay-recovered') } as const
    return { ...found, pages: [over] }
  }
  const { reason } = verdict
  const fault = { code: verdict.code as Code, ...(next !== undefined && { next }) }
  const pages = page ? [paged({ ...fault, text: reason })] : []
  if (actions.length === 0) return { ...found, lines: [{ level, ...fault, text: reason }], pages }
  const guard = guardOf(o, memory, now, policy)
  if (guard === undefined) {
    const doing = { level: 'WARN', code: fault.code, text: `${reason}; restarting the relay` } as const
    return { ...found, actions, confirm: 'at-once', lines: [doing], pages }
  }
  const text = `${reason} (${guard.text})`
  if (guard.code !== 'relay-backoff') return { ...found, guard, lines: [{ level, ...fault, text }], pages }
  // Nothing is tried in this run, so the code is the fault's; the words report how the previous attempts ended.
  const failed = { ...fault, text: said('relay-restart-failed', { reason: text }).text }
  return { ...found, guard, lines: [{ level: 'FAIL', ...failed }], pages: [paged(failed)] }
}

const paged = (fault: Omit<PageEvent, 'kind' | 'failing'>): PageEvent => ({
  kind: 'relay-fault',
  failing: true,
  ...fault,
})

/** How the removal of a foreign listener is reported. */
export function removalLine(o: Observation, { ok, detail: what }: ActResult): Line {
  if (ok) return line('WARN', 'listener-removed', { what })
  const { next } = judgeRelay(o)
  return { ...line('FAIL', 'listener-kept', { what }), ...(next !== undefined && { next }) }
}

/** What is so after the restart that `planned` led to: what is to be said and remembered now. Pure. */
export function settle(o: Observation, planned: Decision, done: Restarted, now: Now) {
  const { reason, code } = planned.verdict
  const helped = done.failure === undefined
  const memory = afterRestart(planned.memory, helped, now)
  if (helped) {
    const ok = said('relay-restart-ok', { took: seconds(done.durationMs) })
    const decision: Decision = {
      ...planned,
      verdict: { ...HEALTHY, evidence: [reason, ok.text] },
      marks: planned.marks.map((m) =>
        m.layer === 'relay' ? { layer: 'relay', state: 'ok', note: 'after a restart' } : m,
      ),
      memory,
      lines: [{ level: 'INFO', ...ok }],
      pages: planned.pages.map((fault) => ({ ...fault, text: `${reason}; ${ok.text}` })),
    }
    return { decision, did: { helped, ...ok } }
  }
  const failed = said('relay-restart-failed', { reason: `${reason}; ${done.failure}` })
  const { next } = judgeRelay(o)
  const fault = { ...failed, cause: code, ...(next !== undefined && { next }) }
  const decision: Decision = {
    ...planned,
    verdict: { ...planned.verdict, reason: failed.text },
    memory,
    lines: [{ level: 'FAIL', ...fault }],
    pages: [paged(fault)],
  }
  return { decision, did: { helped, ...failed } }
}
