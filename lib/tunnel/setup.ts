import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { ConfigError, NetvmError } from '../base/errors.ts'
import { nodeEnvPath, type Paths } from '../base/paths.ts'
import { ipBatch } from '../host/netns.ts'
import { netnsFile } from '../netns/look.ts'
import { resolvPath, writeResolv } from '../netns/resolv.ts'
import { readNodeEnv } from '../registry/node-env.ts'
import { readTunnelConf } from './conf-file.ts'
import {
  allowV6,
  configureInterface,
  createInterface,
  deleteInterface,
  type Engine,
  untilReady,
} from './device.ts'
import { resolveEndpoints } from './endpoints.ts'
import { carriesV6, insideLines, renderSetconf } from './render.ts'

export interface TunnelNames {
  readonly node: string
  readonly netns: string
  readonly wg: string
}

/** Names of a node from its settings file. Throws ConfigError when there is none. */
export function tunnelNames(p: Paths, node: string): TunnelNames {
  const env = readNodeEnv(p, node)
  if (env === undefined) {
    throw new ConfigError(`no settings for node ${node} at ${nodeEnvPath(p, node)}`, `netvm-node-up ${node}`)
  }
  return { node, netns: env.NETNS, wg: env.WG }
}

export interface TunnelUp {
  readonly engine: Engine
  /** Settings of the file that were left out, one sentence each. */
  readonly ignored: readonly string[]
}

/**
 * Brings a node's tunnel up from nothing, whatever an earlier run left: reads the configuration, resolves its
 * endpoints on the host, makes the interface there and moves it into the namespace. Undoes everything when a step
 * fails; a configuration that is refused or does not resolve leaves what is there as it is.
 * @param beside waits for an interface that is being made meanwhile, down and inside: its engine, or undefined when
 * there is none and it has to be made here. Such an interface is undone by every failure.
 * @throws NetvmError: bad configuration (78), no namespace, a name that does not resolve, a tool that fails.
 */
export async function tunnelUp(
  p: Paths,
  names: TunnelNames,
  beside?: () => Engine | undefined,
): Promise<TunnelUp> {
  const { node, netns, wg } = names
  let made = beside === undefined
  let touched = !made
  try {
    const conf = readTunnelConf(p, node)
    if (netnsFile(p, netns) !== 'namespace')
      throw new NetvmError(`netns ${netns} missing`, { next: `systemctl restart netvm-netns@${node}` })
    const endpoints = await resolveEndpoints(conf)
    touched = true
    made = true
    const engine = beside?.() ?? (await makeInside(p, names))
    const v6 = carriesV6(conf)
    const setconf = renderSetconf(conf, endpoints)
    await Promise.all([configureInterface(netns, wg, engine, setconf), v6 ? allowV6(netns, wg) : undefined])
    await ipBatch(netns, insideLines(wg, conf))
    writeResolv(p, node, netns)
    if (engine === 'wireguard-go') await untilReady(p, wg)
    else holdUnit(p, node)
    return { engine, ignored: conf.ignored }
  } catch (err) {
    if (!made) beside?.()
    if (touched) await tunnelDown(p, names).catch(() => {})
    throw err
  }
}

async function makeInside(p: Paths, { netns, wg }: TunnelNames): Promise<Engine> {
  await deleteInterface(p, netns, wg)
  const engine = await createInterface(p, wg)
  await ipBatch(undefined, [`link set dev ${wg} netns ${netns}`])
  return engine
}

/**
 * Removes everything `tunnelUp` made; nothing there is fine. The resolver file goes back to what the namespace has
 * without us: the resolvers of the configuration while there is one (no route leads to them now, so lookups fail at
 * once, and a restart changes nothing under a browser that watches the file), none when there is none.
 */
export async function tunnelDown(p: Paths, names: TunnelNames): Promise<void> {
  await deleteInterface(p, names.netns, names.wg)
  if (existsSync(resolvPath(p, names.netns))) writeResolv(p, names.node, names.netns)
}

/**
 * A kernel interface has no process, and systemd calls a forking unit without one inactive. So the unit gets a
 * process that does nothing; only there, because by hand nobody would end it.
 */
function holdUnit(p: Paths, node: string): void {
  if (!readFileSync(`${p.proc}/self/cgroup`, 'utf8').includes(`netvm-tunnel@${node}.service`)) return
  spawn('sleep', ['infinity'], { detached: true, stdio: 'ignore' }).unref()
}
