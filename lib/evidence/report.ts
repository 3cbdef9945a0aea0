import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { clean, seconds } from '../base/text.ts'
import { SUPERVISORS, type Supervisor } from '../base/types.ts'
import type { Collected, Judged } from './collect.ts'
import { phrase } from './decide.ts'
import { hear } from './statements.ts'
import type { Unknown } from './types.ts'

/** What the host knows of one supervisor's work on one node. */
export interface SupervisorEvidence {
  readonly supervisor: Supervisor
  readonly verdict: 'healthy' | 'unhealthy' | 'unknown'
  readonly reason: string
  readonly source: string
  /** Milliseconds since that was so; absent when nothing is known. */
  readonly ageMs?: number
  readonly timer: string
  /** Why anything is unknown. */
  readonly unknown: readonly string[]
}

/** Why something is not known, for a person: `receipt of agent-health: there is none`. */
export function unknownText(u: Unknown): string {
  return `${u.what}${u.supervisor === undefined ? '' : ` of ${u.supervisor}`}: ${u.why}`
}

/** What is known per supervisor: the newest thing said that may be believed. Pure. */
export function perSupervisor({ facts }: Judged): SupervisorEvidence[] {
  const heard = hear(facts)
  return SUPERVISORS.map((supervisor) => {
    const last = heard.statements.findLast((s) => s.supervisor === supervisor)
    const unknown = heard.unknowns
      .filter((u) => u.supervisor === undefined || u.supervisor === supervisor)
      .map(unknownText)
    const timer = facts.units.seen ? facts.units.value.timers[supervisor] : undefined
    const run = facts.units.seen ? facts.units.value.runs[supervisor] : undefined
    const timerText =
      timer === undefined ? 'unknown' : timer.state === 'armed' ? 'armed' : `${timer.state} (${timer.why})`
    if (timer !== undefined && timer.state !== 'armed') unknown.push(`timer ${timerText}`)
    if (run !== undefined && !run.ended) unknown.push('never ran in this boot')
    if (last === undefined)
      return { supervisor, verdict: 'unknown', reason: '', source: 'none', timer: timerText, unknown }
    const [bad] = [...last.marks.values()].filter((m) => m.state === 'fail')
    const unsure = [...last.marks.values()].find((m) => m.state === 'unknown' && m.note !== '')
    const failed = bad !== undefined || last.failedSomewhere
    const verdict = last.healthy ? 'healthy' : failed ? 'unhealthy' : 'unknown'
    return {
      supervisor,
      verdict,
      reason: bad?.note ?? (verdict === 'unknown' ? (unsure?.note ?? '') : ''),
      source: last.source,
      ageMs: Math.max(0, facts.now.bootMs - last.atBootMs),
      timer: timerText,
      unknown,
    }
  })
}

/** The report as a program reads it. */
export function evidenceJson(judged: readonly Judged[]): unknown {
  return judged.map((j) => ({
    node: j.node.name,
    word: phrase(j.verdict),
    reason: j.verdict.reason,
    source: j.verdict.source,
    ageMs: j.verdict.ageMs,
    supervisors: perSupervisor(j),
    notes: j.verdict.notes,
    unknown: j.verdict.unknowns.map(unknownText),
  }))
}

/** The report as a person reads it: one block per node, one line per supervisor, then why anything is unknown. */
export function evidenceText(judged: readonly Judged[]): string {
  const out: string[] = []
  for (const j of judged) {
    const reason = j.verdict.reason === '' ? '' : `: ${clean(j.verdict.reason)}`
    out.push(`${j.node.name}  ${phrase(j.verdict)}${reason}`)
    for (const e of perSupervisor(j)) {
      const age = e.ageMs === undefined ? '' : `, ${seconds(e.ageMs)} ago`
      const how = e.source === 'none' ? '' : ` (${e.source}${age})`
      const why = e.reason === '' ? '' : `: ${clean(e.reason)}`
      out.push(`  ${e.supervisor.padEnd(19)} ${e.verdict.padEnd(9)}${how}${why}; timer ${e.timer}`)
    }
    for (const note of j.verdict.notes) out.push(`  note: ${clean(note)}`)
    for (const u of j.verdict.unknowns) out.push(`  not known: ${clean(unknownText(u))}`)
  }
  return out.join('\n')
}

/** 0 all active, 1 something down, 2 something unknown; a pause is what is beneath it. Pure. */
export function exitOf(c: Pick<Collected, 'judged'>, refused: number): ExitCode {
  const words = c.judged.map((j) => j.verdict.beneath)
  if (words.some((w) => w === 'DEGRADED' || w === 'STOPPED' || w === 'HELD DOWN')) return EXIT.UNHEALTHY
  return refused > 0 || words.includes('UNKNOWN') ? EXIT.UNKNOWN : EXIT.OK
}
