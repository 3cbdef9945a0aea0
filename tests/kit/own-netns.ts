import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { TestContext } from 'node:test'

/** A named network namespace of this test's own, with loopback up; deleted after the test. Needs root. */
export function ownNetns(t: TestContext, suffix: string): string {
  const name = `nvt-${process.pid}-${suffix}`
  execFileSync('ip', ['netns', 'add', name])
  t.after(() => execFileSync('ip', ['netns', 'del', name]))
  execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up'])
  return name
}

/** A process in the namespace that runs `script` and prints one line when ready: its pid and that line. */
export async function inside(
  t: TestContext,
  netns: string,
  script: string,
): Promise<{ pid: number; line: string }> {
  const argv = ['netns', 'exec', netns, process.execPath, '-e', script]
  const child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  const [data] = await once(child.stdout, 'data')
  return { pid: child.pid as number, line: String(data).trim() }
}
