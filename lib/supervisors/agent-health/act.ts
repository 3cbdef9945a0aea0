import { checkBoundMs } from '../../api/check.ts'
import { type CircuitMemory, stepCircuit } from '../../api/circuit.ts'
import { type Finding, unknown } from '../../api/judge.ts'
import { now } from '../../base/clock.ts'
import { sleep } from '../../base/deadline.ts'
import { errorLine } from '../../base/errors.ts'
import type { Node, ReceiptAction } from '../../base/types.ts'
import { type RelaunchResult, relaunchLocked } from '../../browser/relaunch.ts'
import { text } from '../../report/codes.ts'
import { lookProgram } from '../changed-program.ts'
import type { Acted, Round, Tick } from '../types.ts'
import { notRestarted, settleRestart } from './decide.ts'
import { checkSoon } from './observe.ts'
import { type Action, type Guard, type Observation, policyOf, type SecondLook } from './types.ts'

/** A page that has just loaded may still log in: the API gets this many looks, in this rhythm. */
const VERIFY_LOOKS = 3
const VERIFY_PAUSE_MS = 5_000

/**
 * Restarts the browser through the actuator that all supervisors share, and looks at the API again. The
 * attempt is on disk, counted as futile, before anything is touched; only a good look takes that back.
 */
export async function act(
  t: Tick,
  node: Node,
  { observation, decision, record }: Round<Observation, Action, CircuitMemory>,
): Promise<Acted<Observation, Action, CircuitMemory>> {
  const policy = policyOf(t.config)
  const startedWallMs = Date.now()
  const began = performance.now()
  let begun: CircuitMemory | undefined
  let result: RelaunchResult | undefined
  let failure = ''
  try {
    result = await relaunchLocked(t, node, (observation.again as SecondLook).judgement, {
      why: decision.verdict.reason,
      // What is left after the relaunch belongs to the look that judges it.
      deadline: { leftMs: () => Math.max(0, t.deadline.leftMs() - checkBoundMs(t.config) / 2) },
      begin: (_ended, alive, unit) => {
        const bad = alive ? lookProgram(t, unit?.program) : undefined
        if (bad !== undefined) return text('cannot-start', { why: bad })
        const next = stepCircuit(decision.memory, 'restart-started', now(t.p), policy).memory
        record(next)
        begun = next
        return undefined
      },
    })
  } catch (err) {
    failure = errorLine(err)
  }
  if (begun === undefined) {
    const guard: Guard =
      result?.did === 'nothing'
        ? { code: result.code ?? 'out-of-time', text: result.why }
        : { code: 'run-failed', text: `nothing done: ${failure}` }
    return { decision: notRestarted(node.name, decision, guard), actions: [] }
  }
  const counted = begun
  const verified = async () => {
    const finding =
      result?.did === 'ok'
        ? await verify(t, node)
        : unknown('browser-not-back', result?.did === 'failed' ? result.reason : failure, 'process')
    const helped = finding.kind === 'ok'
    const durationMs = Math.round(performance.now() - began)
    const action: ReceiptAction = {
      kind: 'restart-browser',
      startedWallMs,
      durationMs,
      helped,
      code: helped ? 'api-restart-ok' : 'api-restart-futile',
      detail: helped ? `${decision.verdict.reason} is gone` : finding.reason,
    }
    const settled = settleRestart(node, decision, counted, { finding, durationMs }, now(t.p), policy)
    return { decision: settled, actions: [action] }
  }
  return { unlocked: verified }
}

async function verify(t: Tick, node: Node): Promise<Finding> {
  let finding = await checkSoon(t, node)
  for (let i = 1; i < VERIFY_LOOKS && finding.kind !== 'ok'; i++) {
    if (t.deadline.leftMs() < checkBoundMs(t.config) + VERIFY_PAUSE_MS) break
    await sleep(VERIFY_PAUSE_MS)
    finding = await checkSoon(t, node)
  }
  return finding
}
