import { said } from '../report/line.ts'
import { verdict as verdictOf } from '../report/verdict.ts'
import type { Decision, Observation } from './chromebox-watchdog/types.ts'
import type { PageEvent } from './types.ts'

/** Why a failing browser is not relaunched: the start could not succeed, or would lose what a living one still has. */
export function whyNot({ browser, noStart, unwritable, program }: Observation): string | undefined {
  // A dead browser has nothing to lose by a start that may fail.
  return noStart ?? (browser?.process === undefined ? undefined : (unwritable ?? program))
}

/** One page for the fleet: what fails for the program that all nodes start is no node's own fault. */
export function forFleet(pages: readonly PageEvent[], program: string): PageEvent[] {
  const others = pages.filter((e) => e.kind !== 'browser-fault')
  const words = { code: 'program-changed', text: program, next: 'box fleet status' } as const
  return [...others, { kind: 'browser-fault', of: 'fleet', failing: true, ...words }]
}

/** A browser that answers and cannot keep a login: a person's to repair, and a relaunch would lose what it has. */
export function unwritable(node: string, why: string, well: Decision): Decision {
  const what = said('profile-unwritable', { why })
  const { code, text: note } = what
  const marks = well.marks.map((m) =>
    m.layer === 'process' ? { ...m, state: 'fail' as const, code, note } : m,
  )
  const others = well.pages.filter((e) => e.kind !== 'browser-fault')
  return {
    ...well,
    verdict: verdictOf('profile-unwritable', [], { why }),
    marks,
    pages: [...others, { kind: 'browser-fault', failing: true, ...what }],
    lines: [...well.lines, { level: 'FAIL', ...what, next: `chromebox-watchdog ${node} --why` }],
  }
}
