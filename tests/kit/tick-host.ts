import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { TestContext } from 'node:test'
import { DEFAULTS } from '../../lib/base/config.ts'
import { type Paths, receiptPath, statePath } from '../../lib/base/paths.ts'
import type { Receipt, Verdict } from '../../lib/base/types.ts'
import { deadlineIn } from '../../lib/browser/deadline.ts'
import type { Line } from '../../lib/report/line.ts'
import { HEALTHY, verdict } from '../../lib/report/verdict.ts'
import type { FleetSupervisor } from '../../lib/supervisors/fleet.ts'
import { tick } from '../../lib/supervisors/tick.ts'
import type { Decision, Observed, Tick } from '../../lib/supervisors/types.ts'
import { row } from './row.ts'
import { tempPaths } from './temp.ts'

// A supervisor that is none, for what the conductor does with one.

export interface Seen extends Observed {
  readonly see: 'well' | 'ill' | 'below'
}
export interface Count {
  readonly tries: number
}
export type Of = FleetSupervisor<Seen, 'mend', Count>

export const LINE: Line = { level: 'FAIL', code: 'relay-silent', text: 'ill', next: 'look at it' }
const ILL: Verdict = verdict('relay-silent', [], { endpoint: 'x' })

export function decide({ see, paused }: Seen, memory: Count): Decision<'mend', Count> {
  const base = { marks: [], actions: [], memory, lines: [], pages: [] } as const
  if (see === 'well') return { ...base, verdict: HEALTHY }
  if (paused) return { ...base, verdict: ILL }
  const page = { kind: 'relay-fault', failing: true, code: 'relay-silent', text: 'ill' } as const
  if (see === 'below') return { ...base, verdict: ILL, memory: { tries: 9 }, lines: [LINE], pages: [page] }
  return { ...base, verdict: ILL, actions: ['mend'], confirm: 'at-once', lines: [LINE], pages: [page] }
}

/** A run of a supervisor that sees these looks one after the other; `did` is what happened, in its order. */
export function host(
  t: TestContext,
  looks: readonly Seen['see'][],
  over: Partial<Of> = {},
  more: Partial<Tick> = {},
) {
  const p = tempPaths(t)
  const did: string[] = []
  const left = [...looks]
  const next = (): Seen => ({ see: left.shift() ?? 'well' })
  const s: Of = {
    name: 'cdp-relay-watchdog',
    layer: 'relay',
    width: 2,
    dueMs: 1000,
    next: (node) => `ask ${node}`,
    memory: {
      parse: (raw) => {
        const { tries } = raw as Count
        if (typeof tries !== 'number') throw new Error('tries')
        return { tries }
      },
      cautious: () => ({ tries: 5 }),
      fresh: () => ({ tries: 0 }),
      blank: ({ tries }) => tries === 0,
      lost: (node) => ({ more: '; careful', next: `forget ${node}` }),
      lock: 'run',
    },
    observe: async () => {
      did.push('observe')
      return next()
    },
    lookAgain: () => {
      did.push('ask')
      return async () => {
        did.push('look again')
        return next()
      }
    },
    decide: (o, memory) => decide(o, memory),
    doing: () => 'mending',
    act: async (_t, _node, round) => {
      const problem = round.record({ tries: 1 })
      round.say([{ level: 'INFO', code: 'released', text: 'mending' }])
      did.push(`act ${problem === undefined ? 'recorded' : 'not recorded'}`)
      const action = { kind: 'mend', startedWallMs: 1, durationMs: 1, helped: true, detail: '' }
      const healed = { ...round.decision, verdict: HEALTHY, memory: { tries: 2 }, lines: [LINE], pages: [] }
      return { decision: healed, actions: [action], facts: { pid: 7 } }
    },
    facts: (look, { tries }) => ({ tries, ...(look && { see: look.see }) }),
    ...over,
  }
  const tk: Tick = {
    p,
    config: { ...DEFAULTS, confirmDelayMs: 1 },
    log: {
      write: (node, line, fields) => {
        const { level, text: words, next: then = '' } = line
        did.push(
          `${level} [${node}] ${words}; ${then}${fields?.page === undefined ? '' : ` (${fields.page})`}`,
        )
      },
    },
    registry: { nodes: [], errors: [], warnings: [] } as unknown as Tick['registry'],
    deadline: deadlineIn(60_000),
    lockWaitMs: 0,
    byHand: false,
    dryRun: false,
    named: [],
    tell: () => {},
    ...more,
  }
  const node = row()
  const path = statePath(p, s.name, node.name)
  const receipt = (): Receipt => JSON.parse(readFileSync(receiptPath(p, s.name, node.name), 'utf8'))
  const stored = () => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).tries : undefined)
  return { p, s, t: tk, node, did, path, receipt, stored, run: () => tick(s, tk, node) }
}

export function write(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}

/** A state directory in which nobody, root included, can make a file. */
export function full(p: Paths, path: string): void {
  write(`${p.state}/.there`, '')
  symlinkSync('/sys/kernel', dirname(path))
}
