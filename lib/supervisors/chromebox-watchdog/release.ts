import { now } from '../../base/clock.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import type { Node } from '../../base/types.ts'
import { line } from '../../report/line.ts'
import { withLock } from '../../store/lock.ts'
import { type RunContext, say } from './finish.ts'
import { releaseMemory } from './memory.ts'
import { loadMemory, saveMemory } from './store.ts'

/**
 * Forgets a hold-down, the back-off and the caution after a corrupt file; the history is kept. Says what
 * was there, because releasing a node that was not held points at another fault.
 */
export async function releaseCommand(ctx: RunContext, node: Node): Promise<ExitCode> {
  const opts = { waitMs: ctx.lockWaitMs, onWait: ctx.tell }
  return withLock(ctx.p, `node-${node.name}`, 'releasing the hold-down', opts, () => {
    const before = loadMemory(ctx.p, ctx.config, node.name).value
    const what = heldWhat(before)
    if (what === undefined) {
      process.stdout.write(`${node.name}: nothing to release\n`)
      return EXIT.OK
    }
    const problem = saveMemory(ctx.p, node.name, releaseMemory(before, now(ctx.p)))
    if (problem !== undefined) {
      process.stderr.write(`chromebox-watchdog: ${problem}; next: df ${ctx.p.state}\n`)
      return EXIT.UNHEALTHY
    }
    say(ctx, node, line('INFO', 'released', { what }))
    process.stdout.write(`${node.name}: released (${what}); next: chromebox-watchdog ${node.name}\n`)
    return EXIT.OK
  })
}

function heldWhat(m: ReturnType<typeof loadMemory>['value']): string | undefined {
  if (m.held) return `HELD DOWN after ${m.failures} failed relaunches`
  if (m.failures > 0) return `backing off after ${m.failures} failed`
  if (m.notBeforeBootMs !== undefined) return 'waiting because its state file was corrupt'
  return m.quickDeaths > 0 ? `${m.quickDeaths} quick deaths` : undefined
}
