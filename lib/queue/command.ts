import { parseArgs } from 'node:util'
import { UsageError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { assertNodeName } from '../registry/names.ts'
import { type Depth, describeClient, queueDepth, queueNodes } from './depth.ts'
import { knownNode } from './known.ts'
import { acquireSlot, QUEUE_TIMEOUT_MS } from './slot.ts'
import { isPriority, PRIORITIES, type Priority } from './ticket.ts'

export const USAGE = `usage: cdp-queue run <node> [--priority high|normal|low] [--timeout <s>] -- CMD…
       cdp-queue depth [<node>] [--json]

run    waits for one of the node's two CDP slots, runs CMD, gives the slot back; exits with CMD's status
       (75: no slot in time). The priority is CDP_PRIORITY's unless given, else normal; timeout 60 s.
depth  who is in the slots, and who waits.`

export type Plan =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'run'
      readonly node: string
      readonly priority: Priority
      readonly timeoutMs: number
      readonly argv: readonly string[]
    }
  | { readonly kind: 'depth'; readonly node: string | undefined; readonly json: boolean }

/** A day: longer is a typing error, in seconds. */
const MAX_TIMEOUT_S = 86_400

/**
 * Reads the command line (arguments only). Not commander: this program stands in front of every piece of
 * CDP work, and loading it would cost more than the queue does.
 *
 * @throws UsageError (64)
 */
export function parseCommand(args: readonly string[], env: NodeJS.ProcessEnv): Plan {
  const split = args.indexOf('--')
  const ours = split < 0 ? args : args.slice(0, split)
  const argv = split < 0 ? [] : args.slice(split + 1)
  const { values, positionals } = parse(ours)
  const [verb, node, ...more] = positionals
  if (values.help || verb === 'help') return { kind: 'help' }
  if (more.length > 0) throw usage(`unexpected argument ${clean(more[0] ?? '', 40)} (CMD comes after --)`)
  if (verb === 'depth') {
    if (values.priority !== undefined || values.timeout !== undefined || split >= 0) {
      throw usage('depth takes a node and --json only')
    }
    return {
      kind: 'depth',
      node: node === undefined ? node : assertNodeName(node),
      json: values.json === true,
    }
  }
  if (verb !== 'run') throw usage(verb === undefined ? 'run or depth?' : `no command ${clean(verb, 40)}`)
  if (node === undefined) throw usage('run needs a node')
  if (argv.length === 0) throw usage('run needs a command after --')
  if (values.json) throw usage('--json is for depth')
  return {
    kind: 'run',
    node: assertNodeName(node),
    priority: priorityOf(values.priority ?? (env.CDP_PRIORITY || 'normal')),
    timeoutMs: timeoutOf(values.timeout),
    argv,
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        priority: { type: 'string' },
        timeout: { type: 'string' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    })
  } catch (err) {
    throw usage(clean((err as Error).message.split('\n')[0] ?? '', 120))
  }
}

function priorityOf(text: string): Priority {
  if (isPriority(text)) return text
  throw usage(`priority ${clean(text, 20)} is none of ${PRIORITIES.join(', ')}`)
}

function timeoutOf(text: string | undefined): number {
  if (text === undefined) return QUEUE_TIMEOUT_MS
  const s = /^\d{1,6}(\.\d{1,3})?$/.test(text) ? Number(text) : Number.NaN
  if (s <= MAX_TIMEOUT_S) return s * 1000
  throw usage(`timeout ${clean(text, 20)} is no number of seconds up to ${MAX_TIMEOUT_S}`)
}

function usage(message: string): UsageError {
  return new UsageError(message, 'cdp-queue --help')
}

/** Carries the plan out and returns the exit status. Output goes to stdout, warnings to stderr. */
export async function queueCommand(p: Paths, args: readonly string[]): Promise<number> {
  const plan = parseCommand(args, process.env)
  if (plan.kind === 'help') {
    console.log(`${USAGE}\n${(await import('../cli/examples.ts')).examples('cdp-queue')}`)
    return EXIT.OK
  }
  if (plan.node !== undefined) knownNode(p, plan.node, plan.kind)
  if (plan.kind === 'depth') {
    const nodes = plan.node === undefined ? queueNodes(p) : [plan.node]
    const depths = nodes.map((n) => queueDepth(p, n))
    console.log(plan.json ? JSON.stringify(depths) : depths.map(describeDepth).join('\n') || 'no queue yet')
    return EXIT.OK
  }
  const slot = await acquireSlot(plan.node, {
    p,
    priority: plan.priority,
    timeoutMs: plan.timeoutMs,
    doing: plan.argv.join(' '),
    onSlow: (message) => process.stderr.write(`cdp-queue: ${message}\n`),
  })
  try {
    const { runCommand } = await import('./run-command.ts')
    return await runCommand(plan.argv)
  } finally {
    slot.release()
  }
}

/** One node's queue for people. */
export function describeDepth(d: Depth): string {
  const used = d.slots.filter((s) => s.held).length
  const lines = [`${d.node}: ${used} of ${d.slots.length} slots in use, ${d.waiting.length} waiting`]
  for (const s of d.slots) {
    if (!s.held) continue
    lines.push(
      `  ${s.slot.replace('.lock', '')}  ${s.holder ? describeClient(s.holder) : 'not seen from here'}`,
    )
  }
  for (const w of d.waiting) {
    const who = w.doing === undefined ? `pid ${w.pid}` : describeClient({ user: '?', doing: w.doing, ...w })
    lines.push(`  waits   ${w.priority}: ${who}`)
  }
  return lines.join('\n')
}
