import { spawn } from 'node:child_process'
import { closeSync, existsSync, rmSync, writeSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { until } from '../base/deadline.ts'
import { NetvmError } from '../base/errors.ts'
import { openNameless } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { describe, nextAfter, run, runOk } from '../host/exec.ts'
import { IP_DEADLINE_MS, inNetns, ipIn } from '../host/netns.ts'

/** How long a wireguard-go may take to make its interface, in milliseconds. */
const START_DEADLINE_MS = 5_000
/** A wireguard-go whose interface was deleted ends within a second (it looks at its device once a second). */
const GONE_DEADLINE_MS = 3_000
/** The same second, and some, until it has seen that its interface is up in another namespace. */
const READY_DEADLINE_MS = 5_000
const POLL_MS = 5
/** Shorter: a start is what a node without egress waits for, and a poll is one connect(2). */
const START_POLL_MS = 2

/** What to look at when wireguard-go cannot make its interface. */
const TUN = 'ls -l /dev/net/tun'

/** Who moves the packets of an interface. */
export type Engine = 'kernel' | 'wireguard-go'

function uapiSocket(p: Paths, wg: string): string {
  return join(p.wireguardRun, `${wg}.sock`)
}

/**
 * Makes the interface in the namespace this process is in (the host's), so that its UDP socket stays there when the
 * interface moves. The kernel's WireGuard where there is one, else wireguard-go, which ends when its interface is deleted.
 */
export async function createInterface(p: Paths, wg: string): Promise<Engine> {
  const added = await run(['ip', 'link', 'add', 'dev', wg, 'type', 'wireguard'], {
    deadlineMs: IP_DEADLINE_MS,
  })
  if (added.code === 0) return 'kernel'
  // "Unknown device type" (no module), "Operation not supported" (no module loader): anything else is a real failure.
  if (!/unknown device type|not supported/i.test(added.stderr))
    throw new NetvmError(describe(added), { next: nextAfter(added) })
  await untilSocketFree(p, wg)
  await startWireguardGo(p, wg)
  return 'wireguard-go'
}

/**
 * wg-quick's parts that `wg` knows, for an interface that is inside already. The keys go through a file without a name:
 * never in argv, never on a disk.
 */
export async function configureInterface(
  netns: string,
  wg: string,
  engine: Engine,
  setconf: string,
): Promise<void> {
  // A wireguard-go answers on its socket, wherever its interface is; the kernel only in the interface's namespace.
  const setconfArgv = ['wg', 'setconf', wg, '/dev/fd/3']
  const argv = engine === 'kernel' ? inNetns(netns, setconfArgv) : setconfArgv
  const fd = openNameless('/dev/shm')
  try {
    writeSync(fd, setconf, 0)
    // /dev/fd/3 and not /dev/stdin: Node's pipes are sockets, and Linux does not open a socket by that path.
    const result = await run(argv, { deadlineMs: IP_DEADLINE_MS, fds: [fd] })
    if (result.missing)
      throw new NetvmError('the program wg is missing', { next: 'apt-get install wireguard-tools' })
    // wg quotes the line it does not like, which may hold a key, so its words stay out of the message.
    if (result.code !== 0)
      throw new NetvmError(`wg setconf ${wg} refused the configuration (exit ${result.code})`, {
        next: `wg show ${wg}`,
      })
  } finally {
    closeSync(fd)
  }
}

/** Lets the interface have IPv6 whatever the namespace's default is; `ip -n` would not enter it for /proc/sys. */
export async function allowV6(netns: string, wg: string): Promise<void> {
  const setting = `net.ipv6.conf.${wg}.disable_ipv6=0`
  await runOk(inNetns(netns, ['sysctl', '-qw', setting]), { deadlineMs: IP_DEADLINE_MS })
}

/**
 * Deletes the interface wherever it is, in the namespace or still on the host, and waits until a wireguard-go
 * behind it is gone. Nothing there is fine.
 */
export async function deleteInterface(p: Paths, netns: string, wg: string): Promise<void> {
  if (existsSync(`/sys/class/net/${wg}`)) {
    await run(['ip', 'link', 'del', 'dev', wg], { deadlineMs: IP_DEADLINE_MS })
  }
  if (existsSync(join(p.netnsDir, netns))) {
    await run(ipIn(netns, ['link', 'del', 'dev', wg]), { deadlineMs: IP_DEADLINE_MS })
  }
  await untilSocketFree(p, wg)
}

/**
 * wireguard-go notices only by looking once a second that its interface came up in another namespace, and drops
 * packets until then. It has a port once it has: waiting here makes a started unit one that carries traffic.
 */
export async function untilReady(p: Paths, wg: string): Promise<void> {
  const hasPort = async () => /^listen_port=[1-9]/m.test((await askUapi(uapiSocket(p, wg))) ?? '')
  if (await until(hasPort, READY_DEADLINE_MS, POLL_MS)) return
  throw new NetvmError(`wireguard-go did not take up ${wg} in ${READY_DEADLINE_MS} ms`, {
    next: 'dmesg | tail -n 20',
  })
}

/**
 * Wall-clock milliseconds of the last handshake of an interface that a wireguard-go serves, asked without a process of
 * its own; 0 when there never was one, undefined when no wireguard-go answers.
 */
export async function lastHandshakeOf(p: Paths, wg: string): Promise<number | undefined> {
  const path = uapiSocket(p, wg)
  const said = existsSync(path) ? await askUapi(path) : undefined
  if (said === undefined) return undefined
  const seconds = [...said.matchAll(/^last_handshake_time_sec=(\d+)$/gm)].map((found) => Number(found[1]))
  return Math.max(0, ...seconds) * 1000
}

/** A second wireguard-go is refused while the first still answers on its socket; a socket that no process answers on is left over, and removed. */
async function untilSocketFree(p: Paths, wg: string): Promise<void> {
  const path = uapiSocket(p, wg)
  const isFree = async () => !existsSync(path) || (await askUapi(path)) === undefined
  if (!(await until(isFree, GONE_DEADLINE_MS, POLL_MS)))
    throw new NetvmError(`a wireguard-go still serves ${path}`, { next: `fuser ${path}` })
  rmSync(path, { force: true })
}

/** The answer to WireGuard's `get=1`, or undefined when nobody answers. It holds the private key: never print it. */
function askUapi(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect(path)
    const end = (value: string | undefined) => {
      socket.destroy()
      resolve(value)
    }
    socket.setTimeout(1_000, () => end(undefined))
    socket.on('error', () => end(undefined))
    socket.on('connect', () => socket.write('get=1\n\n'))
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (text.endsWith('\n\n')) end(text)
    })
    socket.on('close', () => end(undefined))
  })
}

