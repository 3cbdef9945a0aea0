import { hostname } from 'node:os'
import { loadConfig } from '../../base/config.ts'
import { deadlineIn } from '../../base/deadline.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import { type Paths, paths } from '../../base/paths.ts'
import type { Node } from '../../base/types.ts'
import { byHand, outliveReader, plainTick, requireRoot } from '../../cli/cli.ts'
import { activeLocalNodes, findNode, isLocal, readRegistry } from '../../registry/read.ts'
import { makeLog } from '../../report/log.ts'
import { readReceipt } from '../../store/receipts.ts'
import type { Invocation } from './args.ts'
import type { Outcome, RunContext } from './finish.ts'
import { MANUAL_LOCK_MS, preview, RUN_MS, supervise, TIMER_LOCK_MS } from './run.ts'

const NAME = /^[a-z0-9][a-z0-9-]{0,31}$/

/** `chromebox-watchdog`: arguments in, exit code out. Throws NetvmError for what it was given wrong. */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  const only = plainTick(argv)
  const asked: Invocation | undefined =
    only === undefined
      ? (await import('./args.ts')).parseArgs(argv)
      : { kind: 'run', node: only, dryRun: false, json: false, why: false }
  if (!asked) return EXIT.OK
  const p = paths()
  if (!NAME.test(asked.node)) (await import('../../registry/names.ts')).assertNodeName(asked.node)
  const config = loadConfig(p)
  const registry = readRegistry(p, config)
  const node = findNode(registry, asked.node)
  requireRoot('chromebox-watchdog', process.getuid?.() === 0 ? undefined : lastSeen(p, node))
  const person = byHand()
  if (person) outliveReader()
  const here = activeLocalNodes(registry, hostname())
  const lockWaitMs = person ? MANUAL_LOCK_MS : TIMER_LOCK_MS
  const ctx: RunContext = {
    p,
    config,
    log: makeLog('chromebox-watchdog', p),
    deadline: deadlineIn(person ? RUN_MS + MANUAL_LOCK_MS : RUN_MS),
    lockWaitMs,
    tell: (message) => {
      if (person) process.stderr.write(`chromebox-watchdog: ${message}\n`)
    },
    others: here.filter((n) => n.name !== node.name),
  }
  if (asked.kind === 'release') return (await import('./release.ts')).releaseCommand(ctx, node)
  const idle = whyIdle(node)
  if (idle !== undefined) {
    if (person) process.stdout.write(`${node.name}: ${idle}\n`)
    return EXIT.OK
  }
  return person || asked.json || asked.dryRun || asked.why
    ? show(ctx, node, asked)
    : code(await supervise(ctx, node))
}

/** A run that somebody reads. */
async function show(ctx: RunContext, node: Node, asked: Invocation): Promise<ExitCode> {
  const view = await import('./render.ts')
  const looksOnly = asked.dryRun || asked.why
  if (!asked.json) process.stdout.write(`${await view.contextLine(ctx, node)}\n`)
  const outcome = looksOnly ? await preview(ctx, node) : await supervise(ctx, node)
  if (asked.json) {
    process.stdout.write(`${view.json(outcome, looksOnly)}\n`)
  } else if (asked.why) {
    process.stdout.write(await (await import('./why.ts')).why(ctx, node, outcome))
    if (asked.dryRun) process.stdout.write(`${view.dryRun(outcome)}\n`)
  } else if (asked.dryRun) {
    process.stdout.write(`${await view.path(node, outcome)}${view.dryRun(outcome)}\n`)
  } else {
    process.stdout.write(await view.path(node, outcome))
  }
  return code(outcome)
}

/** Healthy, recovered and paused are 0: there is nothing to do. */
function code(outcome: Outcome): ExitCode {
  const { state, code } = outcome.verdict
  if (state === 'healthy' || code === 'paused') return EXIT.OK
  return state === 'unhealthy' ? EXIT.UNHEALTHY : EXIT.UNKNOWN
}

function whyIdle(node: Node): string | undefined {
  if (node.status === 'retired') return 'its row is retired, nothing to supervise'
  if (!isLocal(node, hostname())) return `its row belongs to host ${node.host}`
  return undefined
}

/** What a plain user can still see: the last run's receipt. */
function lastSeen(p: Paths, node: Node): string | undefined {
  const read = readReceipt(p, 'chromebox-watchdog', node.name)
  if (!read.seen || !read.value) return undefined
  const { verdict, at } = read.value
  const said = verdict.reason === '' ? verdict.state : `${verdict.state}, ${verdict.reason}`
  return `the run at ${new Date(at.wallMs).toISOString()} found it ${said}`
}
