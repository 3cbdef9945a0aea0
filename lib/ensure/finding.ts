/** The two kinds of drift, and the limits that drift is judged by. Pure. */
import type { Action, Finding, UnitLook, Verb } from './types.ts'

/** Slack of every limit, in milliseconds: accuracy of the timer, the run itself, a loaded machine. */
export const SLACK_MS = 15_000

/** A unit, whose drift it would be, and how systemd has it; without a look there is no such unit. */
export interface Subject {
  readonly scope: string
  readonly unit: string
  readonly look: UnitLook | undefined
}

/** Drift that only a person may end, with the command for it. */
export function report(scope: string, code: string, says: string, next: string): Finding {
  return { scope, code, says, actions: [], did: '', next }
}

/** Drift that the actions end. @param did what they did, in words */
export function repair(
  scope: string,
  code: string,
  says: string,
  actions: readonly Action[],
  did: string,
): Finding {
  return { scope, code, says, actions, did }
}

/** What is to be done to one unit, in this order. */
export function act(unit: string, ...verbs: Verb[]): Action[] {
  return verbs.map((kind) => ({ kind, unit }))
}

/** Somebody's decision, and a louder one than "disabled": reported, never undone. */
export function isMasked(look: UnitLook): boolean {
  return look.load === 'masked' || look.file.startsWith('masked')
}

/** What unmasks a unit: without its option, systemctl leaves the mask of this boot in place. */
export function unmask(unit: string, look: UnitLook): string {
  return `systemctl unmask ${look.file === 'masked-runtime' ? '--runtime ' : ''}${unit}`
}

/** Whole seconds, minutes, hours or days for people. */
export function span(ms: number): string {
  if (ms < 120_000) return `${Math.round(ms / 1000)}s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)}min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)}h` : `${Math.round(ms / 86_400_000)}d`
}
