import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scaledSeconds } from './unit.ts'
import { until } from './until.ts'

const BUNDLE = new URL('../../dist/chromebox-watchdog', import.meta.url).pathname
const BROWSER = new URL('./fake-browser.mjs', import.meta.url).pathname

/** Every program that the watchdog may call, but curl and flock, which are the real ones. */
const PROGRAMS: Record<string, string> = {
  // `ip netns exec <netns> <argv…>`: the namespace of this host is the test's own.
  ip: 'shift 3; echo "ip $1" >> "$HOST_CALLS"; exec "$@"',
  logger: 'echo logger >> "$HOST_CALLS"; cat >> "$HOST/journal"',
  journalctl: 'echo "journalctl" >> "$HOST_CALLS"; cat "$HOST/printed" 2>/dev/null; exit 0',
  systemctl: `
words=(); for w; do case $w in --no-ask-password|--no-pager|--) ;; *) words+=("$w");; esac; done
verb=\${words[0]}; unit=\${words[-1]}
echo "systemctl $verb $unit" >> "$HOST_CALLS"
pid=$(cat "$HOST/main.pid" 2>/dev/null)
alive() { [ -n "$pid" ] && [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; }
case $verb in
  show)
    echo "Id=$unit"
    if alive; then printf 'ActiveState=active\\nMainPID=%s\\n' "$pid"
    else printf 'ActiveState=failed\\nMainPID=0\\n'; cat "$HOST/ended" 2>/dev/null; fi ;;
  stop) if alive; then kill -CONT "$pid"; kill -TERM "$pid"; while alive; do sleep 0.02; done; fi ;;
  start) "$HOST/start" ;;
esac
exit 0`,
}

const UNDER_TIMER = { INVOCATION_ID: 'test', SYSTEMD_EXEC_PID: '' }

export interface Ran {
  code: number | null
  out: string
  err: string
}

/** A host in a temporary folder: registry, configuration, a process table of its own, stub programs. */
export class Host {
  readonly dir = mkdtempSync(join(tmpdir(), 'chromebox-host-'))
  readonly port: number
  private running: ChildProcess[] = []

  private constructor(port: number) {
    this.port = port
    for (const d of ['etc/netvm', 'run/netns', 'run/netvm', 'bin', 'proc/1', 'var/lib/chromebox/muse']) {
      mkdirSync(join(this.dir, d), { recursive: true })
    }
    for (const [name, body] of Object.entries(PROGRAMS)) this.program(`bin/${name}`, body)
    // The browser of this host is a script of node.
    mkdirSync(join(this.dir, 'usr/lib/chromium'), { recursive: true })
    symlinkSync(process.execPath, join(this.dir, 'usr/lib/chromium/chromium'))
    this.write('proc/1/stat', '1 (systemd) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0')
    this.write('proc/1/cmdline', '/sbin/init\0')
    symlinkSync('4194304', join(this.dir, 'proc/self'))
    this.write('run/netvm/boot-id', 'b0071d\n')
    this.uptime(0)
    symlinkSync('/proc/self/ns/net', join(this.dir, 'run/netns/warp-muse'))
    this.registry()
    this.config({})
    this.onStart({})
  }

  static async make(): Promise<Host> {
    return new Host(await freePort())
  }

  write(path: string, text: string): void {
    mkdirSync(join(this.dir, path, '..'), { recursive: true })
    writeFileSync(join(this.dir, path), text)
  }

  read(path: string): string {
    const file = join(this.dir, path)
    return existsSync(file) ? readFileSync(file, 'utf8') : ''
  }

  has(path: string): boolean {
    return existsSync(join(this.dir, path))
  }

  program(path: string, body: string): void {
    this.write(path, `#!/bin/bash\n${body}\n`)
    chmodSync(join(this.dir, path), 0o755)
  }

  registry(status = 'active', extra = ''): void {
    this.write(
      'etc/netvm/NODES.md',
      `| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status | Chat URL | Chat Title |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| muse | a | warp-muse | ${this.port} | 10.201.35.1 | 10.201.35.2 | 127.0.0.1:${this.port} | ${status} | http://127.0.0.1/ | Muse |
${extra}`,
    )
  }

