import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ifNames } from '../../lib/registry/names.ts'
import { proved, receipt } from './truth-model.ts'
import { patience, scaledSeconds } from './unit.ts'
import { until } from './until.ts'

export const PORT = 9410
const { veth, vpeer } = ifNames('muse')
export const VETH = veth
const dist = (name: string) => fileURLToPath(new URL(`../../dist/${name}`, import.meta.url))

/** A browser's `/json/version` on an address inside the node's namespace, or a silence. */
const STAND_IN = `const [host,port,mode]=process.argv.slice(1);
const body=JSON.stringify({Browser:'Chrome/156',webSocketDebuggerUrl:'ws://'+host+':'+port+'/devtools/browser/x'});
require('net').createServer(s=>{s.on('error',()=>{});if(mode==='well')s.once('data',()=>s.end('HTTP/1.1 200 OK\\r\\nContent-Length: '+body.length+'\\r\\n\\r\\n'+body))
}).listen(port,host,()=>console.log('ready'))`

const PROVED = receipt('chromebox-watchdog', undefined, { extra: proved('x') })

/** systemd as the relay supervisor sees it: the state in a file, every call in another. */
const SYSTEMCTL = `echo "$*" >> "$WORLD/calls"
words=(); for w; do case $w in -*) ;; *) words+=("$w");; esac; done
case \${words[0]} in
  show) for unit in "\${words[@]:1}"; do
    echo "Id=$unit"; echo LoadState=loaded
    case $unit in *.socket) cat "$WORLD/socket" ;; *) printf 'ActiveState=inactive\\nResult=success\\n' ;; esac; echo
  done ;;
  restart) [ -e "$WORLD/restart" ] && exec "$WORLD/restart" ;;
esac
exit 0`

/**
 * A network of its own with one node: a real namespace, veth and addresses, the real ip and curl; systemctl
 * and logger are stand-ins. Needs root. Gone after the test.
 */
export class World {
  readonly dir = mkdtempSync(join(tmpdir(), 'netvm-relay-'))
  private readonly root: ChildProcess
  private readonly children: ChildProcess[] = []

  private constructor(t: TestContext, root: ChildProcess) {
    this.root = root
    t.after(() => {
      for (const child of this.children) child.kill('SIGKILL')
      root.kill('SIGKILL')
      rmSync(this.dir, { recursive: true, force: true })
    })
  }

