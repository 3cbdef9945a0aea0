import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { fileURLToPath } from 'node:url'
import { DEFAULTS } from '../../../lib/base/config.ts'
import { scaledSeconds } from '../unit.ts'
import { ok, sh, until } from './run.ts'

const SITE_SERVER = fileURLToPath(new URL('./site-server.mjs', import.meta.url))

/** How the site of a node behaves; what is absent is well. */
export interface SiteControl {
  readonly title?: string
  /** How long a page is kept back; a page that waits comes when this no longer says so. */
  readonly delayMs?: number
  readonly api?: {
    readonly status?: number
    readonly delayMs?: number
    readonly never?: boolean
    /** Where `/api/health` leads instead. */
    readonly redirect?: string
  }
}

/** Writes a unit file or drop-in below /etc/systemd/system; the caller reloads. */
export function writeUnit(path: string, text: string): void {
  const file = `/etc/systemd/system/${path}`
  mkdirSync(file.slice(0, file.lastIndexOf('/')), { recursive: true })
  writeFileSync(file, text)
}

/** Puts a drop-in on units (`unit: text`) while `what` runs, and takes it back whatever comes of it. */
export async function withDropIns<T>(texts: Record<string, string>, what: () => T | Promise<T>): Promise<T> {
  const paths = Object.keys(texts).map((unit) => `${unit}.d/zz-lab-test.conf`)
  for (const [unit, text] of Object.entries(texts)) writeUnit(`${unit}.d/zz-lab-test.conf`, text)
  ok(['systemctl', 'daemon-reload'])
  try {
    return await what()
  } finally {
    for (const path of paths) rmSync(`/etc/systemd/system/${path}`, { force: true })
    ok(['systemctl', 'daemon-reload'])
  }
}

/**
 * Puts a chat site on the loopback of every node's namespace, port 8080, started with the browser and
 * before it. It survives a reboot of the lab.
 */
export function installSites(): void {
  mkdirSync('/var/lib/lab-site', { recursive: true })
  writeUnit(
    'lab-site@.service',
    `[Unit]
BindsTo=netvm-netns@%i.service
After=netvm-netns@%i.service
[Service]
NetworkNamespacePath=/run/netns/warp-%i
ExecStart=/usr/bin/env node ${SITE_SERVER} /var/lib/lab-site/%i.json
ExecStartPost=/bin/bash -c 'for i in $(seq 4000); do (: </dev/tcp/127.0.0.1/8080) 2>/dev/null && exit 0; sleep 0.05; done; exit 1'
`,
  )
  writeUnit(
    'chromebox@.service.d/lab-site.conf',
    '[Unit]\nWants=lab-site@%i.service\nAfter=lab-site@%i.service\n',
  )
  ok(['systemctl', 'daemon-reload'])
}

/** Changes how the node's site behaves, from its next request on. */
export function setSite(node: string, control: SiteControl): void {
  mkdirSync('/var/lib/lab-site', { recursive: true })
  writeFileSync(`/var/lib/lab-site/${node}.json`, JSON.stringify(control))
}

/**
 * A value as it is written: seconds are those of a quick machine (tests/kit/unit.ts), but never more than what the
 * product ships with, which is made for slow hosts; counts stay as they are, and so does what is longer than that.
 */
function setting(key: string, value: string | number): string | number {
  const field = key
    .replace(/^NETVM_/, '')
    .toLowerCase()
    .replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase())
  const shipped = Object.entries(DEFAULTS).find(([name]) => name === `${field}Ms`)?.[1]
  if (typeof value !== 'number' || typeof shipped !== 'number') return value
  return Math.min(scaledSeconds(value), Math.max(value, shipped / 1000))
}

/**
 * Replaces /etc/netvm/netvm.env. Numbers that are seconds are those of a quick machine and are written as this
 * machine's (see `setting`); a text is written as it is.
 */
export function writeConfig(values: Record<string, string | number>): void {
  const lines = Object.entries(values).map(([key, value]) => `${key}=${setting(key, value)}`)
  writeFileSync('/etc/netvm/netvm.env', `${lines.join('\n')}\n`)
}

/** Makes a timer fire every `quick` seconds of a quick machine instead of at its own cadence; a running one starts anew. */
export function cadence(timer: string, quick: number): void {
  const seconds = scaledSeconds(quick)
  // An empty assignment resets every monotonic setting of the timer, its own cadence included.
  writeUnit(
    `${timer}.d/zz-lab.conf`,
    `[Timer]\nOnActiveSec=\nOnActiveSec=${seconds}\nOnUnitActiveSec=${seconds}\nAccuracySec=100ms\n`,
  )
  ok(['systemctl', 'daemon-reload'])
  if (sh(['systemctl', 'is-active', timer]).code === 0) ok(['systemctl', 'restart', timer])
}