  config(over: Record<string, string | number>): void {
    // Only what does not answer, or does not end, takes all of these; a browser that comes up is seen at once. A run has
    // 104 s on every machine and begins no relaunch that may not fit into what is left, so there is an end to slowness:
    // two probes in vain (20 s), a stop (18 s) and four intervals (40 s) leave room for what a slow machine adds.
    const atMost = (most: number, seconds: number) => Math.min(most, scaledSeconds(seconds))
    const short = {
      NETVM_PROBE_DEADLINE: atMost(10, 3),
      NETVM_INNER_DEADLINE: atMost(10, 2),
      NETVM_CONFIRM_DELAY: 0.1,
      NETVM_RELAUNCH_INTERVAL: atMost(10, 5),
      NETVM_STOP_GRACE: atMost(10, 5),
    }
    const lines = Object.entries({ ...short, ...over }).map(([k, v]) => `${k}=${v}`)
    this.write('etc/netvm/netvm.env', `${lines.join('\n')}\n`)
  }

  /** Moves the boot clock, and with it the age of every process, forward by `seconds`. */
  uptime(seconds: number): void {
    const now = Number.parseFloat(readFileSync('/proc/uptime', 'utf8'))
    this.write('proc/uptime', `${(now + seconds).toFixed(2)} 0.00\n`)
  }

  /** What `systemctl start` brings up; `none` starts nothing that stays. */
  onStart(how: { title?: string; mode?: string; none?: boolean }): void {
    if (how.none) {
      this.program('start', 'exit 0')
      return
    }
    const argv = `"$HOST/var/lib/chromebox/muse" ${this.port} "${how.title ?? 'Muse'}" ${how.mode ?? 'well'}`
    this.program(
      'start',
      `"${process.execPath}" "${BROWSER}" "--user-data-dir=$HOST/var/lib/chromebox/muse" ${argv} >/dev/null 2>&1 </dev/null &
echo $! > "$HOST/main.pid"; ln -s "/proc/$!" "$HOST/proc/$!"`,
    )
  }

  /** Starts the browser as the unit would, and waits until it listens. */
  async browser(how: { title?: string; mode?: string } = {}): Promise<number> {
    this.onStart(how)
    spawnSync(join(this.dir, 'start'), { env: this.env() })
    await until('the browser listens', () => this.has('var/lib/chromebox/muse/ready'))
    return Number(this.read('main.pid'))
  }

  run(args: readonly string[] = ['muse'], env: Record<string, string> = UNDER_TIMER): Promise<Ran> {
    return this.start(args, env).done
  }

  start(args: readonly string[] = ['muse'], env: Record<string, string> = UNDER_TIMER) {
    const child = spawn(process.execPath, [BUNDLE, ...args], {
      env: { ...this.env(), ...env },
      stdio: 'pipe',
    })
    this.running.push(child)
    let out = ''
    let err = ''
    child.stdout.on('data', (b) => {
      out += b
    })
    child.stderr.on('data', (b) => {
      err += b
    })
    const done = new Promise<Ran>((resolve) => child.on('close', (code) => resolve({ code, out, err })))
    return { child, done }
  }

  /** Programs called since the last time this was asked. */
  calls(): string[] {
    const text = this.read('calls')
    this.write('calls', '')
    return text.split('\n').filter((l) => l !== '')
  }

  log(): string {
    return this.read('var/log/netvm/chromebox-watchdog.log')
  }

  receipt() {
    return JSON.parse(this.read('run/netvm/receipts/chromebox-watchdog/muse.json'))
  }

  state() {
    return JSON.parse(this.read('var/lib/netvm/chromebox-watchdog/muse.json'))
  }

  setState(state: object): void {
    const base = { version: 1, bootId: 'b0071d', failures: 0, quickDeaths: 0, attempts: [] }
    this.write('var/lib/netvm/chromebox-watchdog/muse.json', JSON.stringify({ ...base, ...state }))
  }

  nowBootMs(): number {
    return Math.round(Number.parseFloat(this.read('proc/uptime')) * 1000)
  }

  env(): Record<string, string> {
    return {
      PATH: `${join(this.dir, 'bin')}:/usr/local/bin:/usr/bin:/bin`,
      HOST: this.dir,
      HOST_CALLS: join(this.dir, 'calls'),
      NETVM_ROOT: this.dir,
      NETVM_PROC: join(this.dir, 'proc'),
    }
  }

  close(): void {
    for (const b of this.running) if (b.exitCode === null) b.kill('SIGKILL')
    const pid = Number(this.read('main.pid'))
    if (pid > 0 && readFileOr(`/proc/${pid}/cmdline`).includes(this.dir)) process.kill(pid, 'SIGKILL')
    rmSync(this.dir, { recursive: true, force: true })
  }
}

function readFileOr(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
