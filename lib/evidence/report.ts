import { EXIT, type ExitCode } from '../base/exit-codes.ts'
import { present } from '../base/present.ts'
import { clean, seconds } from '../base/text.ts'
import { SUPERVISORS } from '../base/types.ts'
import type { Collected, Judged } from './collect.ts'
import { phrase } from './decide.ts'
import { hear, newest } from './statements.ts'
import type { TimerFact, Unknown } from './types.ts'

/** Why something is not known, for a person: `receipt of agent-health: there is none`. */
export function unknownText(u: Unknown): string {
  return `${u.what}${u.supervisor === undefined ? '' : ` of ${u.supervisor}`}: ${u.why}`
}

/**
 * What is known of each supervisor's work on the node: the newest verdict that may be believed, where it is known from
 * (`source`) and for how many milliseconds (`ageMs`; absent when nothing is), its timer, and why anything is `unknown`. Pure.
 */
export function perSupervisor({ facts }: Judged) {
  const heard = hear(facts)
  const units = facts.units.seen ? facts.units.value : undefined
  return SUPERVISORS.map((supervisor) => {
    const last = newest(heard, supervisor)
    const unknown = heard.unknowns
      .filter((u) => u.supervisor === undefined || u.supervisor === supervisor)
      .map(unknownText)
    const armed = units?.timers[supervisor]
    const timer = armed === undefined ? 'unknown' : timerText(armed)
    if (armed !== undefined && armed.state !== 'armed') unknown.push(`timer ${timer}`)
    if (units?.runs[supervisor].ended === false) unknown.push('never ran in this boot')
    const marks = [...(last?.marks.values() ?? [])]
    const bad = marks.find((m) => m.state === 'fail')
    const unsure = marks.find((m) => m.state === 'unknown' && m.note !== '')
    const failed = bad !== undefined || last?.failedSomewhere === true
    const verdict = last?.healthy ? 'healthy' : failed ? 'unhealthy' : 'unknown'
    const reason = bad?.note ?? (verdict === 'unknown' ? (unsure?.note ?? '') : '')
    const ageMs = last && Math.max(0, facts.now.bootMs - last.atBootMs)
    return present({ supervisor, verdict, reason, source: last?.source ?? 'none', ageMs, timer, unknown })
  })
}

const timerText = ({ state, why }: TimerFact): string => (state === 'armed' ? state : `${state} (${why})`)

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
