import { UsageError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { program } from '../cli/program.ts'
import { assertNodeName } from '../registry/names.ts'
import { type Depth, describeClient, queueDepth, queueNodes } from './depth.ts'
import { knownNode } from './known.ts'
import { QUEUE_TIMEOUT_MS, withCdpSlot } from './slot.ts'
import { isPriority, PRIORITIES, type Priority } from './ticket.ts'

/** A day: longer is a typing error, in seconds. */
const MAX_TIMEOUT_S = 86_400

/** `cdp-queue run|depth`. @returns the exit status, of `run` that of the command. @throws UsageError */
export async function queueCommand(p: Paths, args: readonly string[]): Promise<number> {
  const split = args.indexOf('--')
  const ours = split < 0 ? args : args.slice(0, split)
  const cmd = split < 0 ? [] : args.slice(split + 1)
  let status: number = EXIT.OK
  const queue = await program('cdp-queue', 'At most two CDP operations at a time per browser.')
  queue
    .command('run <node> [CMD...]')
    .usage('[options] <node> -- CMD...')
    .description("wait for one of the node's two CDP slots, run CMD, give the slot back")
    .option('--priority <word>', `${PRIORITIES.join(', ')} (default: CDP_PRIORITY, else normal)`)
    .option('--timeout <s>', `seconds to wait for a slot (default ${QUEUE_TIMEOUT_MS / 1000})`)
    .action(async (node: string, misplaced: string[], o: { priority?: string; timeout?: string }) => {
      if (misplaced[0] !== undefined)
        throw usage(`unexpected argument ${clean(misplaced[0], 40)} (CMD comes after --)`)
      if (cmd.length === 0) throw usage('run needs a command after --')
      const priority = priorityOf(o.priority ?? (process.env.CDP_PRIORITY || 'normal'))
      const timeoutMs = timeoutOf(o.timeout)
      knownNode(p, assertNodeName(node), 'run')
      const onSlow = (message: string) => process.stderr.write(`cdp-queue: ${message}\n`)
      const wait = { p, priority, timeoutMs, doing: cmd.join(' '), onSlow }
      const { runCommand } = await import('./run-command.ts')
      status = await withCdpSlot(node, wait, () => runCommand(cmd))
    })
  queue
    .command('depth [node]')
    .description('who is in the slots, and who waits')
    .option('--json', 'for programs')
    .action((node: string | undefined, o: { json?: true }) => {
      if (split >= 0) throw usage('depth takes a node and --json only')
      if (node !== undefined) knownNode(p, assertNodeName(node), 'depth')
      const depths = (node === undefined ? queueNodes(p) : [node]).map((n) => queueDepth(p, n))
      console.log(o.json ? JSON.stringify(depths) : depths.map(describeDepth).join('\n') || 'no queue yet')
    })
  await queue.parseAsync(ours, { from: 'user' })
  return status
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
