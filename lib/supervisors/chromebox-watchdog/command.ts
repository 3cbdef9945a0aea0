import { hostname } from 'node:os'
import { now } from '../../base/clock.ts'
import { loadConfig } from '../../base/config.ts'
import { deadlineIn } from '../../base/deadline.ts'
import { EXIT, type ExitCode } from '../../base/exit-codes.ts'
import { type Paths, statePath } from '../../base/paths.ts'
import type { Node } from '../../base/types.ts'
import { byHand, outliveReader, plainTick, requireRoot } from '../../cli/cli.ts'
import { findNode, isLocal, readRegistry } from '../../registry/read.ts'
import { line } from '../../report/line.ts'
import { makeLog } from '../../report/log.ts'
import { withLock } from '../../store/lock.ts'
import { readReceipt } from '../../store/receipts.ts'
import { writeState } from '../../store/state.ts'
import { exitOf, tick } from '../tick.ts'
import type { Supervisor, Tick } from '../types.ts'
import { decide } from './decide.ts'
import { cautiousMemory, emptyMemory, parseMemory, readMemory, releaseMemory } from './memory.ts'
import { lookAgain, observe, withUnit } from './observe.ts'
import type { Action, Memory, Observation } from './types.ts'

const PROGRAM = 'chromebox-watchdog'
/**
 * All of a run must end below `TimeoutStartSec` (110 s) of its unit: 15 s for the lock, 13 s for two looks
 * and the delay between them, 18 s for a stop, 60 s to verify do not quite fit, and then the next run acts.
 */
const RUN_MS = 104_000
/** What a person waits for another run; that one ends within RUN_MS. */
const MANUAL_LOCK_MS = 120_000
const TIMER_LOCK_MS = 15_000
/** Two periods of the timer: the next run may need its whole deadline before it writes. */
const RECEIPT_DUE_MS = 240_000

const WATCHDOG: Supervisor<Observation, Action, Memory> = {
  name: PROGRAM,
  dueMs: RECEIPT_DUE_MS,
  history: true,
  next: (node) => `chromebox-watchdog ${node} --why`,
  memory: {
    parse: parseMemory,
    cautious: (at, t) => cautiousMemory(at, t.config),
    fresh: emptyMemory,
    lost: (node) => ({
      more: '; no relaunch before the longest back-off is over',
      next: `chromebox-watchdog release ${node}`,
    }),
    lock: 'node',
  },
  observe,
  lookCloser: async (t, node, observation, { actions }) =>
    t.dryRun || actions.length === 0 ? withUnit(t, node, observation) : observation,
  lookAgain,
  decide: (observation, memory, at, t) => decide(observation, memory, at, t.config),
  doing: ({ actions, verdict }) =>
    actions[0]?.kind === 'restart-tunnel'
      ? `restarting the tunnel (${verdict.reason})`
      : `confirming "${verdict.reason}" and acting on it`,
  act: async (t, node, round) => (await import('./act.ts')).act(t, node, round),
  facts: (look, { failures, held }) => ({
    failures,
    held: held !== undefined,
    ...(look?.identity !== undefined && { browserIdentity: look.identity }),
  }),
}

interface Asked {
  readonly node: string
  readonly release?: boolean
  readonly dryRun?: boolean
  readonly json?: boolean
  readonly why?: boolean
}

const NAME = /^[a-z0-9][a-z0-9-]{0,31}$/

/**
 * `chromebox-watchdog [--dry-run] [--json] [--why] <node>`, `chromebox-watchdog release <node>`. Silent under a timer
 * unless something is wrong; for a person the path of the node.
 *
 * @param argv arguments only; a node alone is what the timer runs, and loads no option parser
 * @throws ConfigError, UsageError, RootError, LockedError
 */
export async function chromeboxWatchdogCommand(p: Paths, argv: readonly string[]): Promise<ExitCode> {
  const only = plainTick(argv)
  const asked: Asked = only === undefined ? await parse(argv) : { node: only }
  if (!NAME.test(asked.node)) (await import('../../registry/names.ts')).assertNodeName(asked.node)
  const config = loadConfig(p)
  const registry = readRegistry(p, config)
  const node = findNode(registry, asked.node)
  requireRoot(PROGRAM, process.getuid?.() === 0 ? undefined : lastSeen(p, node))
  const person = byHand()
  if (person) outliveReader()
  const t: Tick = {
    p,
    config,
    log: makeLog(PROGRAM, p),
    registry,
    deadline: deadlineIn(person ? RUN_MS + MANUAL_LOCK_MS : RUN_MS),
    lockWaitMs: person ? MANUAL_LOCK_MS : TIMER_LOCK_MS,
    byHand: person,
    dryRun: asked.dryRun === true || asked.why === true,
    named: [node.name],
    tell: (message) => {
      if (person) process.stderr.write(`${PROGRAM}: ${message}\n`)
    },
  }
  if (asked.release) return release(t, node)
  const idle = whyIdle(node)
  if (idle !== undefined) {
    if (person) process.stdout.write(`${node.name}: ${idle}\n`)
    return EXIT.OK
  }
  return person || asked.json || t.dryRun ? show(t, node, asked) : exitOf([await tick(WATCHDOG, t, node)])
}

