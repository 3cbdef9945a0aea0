import { hostname } from 'node:os'
import { now } from '../base/clock.ts'
import { UsageError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { seconds } from '../base/text.ts'
import type { Node } from '../base/types.ts'
import { type BrowserContext, lookBrowser } from '../browser/look.ts'
import { relaunchBrowser } from '../browser/relaunch.ts'
import { requireRoot } from '../cli/cli.ts'
import { select } from '../evidence/select.ts'
import { localNodes } from '../registry/read.ts'
import { verifyRelay } from '../relay/repair.ts'
import { said } from '../report/line.ts'
import { makeLog } from '../report/log.ts'
import { isPaused, readIntent } from '../store/intent.ts'

/** A run of a supervisor that holds the node ends within this time, in ms. */
const LOCK_WAIT_MS = 120_000

/** Why a node must not lose its browser now, or undefined. */
async function unhealthy(ctx: BrowserContext, node: Node): Promise<string | undefined> {
  const { verdict } = await lookBrowser(ctx, node)
  if (verdict.state !== 'healthy') return verdict.reason
  const relay = await verifyRelay(ctx.p, node, ctx.config)
  return relay.ok ? undefined : `its relay on ${node.peer}:${node.cdpPort} does not answer: ${relay.detail}`
}

/** Restarts one browser. @returns why it is not healthy afterwards, or undefined */
async function restart(ctx: BrowserContext, node: Node): Promise<string | undefined> {
  const log = makeLog('box', ctx.p)
  // The guard is for browsers that still start; this one was seen healthy under the lock.
  const at = { ...ctx, config: { ...ctx.config, freshBrowserMs: 0 } }
  const done = await relaunchBrowser(at, node, {
    why: 'rolling restart',
    program: 'box fleet restart',
    lockWaitMs: LOCK_WAIT_MS,
    stillNeeded: ({ verdict }) => (verdict.state === 'healthy' ? undefined : verdict.reason),
  })
  if (done.did === 'nothing') return `not touched: ${done.why}`
  const next = `chromebox-watchdog ${node.name} --why`
  if (done.did === 'failed') {
    const failed = said('relaunch-failed', { reason: done.reason })
    log.write(node.name, { level: 'FAIL', ...failed, next })
    return failed.text
  }
  const ok = said('relaunch-ok', { seconds: Math.max(1, Math.round(done.durationMs / 1000)) })
  log.write(node.name, { level: 'INFO', ...ok })
  return unhealthy(ctx, node)
}

/**
 * `box fleet restart --rolling`: the browsers of these nodes, or of every active row of this host, one after the other.
 * Each is healthy, and its relay answers, before the next is stopped; the first that is not ends it. A paused node is
 * left alone: somebody may be signing in.
 * @throws UsageError without `--rolling` and for a node without an active row of this host, RootError
 */
export async function fleetRestart(
  p: Paths,
  names: readonly string[],
  options: { readonly rolling?: true },
): Promise<ExitCode> {
  if (options.rolling !== true)
    throw new UsageError(
      'all browsers at once are never restarted; give --rolling',
      'box fleet restart --help',
    )
  requireRoot('box fleet restart')
  const { config, nodes: fleet, registry } = select(p, [])
  const nodes = localNodes(registry, names, hostname(), 'its browser does not run here')
  const ctx: BrowserContext = { p, config }
  const stop = (name: string, why: string, left: readonly Node[]): ExitCode => {
    console.log(`${name}: ${why}; next: chromebox-watchdog ${name} --why`)
    const rest = left.map((n) => n.name).join(' ')
    console.log(`stopped${rest === '' ? '' : `; not restarted: ${rest}`}`)
    return EXIT.UNHEALTHY
  }
  // One node that is down already, and a restart makes it two.
  for (const node of fleet) {
    const why = await unhealthy(ctx, node)
    if (why !== undefined) return stop(node.name, `not healthy: ${why}`, nodes)
  }
  for (const [i, node] of nodes.entries()) {
    const { intent } = readIntent(p, node.name)
    if (intent !== undefined && isPaused(intent, now(p))) {
      console.log(`${node.name}: paused by ${intent.by}, left as it is`)
      continue
    }
    const began = performance.now()
    const why = await restart(ctx, node)
    if (why !== undefined) return stop(node.name, why, nodes.slice(i + 1))
    console.log(`${node.name}: restarted, healthy after ${seconds(performance.now() - began)}`)
  }
  return EXIT.OK
}