/** Keeps the timers of a node (and the fleet's) from firing, so that a test decides when a tick runs. */
export function stopTimers(node?: string): void {
  const timers = ['cdp-relay-watchdog.timer', 'agent-health.timer']
  if (node !== undefined) timers.push(`chromebox-watchdog@${node}.timer`)
  sh(['systemctl', 'stop', ...timers])
}

/** Makes a node with a real Chromium on its own site, title `Chat` unless told otherwise. */
export function nodeUp(
  node: string,
  options: { title?: string; url?: string; args?: readonly string[]; deadlineMs?: number } = {},
): string {
  if (!existsSync('/etc/systemd/system/lab-site@.service')) installSites()
  if (!existsSync(`/var/lib/lab-site/${node}.json`)) setSite(node, { title: options.title ?? 'Chat' })
  const url = options.url ?? 'http://127.0.0.1:8080/'
  const args = ['--title', options.title ?? 'Chat', '--url', url, ...(options.args ?? [])]
  return bringUp(node, args, options.deadlineMs)
}

/** `netvm-node-up` with these arguments and nothing around it; what it printed. */
export function bringUp(node: string, args: readonly string[], deadlineMs = 90_000): string {
  const run = sh(['netvm-node-up', node, ...args], { deadlineMs })
  // A cadence slower than the release's is told, as it should be, and is the lab's own.
  const left = run.all.split('\n').filter((line) => /^\s*(left\b|.*NOT OK)/.test(line))
  const slow = left.length > 0 && left.every((line) => /from one run to the next.*zz-lab\.conf/.test(line))
  if (run.code !== 0 && !(run.code === 1 && slow)) {
    throw new Error(`netvm-node-up ${node} ended with ${run.code ?? run.error}:\n${run.all}`)
  }
  return run.stdout.replace(/\n$/, '')
}

/** Runs one tick of a node's watchdog as its timer would, and waits for its end. */
export function tick(node: string): { result: string; status: string } {
  const unit = `chromebox-watchdog@${node}.service`
  sh(['systemctl', 'start', unit], { deadlineMs: 150_000 })
  const shown = ok(['systemctl', 'show', '-p', 'Result,ExecMainStatus', unit])
  return {
    result: /^Result=(.*)$/m.exec(shown)?.[1] ?? '',
    status: /^ExecMainStatus=(.*)$/m.exec(shown)?.[1] ?? '',
  }
}

export interface BrowserIdentity {
  readonly pid: number
  readonly startTicks: string
}

/** The main browser process of a node, found by its own argv, or undefined. Independent of the product's code. */
export function browser(node: string): BrowserIdentity | undefined {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
      if (!argv.includes(`--user-data-dir=/var/lib/chromebox/${node}`)) continue
      if (argv.some((token) => token.startsWith('--type='))) continue
      if (!/chrom/.test(readlinkSync(`/proc/${pid}/exe`))) continue
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (fields[0] === 'Z') continue
      return { pid: Number(pid), startTicks: fields[19] ?? '' }
    } catch {
      // The process ended while we looked.
    }
  }
  return undefined
}

/** Milliseconds since the node's browser was started, or 0 when there is none. Clock ticks are 1/100 s on Linux. */
export function browserAgeMs(node: string): number {
  const found = browser(node)
  const uptime = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0])
  return found === undefined ? 0 : uptime * 1000 - Number(found.startTicks) * 10
}

/** The titles of the node's pages as its own DevTools port lists them, or undefined when it does not answer. */
export function titles(node: string): string[] | undefined {
  const port = /^CDP_PORT='?(\d+)'?$/m.exec(readFileSync(`/etc/netvm/nodes/${node}.env`, 'utf8'))?.[1] ?? ''
  const asked = sh(
    [
      ...['ip', 'netns', 'exec', `warp-${node}`, 'curl', '-sS', '-m', String(scaledSeconds(2))],
      `http://127.0.0.1:${port}/json/list`,
    ],
    { deadlineMs: 5000 },
  )
  if (asked.code !== 0) return undefined
  const targets = JSON.parse(asked.stdout) as { type?: string; title?: string }[]
  return targets.filter((target) => target.type === 'page').map((target) => target.title ?? '')
}

/** Waits until the node's browser lists a page with the title. */
export async function untilTitled(node: string, title = 'Chat', deadlineMs = 30_000): Promise<void> {
  await until(`${node} lists a page titled ${title}`, () => titles(node)?.includes(title), deadlineMs)
}
