import { now } from '../base/clock.ts'
import { NetvmError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { type Paths, statePath } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { findMain } from '../browser/look.ts'
import { ensure, noteLine } from '../ensure/ensure.ts'
import { rowLeft } from '../ensure/preflight.ts'
import { assertRow, type RowOptions } from '../ensure/row.ts'
import { listenersIn } from '../host/listeners.ts'
import { netnsInode } from '../host/netns.ts'
import { readArgv } from '../host/proc.ts'
import { systemctlOk } from '../host/systemctl.ts'
import { networkOf } from '../netns/command.ts'
import { netnsFile } from '../netns/look.ts'
import { networkUp } from '../netns/setup.ts'
import { assertNodeName, unitsOf } from '../registry/names.ts'
import { writeState } from '../store/state.ts'
import { readMemory, releaseMemory } from '../supervisors/chromebox-watchdog/memory.ts'

import { readTunnelConf } from '../tunnel/conf-file.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { JOB_MS, type NodeContext, states, underLock } from './context.ts'
import { verifyNode } from './verify.ts'

const PROGRAM = 'netvm-node-up'

/**
 * `netvm-node-up`: row and unit settings, then whatever is missing is started, then everything is looked at,
 * then the timers are armed. It goes by what is really there: units stay active over a namespace that was
 * removed.
 */
export async function nodeUp(
  ctx: NodeContext,
  name: string,
  row: Omit<RowOptions, 'add'>,
): Promise<ExitCode> {
  assertRow(ctx, assertNodeName(name), true)
  // A tunnel that cannot come up would be waited for, and then fail: refused before anything is changed.
  // Its keys must be root's; under a test root those of whoever runs the test.
  const owner = ctx.p.root === '' ? 0 : (process.geteuid?.() ?? 0)
  if (tunnelConfigured(ctx.p, name)) readTunnelConf(ctx.p, name, owner)
  return underLock(ctx, name, 'bringing the node up', async () => {
    const target = { node: name, row: { ...row, add: true }, by: PROGRAM, stage: 'settings' } as const
    const { did, node, activated } = await ensure(ctx, target)
    for (const { text } of did) ctx.say('settings', text)
    if (node === undefined) throw new Error('ensure gave no row')
    return whole(ctx, node).catch((err) => {
      throw activated ? rowLeft(err, name) : err
    })
  })
}

/** Starts what is missing of a node with a row, verifies it, and arms its timers. */
async function whole(ctx: NodeContext, node: Node): Promise<ExitCode> {
  const { name } = node
  release(ctx, name)
  await network(ctx, node)
  await startMissing(ctx, node)
  const parts = await verifyNode(ctx, node)
  for (const { part, ok, text, next } of parts)
    ctx.say(part, ok ? text : `NOT OK: ${text}${next === undefined ? '' : `; next: ${next}`}`)
  const armed = await ensure(ctx, { node: name, by: PROGRAM })
  for (const { text } of armed.did) ctx.say('timers', text)
  for (const note of armed.left) ctx.say('left', noteLine(note))
  await systemctl(['start', '--no-block'], [unitsOf(name).target])
  return parts.every((part) => part.ok) && armed.left.length === 0 ? EXIT.OK : EXIT.UNHEALTHY
}

/** Lets go of whatever keeps the watchdog from acting on a node: somebody brings it up by hand. Under the node lock. */
function release({ p, config, say }: NodeContext, name: string): void {
  const memory = readMemory(p, config, name)
  const { held, failures, notBeforeBootMs } = memory
  if (!held && failures === 0 && notBeforeBootMs === undefined) return
  writeState(statePath(p, 'chromebox-watchdog', name), releaseMemory(memory, now(p)))
  say('watchdog', held ? 'released from HELD DOWN' : 'back-off ended')
}

async function network(ctx: NodeContext, node: Node): Promise<void> {
  const { netns, browser, socket, relay, tunnel } = unitsOf(node.name)
  const active = (await states([netns])).get(netns) === 'active'
  const file = netnsFile(ctx.p, node.netns)
  const elsewhere = file === 'namespace' && mainOf(ctx.p, node).elsewhere
  if (active && (file === 'absent' || elsewhere)) {
    const what = elsewhere ? 'is not the one that the browser runs in' : 'was removed'
    ctx.say('netns', `${node.netns} ${what}: stopping what still runs in the old one`)
    await systemctl(['stop'], [browser, socket, relay, tunnel])
    await systemctl(['restart'], [netns])
    ctx.say('netns', `${node.netns} created again`)
    return
  }
  if (!active) {
    await systemctl(['reset-failed'], [netns], true)
    await systemctl(['start'], [netns]).catch((error) => {
      // More is known than "job failed".
      if (file !== 'not-a-namespace') throw error
      const next = `rm /run/netns/${node.netns} && netvm-node-up ${node.name}`
      throw new NetvmError(`/run/netns/${node.netns} is a plain file, not a namespace`, { next })
    })
    ctx.say('netns', `${node.netns} created`)
    return
  }
  const want = networkOf(ctx.p, node.name)
  const did = want === undefined ? [] : await networkUp(ctx.p, want)
  for (const line of did) ctx.say('netns', line)
  if (did.length === 0) ctx.say('netns', `${node.netns} exists`)
}

async function startMissing(ctx: NodeContext, node: Node): Promise<void> {
  const { browser, socket, tunnel } = unitsOf(node.name)
  const seen = await states([browser, socket, tunnel])
  const running = (unit: string) => seen.get(unit) === 'active'
  const restart: string[] = []
  const port = running(browser) ? mainOf(ctx.p, node).port : undefined
  if (port !== undefined && port !== String(node.cdpPort)) {
    ctx.say('browser', `restarting it: its port is ${port}, the row says ${node.cdpPort}`)
    restart.push(browser)
  }
  if (running(socket) && !relayIsBound(ctx.p, node)) {
    ctx.say('relay', `binding it again: nothing listens on ${node.peer}:${node.cdpPort}`)
    restart.push(socket)
  }
  const wanted = [browser, socket, ...(tunnelConfigured(ctx.p, node.name) ? [tunnel] : [])]
  const start = wanted.filter((unit) => !running(unit))
  // A start limit or an old failure must not stop a person from starting it.
  await systemctl(['reset-failed'], [...start, ...restart], true)
  // A tunnel that does not come up is reported by its own check, and the browser is wanted all the same.
  if (start.includes(tunnel)) await systemctl(['start'], [tunnel], true)
  await systemctl(['restart'], restart)
  await systemctl(
    ['start'],
    start.filter((unit) => unit !== tunnel),
  )
}

/**
 * The node's running browser: the port it was started with, and whether it lives on in an old namespace, because
 * somebody deleted and created the namespace again under it.
 */
function mainOf(p: Paths, node: Node): { readonly port?: string | undefined; readonly elsewhere: boolean } {
  const { process: main, elsewhere } = findMain(p, node, netnsInode(p, node.netns))
  if (!main.seen) return { elsewhere: false }
  if (main.value === undefined) return { elsewhere: elsewhere.length > 0 }
  const port = readArgv(p.proc, main.value.pid).find((a) => a.startsWith('--remote-debugging-port='))
  return { port: port?.split('=')[1], elsewhere: false }
}

/** A socket unit stays active over the socket of a namespace that is gone. Not seen counts as bound. */
function relayIsBound(p: Paths, node: Node): boolean {
  const listeners = listenersIn(p, node.netns, node.cdpPort, node.peer)
  return !listeners.seen || listeners.value.length > 0
}

function systemctl(verb: readonly string[], units: readonly string[], tolerant = false): Promise<void> {
  const next = `journalctl -u ${units[0]} -n 30`
  return systemctlOk(verb, units, { deadlineMs: JOB_MS, next, ...(tolerant && { fine: /^/ }) })
}
