import { basename } from 'node:path'
import { now } from '../base/clock.ts'
import { linkOf } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'
import { type ProcStat, readStat } from '../host/proc.ts'

/** How the record of a lock or a slot names the process that holds it: with the boot id, one process for ever. */
export interface ProcessName {
  readonly pid: number
  /** Start time in clock ticks since boot. */
  readonly startTicks: number
  /** Its PID namespace; a pid says nothing in another one. */
  readonly pidNs: string
}

/** The command line of this process, for whoever is kept waiting by it. */
export function ownCommand(): string {
  const [, program = 'node', ...args] = process.argv
  return [basename(program), ...args].join(' ')
}

export function ownName(p: Paths): ProcessName {
  const startTicks = readStat(p.proc, process.pid)?.startTicks ?? 0
  return { pid: process.pid, startTicks, pidNs: pidNamespace(p) }
}

/** The process of a record that was made in the boot `bootId`: as it is now, gone, or where this one cannot see it. */
export function lookAtProcess(p: Paths, name: ProcessName, bootId: string): ProcStat | 'gone' | 'elsewhere' {
  if (bootId !== now(p).bootId) return 'gone'
  if (name.pidNs !== pidNamespace(p)) return 'elsewhere'
  const stat = readStat(p.proc, name.pid)
  return stat?.startTicks === name.startTicks ? stat : 'gone'
}

/** Stopped (SIGSTOP, ^Z, a debugger): it neither goes on nor gives anything back until somebody continues it. */
export function isStopped(stat: ProcStat | undefined): boolean {
  return stat?.state === 'T' || stat?.state === 't'
}

function pidNamespace(p: Paths): string {
  return linkOf(`${p.proc}/self/ns/pid`) ?? ''
}