  static async make(t: TestContext): Promise<World> {
    const setUp = `set -e; mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns; ip link set lo up; ip netns add warp-muse
ip link add ${veth} type veth peer name ${vpeer} netns warp-muse; ip link set ${veth} up; ip addr add 10.201.35.1/30 dev ${veth}
ip -n warp-muse link set lo up; ip -n warp-muse addr add 10.201.35.2/30 dev ${vpeer}; ip -n warp-muse link set ${vpeer} up
echo ready; exec sleep 600`
    const root = spawn('unshare', ['-mn', '--propagation', 'private', 'bash', '-c', setUp], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const world = new World(t, root)
    await ready(root)
    for (const sub of ['etc/netvm', 'run', 'bin']) mkdirSync(join(world.dir, sub), { recursive: true })
    spawnSync('ln', ['-s', '/run/netns', join(world.dir, 'run/netns')])
    mkdirSync(join(world.dir, 'usr/lib/chromium'), { recursive: true })
    symlinkSync(process.execPath, join(world.dir, 'usr/lib/chromium/chromium'))
    // The last run of chromebox-watchdog has proved whose browser it is that answers.
    mkdirSync(join(world.dir, 'run/netvm/receipts/chromebox-watchdog'), { recursive: true })
    world.write('run/netvm/receipts/chromebox-watchdog/muse.json', JSON.stringify(PROVED))
    world.program('bin/systemctl', SYSTEMCTL)
    world.program('bin/logger', 'cat >> "$WORLD/journal"')
    world.socket('active')
    world.registry()
    world.write(
      'etc/netvm/netvm.env',
      `NETVM_PROBE_DEADLINE=${scaledSeconds(5)}\nNETVM_INNER_DEADLINE=${scaledSeconds(2)}\n`,
    )
    return world
  }

  write(path: string, text: string): void {
    writeFileSync(join(this.dir, path), text)
  }

  read(path: string): string {
    const file = join(this.dir, path)
    return existsSync(file) ? readFileSync(file, 'utf8') : ''
  }

  get log(): string {
    return this.read('var/log/netvm/cdp-relay-watchdog.log').replace(/^\S+ /gm, '')
  }

  /** The calls of systemctl that change something. */
  get jobs(): string[] {
    const calls = this.read('calls').split('\n')
    return calls.filter((c) => c !== '' && !c.startsWith('show')).map((c) => c.replace(/--\S* ?/g, '').trim())
  }

  get receipt(): {
    verdict: { state: string; code: string; evidence: string[] }
    actions: { kind: string; helped: boolean }[]
    layers: { layer: string; state: string }[]
  } {
    return JSON.parse(this.read('run/netvm/receipts/cdp-relay-watchdog/muse.json'))
  }

  program(path: string, body: string): void {
    this.write(path, `#!/bin/bash\n${body}\n`)
    chmodSync(join(this.dir, path), 0o755)
  }

  registry(extra = ''): void {
    this.write(
      'etc/netvm/NODES.md',
      `| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status |
|---|---|---|---|---|---|---|---|
| muse | a | warp-muse | ${PORT} | 10.201.35.1 | 10.201.35.2 | 127.0.0.1:${PORT} | active |
${extra}`,
    )
  }

  /** What systemd says of the relay's socket. */
  socket(active: string, result = 'success'): void {
    this.write(
      'socket',
      `ActiveState=${active}\nSubState=x\nResult=${result}\nListen=10.201.35.2:${PORT} (Stream)\n`,
    )
  }

  /** Runs a command in this network. */
  sh(command: string): void {
    // No stdin: bash takes one of Node's pipes for a remote shell's and reads ~/.bashrc.
    const ran = spawnSync('nsenter', ['-t', String(this.root.pid), '-m', '-n', 'bash', '-c', command], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    if (ran.status !== 0) throw new Error(`${command}: ${ran.stderr}`)
  }

  /** A listener inside the node's namespace; its pid. */
  async listen(host: '127.0.0.1' | '10.201.35.2', mode: 'well' | 'silent'): Promise<number> {
    const argv = [
      '-t',
      String(this.root.pid),
      '-m',
      '-n',
      'ip',
      'netns',
      'exec',
      'warp-muse',
      process.execPath,
      '-e',
      STAND_IN,
      host,
      String(PORT),
      mode,
      // The one on loopback is the node's browser, by its profile and by the program that is installed here.
      ...(host === '127.0.0.1' ? [`--user-data-dir=${this.dir}/var/lib/chromebox/muse`] : []),
    ]
    const child = spawn('nsenter', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.children.push(child)
    await ready(child)
    return child.pid as number
  }

  /** Puts a process into the control group of a unit, as systemd would have started it there. */
  inUnit(t: TestContext, pid: number, unit: string): void {
    const hierarchy = existsSync('/sys/fs/cgroup/systemd') ? '/sys/fs/cgroup/systemd' : '/sys/fs/cgroup'
    const slice = join(hierarchy, `netvm-test-${pid}`)
    mkdirSync(join(slice, unit), { recursive: true })
    writeFileSync(join(slice, unit, 'cgroup.procs'), String(pid))
    t.after(async () => {
      for (const child of this.children) child.kill('SIGKILL')
      const empty = () => readFileSync(join(slice, unit, 'cgroup.procs'), 'utf8') === ''
      await until('the control group is empty', empty)
      for (const dir of [join(slice, unit), slice]) rmdirSync(dir)
    })
  }

  /** What `systemctl restart` of the socket brings up: a relay that answers. */
  restartHelps(): void {
    this.write('stand-in.js', STAND_IN.replace('process.argv.slice(1)', 'process.argv.slice(2)'))
    this.program(
      'restart',
      `ip netns exec warp-muse "${process.execPath}" "$WORLD/stand-in.js" 10.201.35.2 ${PORT} well >/dev/null 2>&1 </dev/null & echo $! >> "$WORLD/pids"`,
    )
  }

  /** Runs the built bundle, as its timer does unless `env` says otherwise. */
  run(
    program: string,
    args: readonly string[] = [],
    env: Record<string, string> = {},
    as: readonly string[] = [],
  ) {
    const vars = {
      WORLD: this.dir,
      NETVM_ROOT: this.dir,
      INVOCATION_ID: 'test',
      SYSTEMD_EXEC_PID: '',
      PATH: `${join(this.dir, 'bin')}:${process.env.PATH}`,
      ...env,
    }
    const argv = [
      '-t',
      String(this.root.pid),
      '-m',
      '-n',
      ...as,
      'env',
      ...Object.entries(vars).map(([k, v]) => `${k}=${v}`),
      process.execPath,
      dist(program),
      ...args,
    ]
    const ran = spawnSync('nsenter', argv, { encoding: 'utf8', timeout: patience(30_000) })
    for (const pid of this.read('pids')
      .split('\n')
      .filter((x) => x !== ''))
      this.leftover(Number(pid))
    return { code: ran.status, out: ran.stdout, err: ran.stderr }
  }

  private leftover(pid: number): void {
    if (this.children.some((c) => c.pid === pid)) return
    this.children.push({ pid, kill: () => killed(pid) } as unknown as ChildProcess)
  }
}

function killed(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false
  }
}

async function ready(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve())
    child.once('exit', (code) => reject(new Error(`ended with ${code}`)))
  })
}
