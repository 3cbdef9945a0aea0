import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { deadlineIn, sleep } from '../base/deadline.ts'
import { ConfigError } from '../base/errors.ts'
import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { shellWord } from '../base/os-error.ts'
import { nodeEnvPath, type Paths, profileDir, receiptHistoryPath, receiptPath } from '../base/paths.ts'
import { type Node, SUPERVISORS } from '../base/types.ts'
import { profileLeftovers } from '../browser/processes.ts'
import { assertLocal } from '../ensure/row.ts'
import { removeFiles, settingsFiles } from '../ensure/settings.ts'
import { signal } from '../host/proc.ts'
import { systemctlOk } from '../host/systemctl.ts'
import { daemonReload } from '../host/systemd.ts'
import { networkOf } from '../netns/command.ts'
import type { NetworkWant } from '../netns/plan.ts'
import { resolvPath } from '../netns/resolv.ts'
import { inhabitants, networkDown } from '../netns/setup.ts'
import { setCell } from '../registry/edit.ts'
import { assertNodeName, deriveNames, unitsOf } from '../registry/names.ts'
import { findNode, readRegistry } from '../registry/read.ts'
import { withdrawHandover } from '../tunnel/handover.ts'
import { JOB_MS, type NodeContext, POLL_MS, poll, states, underLock } from './context.ts'

/** From TERM to KILL for what was left in the namespace, in milliseconds. */
const KILL_AFTER_MS = 2000
/** How long the watchdog's last run may take to find that its row is retired, in milliseconds. */
const WATCHDOG_END_MS = 5000

/**
 * `netvm-node-down`: the row first, so that nothing brings back what is taken down; then supervision, the
 * browser, relay, tunnel and namespace; then the files. The profile and the tunnel's keys stay.
 */
export async function nodeDown(ctx: NodeContext, name: string): Promise<ExitCode> {
  assertNodeName(name)
  const network = () => networkOf(ctx.p, name) ?? { ...deriveNames(name), node: name }
  // A mistake needs no lock, and leaves none behind.
  rowToRetire(ctx, name, network())
  return underLock(ctx, name, 'taking the node down', async () => {
    const want = network()
    // A row that is retired while nothing can be stopped is a browser that runs and that nobody watches.
    await notInactive(name)
    await retireRow(ctx, name, want)
    await stopUnits(ctx, name, want)
    for (const line of await networkDown(ctx.p, want)) ctx.say('netns', line)
    await removeAll(ctx, name, want)
    const left = await leftovers(ctx.p, name, want)
    for (const line of left) ctx.say('LEFT', line)
    const profile = profileDir(ctx.p, name)
    if (existsSync(profile)) ctx.say('kept', `the browser's profile ${profile}`)
    const conf = join(ctx.p.wireguardDir, `${name}.conf`)
    if (existsSync(conf)) ctx.say('kept', `the tunnel's keys ${conf}`)
    return left.length === 0 ? EXIT.OK : EXIT.UNHEALTHY
  })
}

/**
 * The row to retire; undefined without one when something of the node is still there to be cleared away.
 * @throws ConfigError, UsageError for a row that is not ours to retire, or a name that nothing has
 */
function rowToRetire(ctx: NodeContext, name: string, want: NetworkWant): Node | undefined {
  const parsed = readRegistry(ctx.p, ctx.config)
  const row = parsed.nodes.find((n) => n.name === name)
  if (row !== undefined) {
    assertLocal(row, ctx.config.registry, 'netvm-node-down')
    return row
  }
  // A row that is there and cannot be read would stay active and bring the node back once it is corrected.
  if (parsed.errors.some((error) => error.name === name)) findNode(parsed, name)
  const nameless = parsed.errors.find((error) => error.name === undefined)
  if (nameless !== undefined) {
    const where = `${ctx.config.registry} line ${nameless.line}`
    throw new ConfigError(
      `node ${name} has no row that can be read, and ${where} may be it: ${nameless.reason}`,
      `editor ${shellWord(ctx.config.registry)}`,
    )
  }
  // Without a row there may still be something to clear away; without either it is a typo.
  const there = [nodeEnvPath(ctx.p, name), `/run/netns/${want.netns}`, `/sys/class/net/${want.veth}`]
  if (!there.some((path) => existsSync(path))) findNode(parsed, name)
  return undefined
}

