import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface FakeProcess {
  readonly pid: number
  readonly argv?: readonly string[]
  readonly comm?: string
  readonly state?: string
  readonly ppid?: number
  readonly startTicks?: number
  readonly netns?: number
  readonly exe?: string
  /** The text of `/proc/<pid>/cgroup`. */
  readonly cgroup?: string
  /** Socket inodes it holds. */
  readonly sockets?: readonly number[]
  readonly tcp?: string
  readonly tcp6?: string
}

export interface FakeProc {
  readonly proc: string
  readonly add: (p: FakeProcess) => void
  readonly remove: () => void
}

/** The inode `/proc/<pid>/ns/pid` shows in the machine's first PID namespace. */
export const INITIAL_PID_NS = 4026531836

/** The rows of /proc/<pid>/net/tcp start with this line. */
export const TCP_HEAD =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode'

/** A process table in a temporary directory: systemd is pid 1, and this process is pid 50. */
export function fakeProc(
  opts: { init?: FakeProcess; self?: number; pidNs?: number; uptime?: number } = {},
): FakeProc {
  const proc = mkdtempSync(join(tmpdir(), 'fake-proc-'))
  const self = opts.self ?? 50
  const add = (p: FakeProcess): void => {
    const dir = join(proc, String(p.pid))
    for (const sub of ['ns', 'fd', 'net']) mkdirSync(join(dir, sub), { recursive: true })
    const comm = p.comm ?? (p.argv?.[0] ?? 'x').split('/').at(-1)?.slice(0, 15)
    const zeros = '0 '.repeat(17).trim()
    const stat = `${p.pid} (${comm}) ${p.state ?? 'S'} ${p.ppid ?? 1} ${zeros} ${p.startTicks ?? 1000} 0 0\n`
    writeFileSync(join(dir, 'stat'), stat)
    writeFileSync(join(dir, 'cmdline'), (p.argv ?? []).map((a) => `${a}\0`).join(''))
    symlinkSync(`net:[${p.netns ?? 1}]`, join(dir, 'ns/net'))
    symlinkSync(`pid:[${opts.pidNs ?? INITIAL_PID_NS}]`, join(dir, 'ns/pid'))
    if (p.exe !== undefined) symlinkSync(p.exe, join(dir, 'exe'))
    if (p.cgroup !== undefined) writeFileSync(join(dir, 'cgroup'), p.cgroup)
    p.sockets?.forEach((inode, i) => {
      symlinkSync(`socket:[${inode}]`, join(dir, 'fd', String(i + 3)))
    })
    if (p.tcp !== undefined) writeFileSync(join(dir, 'net/tcp'), p.tcp)
    if (p.tcp6 !== undefined) writeFileSync(join(dir, 'net/tcp6'), p.tcp6)
  }
  add(opts.init ?? { pid: 1, argv: ['/lib/systemd/systemd'], comm: 'systemd', ppid: 0 })
  add({ pid: self, argv: ['node', 'us'], ppid: 1 })
  symlinkSync(String(self), join(proc, 'self'))
  writeFileSync(join(proc, 'uptime'), `${opts.uptime ?? 100}.00 5.00\n`)
  return { proc, add, remove: () => rmSync(proc, { recursive: true, force: true }) }
}
