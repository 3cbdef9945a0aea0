import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { execa } from 'execa'
import type { Receipt } from '../../../lib/base/types.ts'
import { browser, logText, nodeUp, ok, setSite, stopTimers, untilTitled, writeConfig } from '../lab.ts'
import { untilOlder } from './browser.ts'

/** Windows of a lab that has minutes, not hours. Seconds. */
export const SHORT = {
  NETVM_FRESH_BROWSER: 1,
  NETVM_PROBE_DEADLINE: 2,
  NETVM_API_DEADLINE: 2,
  NETVM_STOP_GRACE: 3,
  NETVM_CONFIRM_DELAY: 0.2,
}

/** A node whose API is checked, looked at only when a test says so. */
export async function apiNode(node: string, more: Record<string, number> = {}): Promise<void> {
  writeConfig({ ...SHORT, ...more })
  setSite(node, { title: 'Chat' })
  nodeUp(node, { args: ['--api', '/api/health'] })
  await untilTitled(node)
  stopTimers(node)
  await grown(node)
}

/** Waits until the fresh-browser guard of the lab's configuration lets go. */
export async function grown(node: string): Promise<void> {
  await untilOlder(node)
}

export interface Run {
  readonly code: number | null
  readonly err: string
  readonly of: (node: string) => Receipt & { readonly decided: { readonly kind: string } }
}

/** Starts one run of agent-health without blocking this process, which may break things meanwhile. */
export function start(args: readonly string[] = []): { pid: number; done: Promise<Run> } {
  const child = execa('agent-health', ['--json', ...args], { stdin: 'ignore', reject: false })
  const done = child.then(({ exitCode: code = null, stdout, stderr }): Run => {
    const receipts = (code === null ? [] : JSON.parse(stdout || '[]')) as ReturnType<Run['of']>[]
    const of = (node: string) => {
      const found = receipts.find((r) => r.node === node)
      if (!found) throw new Error(`no receipt of ${node} (exit ${code}): ${stdout}${stderr}`)
      return found
    }
    return { code, err: stderr, of }
  })
  return { pid: child.pid ?? 0, done }
}

export const check = (...args: string[]): Promise<Run> => start(args).done

export interface Memory {
  readonly strikes: number
  readonly futile: number
  readonly openedAt: { readonly bootMs: number } | null
  readonly pending: string
}

export const STATE = (node: string): string => `/var/lib/netvm/agent-health/${node}.json`

export function memory(node: string): Memory {
  const none: Memory = { strikes: 0, futile: 0, openedAt: null, pending: 'none' }
  return existsSync(STATE(node)) ? JSON.parse(readFileSync(STATE(node), 'utf8')) : none
}

/** agent-health's log lines of a node since `mark` (a length of its log). */
export function linesSince(mark: number, node: string): string[] {
  return logText('agent-health')
    .slice(mark)
    .split('\n')
    .filter((line) => line.includes(` [${node}] `))
}

export const reset = (node: string): string => ok(['agent-health', 'reset', node])

/** Pids of the node's renderers: descendants of its own browser, never found by name alone. */
export function renderers(node: string): number[] {
  const parents = new Map<number, number>()
  for (const pid of readdirSync('/proc')
    .filter((n) => /^\d+$/.test(n))
    .map(Number)) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      parents.set(pid, Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
    } catch {}
  }
  const main = browser(node)?.pid
  const below = (pid: number): boolean => {
    const parent = parents.get(pid)
    return parent !== undefined && parent > 1 && (parent === main || below(parent))
  }
  return [...parents.keys()].filter((pid) => {
    try {
      return below(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--type=renderer')
    } catch {
      return false
    }
  })
}
