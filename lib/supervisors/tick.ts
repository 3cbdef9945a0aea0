import { attempt } from '../base/attempt.ts'
import { monotonicMs, now } from '../base/clock.ts'
import { sleep } from '../base/deadline.ts'
import { errorWords, LockedError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Layer, Node, Verdict } from '../base/types.ts'
import type { Line } from '../report/line.ts'
import { verdict as verdictOf } from '../report/verdict.ts'
import { tryLock, withLock } from '../store/lock.ts'
import { Run } from './run.ts'
import type { Decision, Done, Observed, Outcome, Supervisor, Tick } from './types.ts'

/** A lock that came in this time, in ms, makes the look before it recent enough to act on. */
const AT_ONCE_MS = 250

/** A look that was taken with those of other nodes, and when the run began (`monotonicMs`). */
export interface Given<O> {
  readonly look?: O
  readonly began?: number
}

/**
 * One run of a supervisor over one node: load, observe, decide; then, where the decision asks for it, lock, observe and
 * decide again, act and verify; then save, say, page and leave a receipt. Silent while the node is healthy.
 *
 * @throws LockedError when another run holds the node and this one had to act
 */
export async function tick<O extends Observed, A, M extends object>(
  s: Supervisor<O, A, M>,
  t: Tick,
  node: Node,
  given: Given<O> = {},
): Promise<Outcome<O, A, M>> {
  const run = new Run(s, t, node, given.began ?? monotonicMs())
  let observation = run.withPause(given.look ?? (await s.observe(t, node)))
  for (;;) {
    const memory = run.load()
    let decision = run.decide(observation, memory)
    const closer = (await s.lookCloser?.(t, node, observation, decision)) ?? observation
    if (closer !== observation) decision = run.decide(closer, memory)
    observation = closer
    if (t.dryRun) return run.outcome({ observation, decision })
    if (decision.confirm === undefined) {
      if (decision.memory !== memory) await commit(run, observation, decision.memory)
      return run.finish({ observation, decision })
    }
    const round = await confirm(run, observation, decision)
    if ('receipt' in round) return round
    observation = run.withPause(round.look)
  }
}

/** Writes what the look changed. Where the node lock guards it and another holds that, the other writes its own, newer truth. */
async function commit<O extends Observed, A, M extends object>(
  run: Run<O, A, M>,
  observation: O,
  memory: M,
): Promise<void> {
  if (run.s.memory.lock === 'run') return run.keep(memory)
  const held = await tryLock(run.t.p, `node-${run.node.name}`, 'writing what the last look changed')
  if (!held) return
  try {
    run.keep(run.decide(observation, run.load()).memory)
  } finally {
    held.release()
  }
}

/** The second look, under the node lock, and what it leads to: the end of the run, or a look to go on with. */
async function confirm<O extends Observed, A, M extends object>(
  run: Run<O, A, M>,
  first: O,
  asked: Decision<A, M>,
): Promise<Outcome<O, A, M> | { readonly look: O }> {
  const { s, t, node } = run
  if (s.tellsFirst) {
    run.keep(asked.memory)
    run.say(asked.lines)
  }
  if (asked.confirm === 'after-delay') await sleep(t.config.confirmDelayMs)
  const lookAgain = s.lookAgain(t, node, first, asked)
  const began = monotonicMs()
  let waited = false
  const onWait = (message: string) => {
    waited = true
    t.tell(message)
  }
  const underLock = async () => {
    const observation = run.withPause(await lookAgain(waited || monotonicMs() - began > AT_ONCE_MS))
    // Read again: another run may have acted while this one waited.
    const found = run.decide(observation, run.load())
    const end = ({ decision, actions, ...more }: Done<A, M>) => {
      run.actions.push(...actions)
      run.keep(decision.memory)
      return run.finish({ observation, decision, found, ...more })
    }
    if (found.actions.length === 0) return end({ decision: found, actions: [] })
    const acted = await s.act(t, node, {
      observation,
      decision: found,
      asked,
      record: (memory) => run.record(memory),
      say: (lines) => run.say(lines),
    })
    if ('unlocked' in acted) return { rest: async () => end(await acted.unlocked()) }
    if ('decision' in acted) return end(acted)
    run.actions.push(...acted.actions)
    return acted
  }
  const opts = { waitMs: t.lockWaitMs, onWait }
  try {
    const ended = await withLock(t.p, `node-${node.name}`, s.doing(asked), opts, underLock)
    return 'rest' in ended ? await ended.rest() : ended
  } catch (err) {
    if (!(err instanceof LockedError) || !s.locked) throw err
    return run.finish({ observation: first, decision: s.locked(asked, err, node), found: asked })
  }
}

/**
 * `tick` for one node of many: what goes wrong with it is its own `unknown`, and costs the others nothing. A failure of
 * our own (a full disk, a file without permission) says nothing of the node, and kills nothing.
 * @param layer the one that this supervisor owns
 */
export async function tickSafely<O extends Observed, A, M extends object>(
  s: Supervisor<O, A, M>,
  t: Tick,
  node: Node,
  layer: Layer,
  given: Given<O>,
): Promise<Outcome<O, A, M>> {
  try {
    return await tick(s, t, node, given)
  } catch (err) {
    const { text: why, next = s.next(node.name) } = errorWords(err)
    const locked = err instanceof LockedError
    const code = locked ? 'locked' : 'run-failed'
    const verdict: Verdict = { ...verdictOf(code, [], { why }), layer }
    const failed: Line = { level: 'WARN', code, text: `unknown: ${why}`, next }
    const run = new Run(s, t, node, given.began ?? monotonicMs())
    const decision: Decision<A, M> = {
      verdict,
      marks: [{ layer, state: 'unknown', code, note: why }],
      actions: [],
      memory: attempt(() => run.load()) ?? s.memory.fresh(now(t.p)),
      // Who holds the node is at work there, and reports what it finds.
      lines: locked ? [] : [failed],
      pages: [],
    }
    return t.dryRun ? run.outcome({ decision }) : run.finish({ decision })
  }
}

/** The worst of the nodes that nobody paused: unhealthy, then unknown, then held by another run. */
export function exitOf(outcomes: readonly Outcome<Observed, unknown, unknown>[]): ExitCode {
  const verdicts = outcomes.filter((o) => !o.observation?.paused).map((o) => o.decision.verdict)
  if (verdicts.some((v) => v.state === 'unhealthy')) return EXIT.UNHEALTHY
  const unknown = verdicts.filter((v) => v.state === 'unknown')
  if (unknown.some((v) => v.code !== 'locked')) return EXIT.UNKNOWN
  return unknown.length > 0 ? EXIT.LOCKED : EXIT.OK
}
