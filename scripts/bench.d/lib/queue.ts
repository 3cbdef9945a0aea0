import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { paths } from '../../../lib/base/paths.ts'
import { queueDepth } from '../../../lib/queue/depth.ts'
import { acquireSlot } from '../../../lib/queue/slot.ts'
import { contend, type Language, readAudit } from '../../../tests/kit/cdp-queue-clients.ts'
import { judge, median, quantile } from './stats.ts'
import { nodeMs } from './status-wall.ts'

const ROUNDS = 500
const KILLS = 20
/** What a start of Node takes here and now: the limits are parts and multiples of it. */
const NODE_MS = nodeMs()
const root = mkdtempSync(join(tmpdir(), 'queue-bench-'))
const p = paths(root)
const met: boolean[] = []

async function acquire(): Promise<void> {
  const times: number[] = []
  for (let i = 0; i < 200; i++) {
    const began = performance.now()
    const slot = await acquireSlot('idle', { p })
    times.push(performance.now() - began)
    slot.release()
  }
  met.push(judge('uncontended acquire, median / node -e 0', median(times) / NODE_MS, 0.25))
  met.push(judge('uncontended acquire, 95th percentile / node -e 0', quantile(times, 0.95) / NODE_MS, 0.25))
}

/** A holder in a process of its own, which says when it is in; returns what kills it. */
async function holder(node: string): Promise<() => void> {
  const slot = JSON.stringify(new URL('../../../lib/queue/slot.ts', import.meta.url).pathname)
  const code = `import { acquireSlot } from ${slot}\nawait acquireSlot('${node}')\nconsole.log('in')\nsetInterval(() => {}, 1000)`
  const child = execa(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], {
    env: { NETVM_ROOT: root },
    stdin: 'ignore',
    stderr: 'inherit',
    reject: false,
  })
  await once(child.stdout, 'data')
  return () => child.kill('SIGKILL')
}

async function killed(): Promise<void> {
  const endOther = await holder('killed')
  const times: number[] = []
  for (let i = 0; i < KILLS; i++) {
    const kill = await holder('killed')
    const next = acquireSlot('killed', { p })
    while (queueDepth(p, 'killed').waiting.length === 0) await new Promise((r) => setTimeout(r, 20))
    // The head of the line reaches for the slots right after it is in line.
    await new Promise((r) => setTimeout(r, 50))
    const began = performance.now()
    kill()
    const slot = await next
    times.push(performance.now() - began)
    slot.release()
  }
  endOther()
  met.push(judge('SIGKILL of a holder to the next inside, median / node -e 0', median(times) / NODE_MS, 2.4))
  met.push(
    judge('SIGKILL of a holder to the next inside, worst / node -e 0', Math.max(...times) / NODE_MS, 2.4),
  )
}

async function stress(languages: readonly Language[]): Promise<void> {
  const w = { root, queue: p.queue, audit: join(root, languages.join('-')) }
  mkdirSync(`${w.queue}/stress`, { recursive: true })
  const began = performance.now()
  await Promise.all(languages.map((l) => contend(w, l, ROUNDS)))
  const { rounds, most } = readAudit(w.audit)
  const lost = languages.length * ROUNDS - Object.values(rounds).reduce((a, b) => a + b, 0)
  const took = ((performance.now() - began) / 1000).toFixed(1)
  process.stdout.write(`${languages.join(', ')}: ${ROUNDS} rounds each in ${took} s\n`)
  met.push(judge('  most inside at once', most, 2), judge('  rounds lost', lost, 0))
}

try {
  await acquire()
  await killed()
  await stress(['node', 'bash', 'python'])
  await stress(['node', 'node', 'node'])
} finally {
  rmSync(root, { recursive: true, force: true })
}
process.exitCode = met.every(Boolean) ? 0 : 1
