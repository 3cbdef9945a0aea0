import { rmdirSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Paths } from '../paths.ts'
import { writeAtomic } from '../state.ts'
import { systemctlOk } from '../systemctl.ts'
import { rememberReset } from './memory.ts'
import { makeQueue } from './settings.ts'
import type { Action, Finding } from './types.ts'

/** Deadline of one systemctl call in milliseconds: enabling reloads the manager, and that takes a while on a busy host. */
const SYSTEMCTL_DEADLINE_MS = 30_000

/**
 * Carries out what the findings ask for: first every file, then one reload of systemd if a file or a
 * finding needs it, then the units. Nothing is reloaded when there is nothing to do.
 */
export async function carryOut(p: Paths, findings: readonly Finding[]): Promise<void> {
  const actions = findings.flatMap((f) => f.actions)
  for (const action of actions) onFiles(p, action)
  if (actions.some((a) => a.kind === 'reload')) await systemctl('daemon-reload')
  for (const action of merged(actions)) {
    await systemctl(action.verb, action.units)
    if (action.verb === 'reset-failed') for (const unit of action.units) rememberReset(p, unit)
  }
}

function onFiles(p: Paths, action: Action): void {
  if (action.kind === 'write-file') writeAtomic(action.path, action.text, 0o644)
  if (action.kind === 'make-queue') makeQueue(p, action.node)
  if (action.kind !== 'remove-files') return
  for (const path of action.paths) {
    rmSync(path, { force: true })
    if (!path.endsWith('/netvm.conf')) continue
    try {
      rmdirSync(dirname(path))
    } catch {
      // Somebody else's drop-ins are in it.
    }
  }
}

/** The order in which units are acted on: what stops comes before what starts. */
const ORDER = ['stop', 'disable', 'reset-failed', 'enable', 'start', 'restart'] as const

/** One call for all units of a verb: each `enable` alone would reload the manager again. */
function merged(actions: readonly Action[]): { verb: string; units: string[] }[] {
  return ORDER.flatMap((kind) => {
    const units = new Set(actions.flatMap((a) => (a.kind === kind && 'unit' in a ? [a.unit] : [])))
    return units.size === 0 ? [] : [{ verb: kind, units: [...units] }]
  })
}

function systemctl(verb: string, units: readonly string[] = []): Promise<void> {
  // reset-failed of a unit that was unloaded meanwhile: there is nothing left to reset.
  const fine = verb === 'reset-failed' ? { fine: /not loaded/ } : {}
  const next = ['systemctl status', ...units].join(' ')
  return systemctlOk([verb], units, { deadlineMs: SYSTEMCTL_DEADLINE_MS, next, ...fine })
}