/**
 * Starts wireguard-go and waits until its interface and its socket are there. It stays when we exit, in our control
 * group. Its standard streams are open for ever, so they are never our pipes: the journal under systemd, else nothing.
 */
async function startWireguardGo(p: Paths, wg: string): Promise<void> {
  const out = process.env.JOURNAL_STREAM === undefined ? 'ignore' : 'inherit'
  const child = spawn('wireguard-go', [wg], {
    // Its own session: a signal for our terminal's foreground group must not reach it.
    detached: true,
    stdio: ['ignore', out, out],
    // Foreground, because its own daemonising prints nine lines of advice at every start.
    env: { PATH: process.env.PATH, LOG_LEVEL: 'error', WG_PROCESS_FOREGROUND: '1' },
  })
  let failure: NetvmError | undefined
  child.on('error', (err: NodeJS.ErrnoException) => {
    const missing = 'this kernel has no WireGuard and wireguard-go is missing'
    if (err.code === 'ENOENT') failure = new NetvmError(missing, { next: 'apt-get install wireguard-go' })
    else failure = new NetvmError(`wireguard-go: ${err.message}`, { next: TUN })
  })
  child.on('exit', (code, signal) => {
    const how = signal ?? `exit ${code}`
    failure ??= new NetvmError(`wireguard-go could not make ${wg} (${how})`, { next: TUN })
  })
  const isThere = async () => failure !== undefined || (await askUapi(uapiSocket(p, wg))) !== undefined
  if (!(await until(isThere, START_DEADLINE_MS, START_POLL_MS))) {
    child.kill('SIGKILL')
    failure = new NetvmError(`wireguard-go did not make ${wg} in ${START_DEADLINE_MS} ms`, { next: TUN })
  }
  if (failure !== undefined) throw failure
  child.removeAllListeners()
  child.unref()
}
