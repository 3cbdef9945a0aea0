import { existsSync, writeFileSync } from 'node:fs'
import { sleep } from '../base/deadline.ts'
import { NetvmError } from '../base/errors.ts'
import { EXIT } from '../base/exit-codes.ts'
import { textOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { ExecError, run, runOk } from '../host/exec.ts'
import { IP_DEADLINE_MS, ipBatch } from '../host/netns.ts'
import { enter, lookNetwork, netnsFile } from './look.ts'
import { describeStep, firewall, type NetworkWant, planUp, type Step } from './plan.ts'
import { writeResolv } from './resolv.ts'

/**
 * Deleting a veth is asynchronous: its name stays taken for a moment. 40 tries, 50 ms apart, are far more
 * than the kernel needs and far less than the unit's start timeout.
 */
const PAIR_TRIES = 40
const PAIR_RETRY_MS = 50

/**
 * Makes, finishes or repairs a node's network by what is really there, and writes its resolver file.
 * Returns one line per thing it did; none when all was there. Throws NetvmError with the command to run
 * when something stands in the way that only a person should remove.
 */
export async function networkUp(p: Paths, want: NetworkWant): Promise<string[]> {
  const plan = planUp(want, await lookNetwork(p, want))
  if (plan.kind === 'refuse') throw new NetvmError(plan.why, { exitCode: EXIT.UNHEALTHY, next: plan.next })
  const done = writeResolv(p, want.node, want.netns) ? [`wrote the resolvers of ${want.netns}`] : []
  // Consecutive steps of one place go to one `ip -batch`: a reboot brings many nodes up on few cores.
  let batch: { where: Place; lines: string[] } | undefined
  const flush = async () => {
    if (batch) await ipBatch(batch.where === 'inside' ? want.netns : undefined, batch.lines)
    batch = undefined
  }
  for (const step of plan.steps) {
    const where = placeOf(step)
    const { text, lines } = describeStep(step, want)
    if (step.kind === 'add-pair') {
      await flush()
      await addPair(want, lines)
    } else if (lines.length === 0) {
      await flush()
      await otherStep(p, step, want)
    } else {
      if (batch?.where !== where) await flush()
      batch ??= { where, lines: [] }
      batch.lines.push(...lines)
    }
    done.push(text)
  }
  await flush()
  return done
}

/**
 * Removes the pair and the namespace, by what is there. The resolver file stays: a browser that is still
 * stopping has it bound. Returns one line per thing removed.
 */
export async function networkDown(p: Paths, want: NetworkWant): Promise<string[]> {
  const done: string[] = []
  // The pair first: deleting a namespace that still has processes would leave it behind.
  if (existsSync(`/sys/class/net/${want.veth}`)) {
    await tolerate(['ip', 'link', 'del', want.veth], /Cannot find device/)
    done.push(`removed ${want.veth}`)
  }
  const file = netnsFile(p, want.netns)
  if (file === 'namespace') {
    await tolerate(['ip', 'netns', 'del', want.netns], /No such file/)
    done.push(`removed namespace ${want.netns}`)
  }
  if (file === 'not-a-namespace') {
    throw new NetvmError(`/run/netns/${want.netns} is a plain file, not a namespace`, {
      exitCode: EXIT.UNHEALTHY,
      next: `rm /run/netns/${want.netns}`,
    })
  }
  return done
}

/** Processes inside the node's namespace; empty when there is no namespace. */
export async function inhabitants(p: Paths, want: NetworkWant): Promise<{ pid: number; comm: string }[]> {
  if (netnsFile(p, want.netns) !== 'namespace') return []
  const result = await runOk(['ip', 'netns', 'pids', want.netns], { deadlineMs: IP_DEADLINE_MS })
  return result.stdout
    .split('\n')
    .map(Number)
    .filter((pid) => pid > 1)
    .map((pid) => ({ pid, comm: textOf(`${p.proc}/${pid}/comm`)?.trim() ?? '?' }))
}

type Place = 'host' | 'inside'

function placeOf(step: Step): Place {
  if ('where' in step) return step.where
  return step.kind === 'lo-up' || step.kind === 'delete-stray-peer' ? 'inside' : 'host'
}

async function addPair(want: NetworkWant, lines: readonly string[]): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await ipBatch(undefined, lines)
    } catch (err) {
      const taken = err instanceof ExecError && /File exists/.test(err.result.stderr)
      if (!taken || tries === PAIR_TRIES) throw err
    }
    await run(['ip', 'link', 'del', want.veth], { deadlineMs: IP_DEADLINE_MS })
    await sleep(PAIR_RETRY_MS)
  }
}

async function otherStep(p: Paths, step: Step, want: NetworkWant): Promise<void> {
  if (step.kind === 'firewall') {
    const argv = enter(p, want.netns, ['nft', '-f', '-'])
    await runOk(argv, { deadlineMs: IP_DEADLINE_MS, input: firewall(want), next: 'dmesg | tail -n 20' })
  } else if (step.kind === 'ipv6-off') {
    const file = (dev: string) => `/proc/sys/net/ipv6/conf/${dev}/disable_ipv6`
    // A kernel without IPv6 has no such directory, and nothing to turn off.
    if (!existsSync('/proc/sys/net/ipv6')) return
    if (step.where === 'host') return writeFileSync(file(want.veth), '1\n')
    const argv = enter(p, want.netns, ['tee', file(want.vpeer)])
    await runOk(argv, { deadlineMs: IP_DEADLINE_MS, input: '1\n' })
  }
}

async function tolerate(argv: readonly string[], gone: RegExp): Promise<void> {
  const result = await run(argv, { deadlineMs: IP_DEADLINE_MS })
  if (result.code !== 0 && !gone.test(result.stderr))
    throw new ExecError(result, { deadlineMs: IP_DEADLINE_MS })
}
