import { statSync } from 'node:fs'
import { hostname } from 'node:os'
import { attempt } from '../base/attempt.ts'
import { wallIso } from '../base/clock.ts'
import { mainProcess, startedAsBrowsers } from '../browser/processes.ts'
import { readStat, readUptime } from '../host/proc.ts'
import { activeLocalNodes } from '../registry/read.ts'
import { text } from '../report/codes.ts'
import { readMemory } from './chromebox-watchdog/memory.ts'
import type { Attempt } from './chromebox-watchdog/types.ts'
import type { Tick } from './types.ts'

/** What this host knows of the program that all its browsers are started from. */
export interface ProgramFacts {
  /** When its file was last put in place or changed. */
  readonly changedWallMs: number
  /** When the browsers that run now were started. */
  readonly startedWallMs: readonly number[]
  /** The attempts that each node remembers. */
  readonly attempts: readonly (readonly Attempt[])[]
}

/**
 * Has every start since the program on disk changed failed, as far as is known? Then a browser that still runs the old
 * one is not given up for the new one. Pure. Asked is for more than one node's bad luck: a browser from before the
 * change still runs, or two nodes met it.
 *
 * @param ripeMs the age, in milliseconds, from which a browser proves that its program works
 * @returns the sentence for people, or undefined
 */
export function judgeProgram(facts: ProgramFacts, nowWallMs: number, ripeMs: number): string | undefined {
  const { changedWallMs, startedWallMs } = facts
  const since = facts.attempts.map((of) => of.filter((a) => a.wallMs >= changedWallMs && !a.final))
  const died = since.map((of) => of.flatMap((a) => a.died ?? []))
  const works =
    since.flat().some((a) => a.result !== 'pending' && a.died === undefined) ||
    startedWallMs.some((at) => at >= changedWallMs && nowWallMs - at >= ripeMs)
  const nodes = died.filter((of) => of.length > 0).length
  if (works || nodes === 0 || (nodes === 1 && !startedWallMs.some((at) => at < changedWallMs)))
    return undefined
  const ways = new Set(died.flat())
  return text('program-changed', { at: wallIso(changedWallMs), ended: [...ways].slice(0, 3).join(' or ') })
}

/**
 * The same, asked now. Only a failing node asks: it reads the memory of every node here.
 * @param own the node's memory of this run, which is not on disk yet
 */
export function lookProgram(
  t: Pick<Tick, 'p' | 'config' | 'registry'>,
  program: string | undefined,
  own?: { readonly node: string; readonly attempts: readonly Attempt[] },
): string | undefined {
  const changed = program === undefined ? undefined : attempt(() => statSync(program).ctimeMs)
  const uptime = readUptime(t.p.proc)
  if (changed === undefined || uptime === undefined) return undefined
  const attempts = activeLocalNodes(t.registry, hostname()).map(({ name }) =>
    name === own?.node ? own.attempts : readMemory(t.p, t.config, name).attempts,
  )
  // The table of processes is read only where it can matter.
  if (!attempts.flat().some((a) => a.died !== undefined && a.wallMs >= changed)) return undefined
  const now = Date.now()
  const stats = (attempt(() => startedAsBrowsers(t.p)) ?? []).flatMap(({ pid }) => {
    const stat = readStat(t.p.proc, pid)
    return stat === undefined ? [] : [mainProcess(pid, stat, uptime)]
  })
  const startedWallMs = stats.map(({ ageMs }) => now - ageMs)
  return judgeProgram({ changedWallMs: changed, startedWallMs, attempts }, now, t.config.freshBrowserMs)
}