/** A run that somebody reads. */
async function show(t: Tick, node: Node, { json, why, dryRun }: Asked): Promise<ExitCode> {
  const view = await import('./render.ts')
  const print = (text: string) => process.stdout.write(text)
  if (!json) print(`${await view.context(t, node)}\n`)
  const outcome = await tick(WATCHDOG, t, node)
  if (json) {
    print(`${view.json(outcome, t.dryRun)}\n`)
  } else {
    print(why ? await view.why(t, node, outcome) : await view.path(node, outcome))
    if (dryRun) print(`${view.dryRun(outcome)}\n`)
  }
  return exitOf([outcome])
}

function whyIdle(node: Node): string | undefined {
  if (node.status === 'retired') return 'its row is retired, nothing to supervise'
  if (!isLocal(node, hostname())) return `its row belongs to host ${node.host}`
  return undefined
}

/** What a plain user can still see: the last run's receipt. */
function lastSeen(p: Paths, node: Node): string | undefined {
  const read = readReceipt(p, PROGRAM, node.name)
  if (!read.seen || !read.value) return undefined
  const { verdict, at } = read.value
  const said = verdict.reason === '' ? verdict.state : `${verdict.state}, ${verdict.reason}`
  return `the run at ${new Date(at.wallMs).toISOString()} found it ${said}`
}

/**
 * Forgets a hold-down, the back-off and the caution after a corrupt file; the history is kept. Says what
 * was there, because releasing a node that was not held points at another fault.
 */
async function release(t: Tick, node: Node): Promise<ExitCode> {
  const opts = { waitMs: t.lockWaitMs, onWait: t.tell }
  return withLock(t.p, `node-${node.name}`, 'releasing the hold-down', opts, () => {
    const before = readMemory(t.p, t.config, node.name)
    const what = heldWhat(before)
    if (what === undefined) {
      process.stdout.write(`${node.name}: nothing to release\n`)
      return EXIT.OK
    }
    const path = statePath(t.p, PROGRAM, node.name)
    try {
      writeState(path, releaseMemory(before, now(t.p)))
    } catch (err) {
      const code = (err as NodeJS.ErrnoException).code ?? String(err)
      process.stderr.write(`${PROGRAM}: cannot write ${path}: ${code}; next: df ${t.p.state}\n`)
      return EXIT.UNHEALTHY
    }
    t.log.write(node.name, line('INFO', 'released', { what }))
    process.stdout.write(`${node.name}: released (${what}); next: chromebox-watchdog ${node.name}\n`)
    return EXIT.OK
  })
}

function heldWhat(m: Memory): string | undefined {
  if (m.held) return `HELD DOWN after ${m.failures} failed relaunches`
  if (m.failures > 0) return `backing off after ${m.failures} failed`
  if (m.notBeforeBootMs !== undefined) return 'waiting because its state file was corrupt'
  return m.quickDeaths > 0 ? `${m.quickDeaths} quick deaths` : undefined
}

async function parse(argv: readonly string[]): Promise<Asked> {
  const { program } = await import('../../cli/program.ts')
  const words = "looks at a node's browser from inside its namespace and brings it back when it is broken"
  const known = 'what is known: layers, last runs and attempts, how the last browser ended, what it printed'
  const command = await program(PROGRAM, words)
  let asked: Asked = { node: '' }
  command
    .argument('<node>', 'a node of the registry')
    .option('--dry-run', 'say what would be done and which guard stops it; do nothing')
    .option('--json', 'print the receipt')
    .option('--why', known)
    .action((node: string, flags: Omit<Asked, 'node'>) => {
      asked = { node, ...flags }
    })
    .command('release')
    .description('end a hold-down and the back-off: the next run may act at once')
    .argument('<node>')
    .action((node: string) => {
      asked = { node, release: true }
    })
  command.parse(argv, { from: 'user' })
  return asked
}