async function retireRow(ctx: NodeContext, name: string, want: NetworkWant): Promise<void> {
  const row = rowToRetire(ctx, name, want)
  if (row === undefined) return ctx.say('row', `none in ${ctx.config.registry}`)
  if (await setCell(ctx.config.registry, name, 'status', 'retired')) {
    ctx.say('row', `${ctx.config.registry} line ${row.line} set retired`)
  }
}

async function stopUnits(ctx: NodeContext, name: string, want: NetworkWant): Promise<void> {
  const { target, timer, browser, socket, relay, tunnel, watchdog, netns } = unitsOf(name)
  const running = (await notInactive(name)).map(([unit]) => unit)
  await systemctl(['disable'], [target, timer])
  await systemctl(['stop'], [target, timer])
  await systemctl(['stop'], [browser])
  // The browser's end starts the watchdog once more. It finds a retired row and ends; ended by us it would leave a
  // failure in the journal that was none.
  const state = async () => (await states([watchdog])).get(watchdog) ?? ''
  await poll(deadlineIn(WATCHDOG_END_MS), state, (word) => word === 'inactive' || word === 'failed')
  await systemctl(['stop'], [socket, relay, tunnel, watchdog])
  // While the namespace has its name, who is in it can be found.
  await emptyNamespace(ctx, want)
  await systemctl(['stop'], [netns])
  await systemctl(['reset-failed'], Object.values(unitsOf(name)), true)
  if (running.length > 0) ctx.say('units', `stopped ${running.join(' ')}`)
}

/** The units of a node that are not inactive, and their states. */
async function notInactive(name: string): Promise<[string, string][]> {
  return [...(await states(Object.values(unitsOf(name))))].filter(([, state]) => state !== 'inactive')
}

/** Whatever else somebody runs in the namespace would keep it alive without a name. */
async function emptyNamespace(ctx: NodeContext, want: NetworkWant): Promise<void> {
  const [gone, dead] = [deadlineIn(KILL_AFTER_MS), deadlineIn(2 * KILL_AFTER_MS)]
  const asked = new Set<number>()
  for (;;) {
    const left = (await inhabitants(ctx.p, want)).filter(({ pid }) => pid !== process.pid)
    if (left.length === 0) return
    for (const { pid, comm } of left) {
      if (!asked.has(pid)) ctx.say('netns', `ending pid ${pid} (${comm}), which runs in ${want.netns}`)
      const late = gone.leftMs() === 0
      if (!asked.has(pid) || late) signal(pid, late ? 'SIGKILL' : 'SIGTERM')
      asked.add(pid)
    }
    // A process that even KILL does not end is reported as left over.
    if (dead.leftMs() === 0) return
    await sleep(POLL_MS)
  }
}

async function removeAll(ctx: NodeContext, name: string, want: NetworkWant): Promise<void> {
  const { p } = ctx
  const settings = settingsFiles(p, name)
  const [, ...dropIns] = settings
  const hadDropIns = dropIns.some((path) => existsSync(path))
  removeFiles(settings)
  for (const s of SUPERVISORS)
    for (const path of [receiptPath(p, s, name), receiptHistoryPath(p, s, name)])
      rmSync(path, { force: true })
  withdrawHandover(p, name)
  rmSync(join(p.queue, name), { recursive: true, force: true })
  rmSync(join(resolvPath(p, want.netns), '..'), { recursive: true, force: true })
  if (hadDropIns) await daemonReload()
}

async function leftovers(p: Paths, name: string, want: NetworkWant): Promise<string[]> {
  const active = await notInactive(name)
  const profile = profileLeftovers(p, profileDir(p, name))
  return [
    ...active.map(([unit, state]) => `${unit} is ${state}; next: systemctl stop ${unit}`),
    ...(profile.seen ? profile.value : []).map(
      ({ pid, comm }) => `pid ${pid} (${comm}) still has the profile open; next: kill ${pid}`,
    ),
    ...(existsSync(`/sys/class/net/${want.veth}`) ? [`${want.veth}; next: ip link del ${want.veth}`] : []),
    ...(existsSync(join(p.netnsDir, want.netns)) ? [`${want.netns}; next: ip netns del ${want.netns}`] : []),
  ]
}

function systemctl(verb: readonly string[], units: readonly string[], tolerant = false): Promise<void> {
  // "not loaded" is what we want of a unit that is to be gone.
  const fine = tolerant ? /^/ : /not loaded|does not exist/
  return systemctlOk(verb, units, { deadlineMs: JOB_MS, fine, next: `systemctl status ${units[0]}` })
}
