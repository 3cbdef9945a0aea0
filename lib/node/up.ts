import type { Config } from '../base/config.ts'
import { NetvmError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { findMain } from '../browser/look.ts'
import { ensure } from '../ensure/ensure.ts'
import { rowLeft } from '../ensure/preflight.ts'
import { assertRow, type RowOptions } from '../ensure/row.ts'
import { listenersIn } from '../host/listeners.ts'
import { netnsInode } from '../host/netns.ts'
import { readArgv } from '../host/proc.ts'
import { askSystemd, systemctlOk } from '../host/systemctl.ts'
import { networkOf } from '../netns/command.ts'
import { netnsFile } from '../netns/look.ts'
import { networkUp } from '../netns/setup.ts'
import { assertNodeName } from '../registry/names.ts'
import { withLock } from '../store/lock.ts'
import { readTunnelConf } from '../tunnel/conf-file.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { releaseNode } from './release.ts'
import { type Part, verifyNode } from './verify.ts'

/** How long to wait for a supervisor that works on the node, in milliseconds: its run ends within its unit's 110 s. */
const LOCK_WAIT_MS = 120_000
/** Deadline of a systemctl call in milliseconds: a browser's stop (15 s) and start together. */
const JOB_MS = 60_000

export interface UpContext {
  readonly p: Paths
  readonly config: Config
  /** Prints one line of progress: what part of the node, what was done or seen. */
  readonly say: (part: string, text: string) => void
}

/**
 * `netvm-node-up`: row and unit settings, then whatever is missing is started, then everything is looked at,
 * then the timers are armed. It goes by what is really there: units stay active over a namespace that was
 * taken away.
 */
export async function nodeUp(ctx: UpContext, name: string, row: Omit<RowOptions, 'add'>): Promise<ExitCode> {
  assertRow(ctx, assertNodeName(name), true)
  // A tunnel that cannot come up would be waited for, and then fail: refused before anything is changed.
  if (tunnelConfigured(ctx.p, name)) readTunnelConf(ctx.p, name, ownerOf(ctx.p))
  const opts = { waitMs: LOCK_WAIT_MS, onWait: (message: string) => ctx.say('wait', message) }
  return withLock(ctx.p, `node-${name}`, 'bringing the node up', opts, async () => {
    const by = 'netvm-node-up'
    const settings = await ensure(ctx, { node: name, row: { ...row, add: true }, by, stage: 'settings' })
    for (const line of settings.did) ctx.say('settings', line.slice(name.length + 2))
    const { node } = settings
    if (node === undefined) throw new Error('ensure gave no row')
    return settings.activated
      ? whole(ctx, node, by).catch((err) => {
          throw rowLeft(err, name)
        })
      : whole(ctx, node, by)
  })
}

/** Starts what is missing of a node with a row, verifies it, and arms its timers. */
async function whole(ctx: UpContext, node: Node, by: string): Promise<ExitCode> {
  const { name } = node
  const released = releaseNode(ctx.p, ctx.config, name)
  if (released) ctx.say('watchdog', released)
  await network(ctx, node)
  await startMissing(ctx, node)
  const parts = await verifyNode(ctx, node)
  for (const part of parts) ctx.say(part.part, partText(part))
  const armed = await ensure(ctx, { node: name, by })
  for (const line of armed.did) ctx.say('timers', line.slice(name.length + 2))
  for (const line of armed.left) ctx.say('left', line)
  await systemctl(['start', '--no-block'], [`netvm-node@${name}.target`])
  return parts.every((part) => part.ok) && armed.left.length === 0 ? EXIT.OK : EXIT.UNHEALTHY
}

function partText(part: Part): string {
  if (part.ok) return part.text
  return `NOT OK: ${part.text}${part.next === undefined ? '' : `; next: ${part.next}`}`
}

async function network(ctx: UpContext, node: Node): Promise<void> {
  const unit = `netvm-netns@${node.name}.service`
  const active = (await states([unit]))[unit]?.ActiveState === 'active'
  const file = netnsFile(ctx.p, node.netns)
  const elsewhere = file === 'namespace' && runsElsewhere(ctx.p, node)
  if (active && (file === 'absent' || elsewhere)) {
    const what = elsewhere ? 'is not the one that the browser runs in' : 'was taken away'
    ctx.say('netns', `${node.netns} ${what}: stopping what still runs in the old one`)
    await systemctl(['stop'], dependants(node.name))
    await systemctl(['restart'], [unit])
    ctx.say('netns', `${node.netns} made again`)
    return
  }
  if (!active) {
    await systemctl(['reset-failed'], [unit], true)
    await systemctl(['start'], [unit]).catch((error) => {
      // The unit's own words are better than "job failed".
      if (file !== 'not-a-namespace') throw error
      const next = `rm /run/netns/${node.netns} && netvm-node-up ${node.name}`
      throw new NetvmError(`/run/netns/${node.netns} is a plain file, not a namespace`, { next })
    })
    ctx.say('netns', `${node.netns} made`)
    return
  }
  const want = networkOf(ctx.p, node.name)
  const did = want === undefined ? [] : await networkUp(ctx.p, want)
  for (const line of did) ctx.say('netns', line)
  if (did.length === 0) ctx.say('netns', `${node.netns} is there`)
}

/** Whose the tunnel's keys must be: root's; under a test root whoever runs the test. */
function ownerOf(p: Paths): number {
  return p.root === '' ? 0 : (process.geteuid?.() ?? 0)
}

function dependants(name: string): string[] {
  return [
    `chromebox@${name}.service`,
    `cdp-relay@${name}.socket`,
    `cdp-relay@${name}.service`,
    `netvm-tunnel@${name}.service`,
  ]
}

async function startMissing(ctx: UpContext, node: Node): Promise<void> {
  const [browser = '', socket = '', , tunnel = ''] = dependants(node.name)
  const seen = await states([browser, socket, tunnel])
  const running = (unit: string) => seen[unit]?.ActiveState === 'active'
  const restart: string[] = []
  const port = running(browser) ? otherPort(ctx.p, node) : undefined
  if (port) {
    ctx.say('browser', `restarting it: its port is ${port}, the row says ${node.cdpPort}`)
    restart.push(browser)
  }
  if (running(socket) && !relayIsBound(ctx.p, node)) {
    ctx.say('relay', `binding it anew: nothing listens on ${node.peer}:${node.cdpPort}`)
    restart.push(socket)
  }
  const wanted = [browser, socket, ...(tunnelConfigured(ctx.p, node.name) ? [tunnel] : [])]
  const start = wanted.filter((unit) => !running(unit))
  // A start limit or an old failure must not stop a person from starting it.
  await systemctl(['reset-failed'], [...start, ...restart], true)
  // A tunnel that does not come up is told by its own check, and the browser is wanted all the same.
  if (start.includes(tunnel)) await systemctl(['start'], [tunnel], true)
  await systemctl(['restart'], restart)
  await systemctl(
    ['start'],
    start.filter((unit) => unit !== tunnel),
  )
}

/** The namespace was deleted and made again, by hand, under a browser that lives on in the old one. */
function runsElsewhere(p: Paths, node: Node): boolean {
  const found = findMain(p, node, netnsInode(p, node.netns))
  return found.process.seen && found.process.value === undefined && found.elsewhere.length > 0
}

/** The port that the running browser was started with, when it is not the row's. */
function otherPort(p: Paths, node: Node): string | undefined {
  const found = findMain(p, node, netnsInode(p, node.netns))
  if (!found.process.seen || found.process.value === undefined) return undefined
  const port = readArgv(p.proc, found.process.value.pid).find((a) => a.startsWith('--remote-debugging-port='))
  const number = port?.split('=')[1]
  return number === undefined || number === String(node.cdpPort) ? undefined : number
}

/** A socket unit stays active over the socket of a namespace that is gone. Not seen counts as bound. */
function relayIsBound(p: Paths, node: Node): boolean {
  const listeners = listenersIn(p, node.netns, node.cdpPort, node.peer)
  return !listeners.seen || listeners.value.length > 0
}

function states(units: readonly string[]) {
  return askSystemd(units, ['ActiveState'])
}

function systemctl(verb: readonly string[], units: readonly string[], tolerant = false): Promise<void> {
  const next = `journalctl -u ${units[0]} -n 30`
  return systemctlOk(verb, units, { deadlineMs: JOB_MS, next, ...(tolerant && { fine: /^/ }) })
}
