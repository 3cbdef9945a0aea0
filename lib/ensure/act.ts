import type { Paths } from '../base/paths.ts'
import { describe, run } from '../host/exec.ts'
import { systemctlOk } from '../host/systemctl.ts'
import { writeAtomic } from '../store/state.ts'
import { rememberReset } from './memory.ts'
import { makeQueue, removeFiles } from './settings.ts'
import { type Action, type Finding, VERBS } from './types.ts'

/** Deadline of one systemctl call in milliseconds: enabling reloads the manager, and that takes a while on a busy host. */
const SYSTEMCTL_DEADLINE_MS = 30_000

/**
 * Carries out what the findings ask for: first every file, then one reload of systemd if a file or a
 * finding needs it, then the units. Nothing is reloaded when there is nothing to do.
 * @returns what systemctl said of each unit that it could not act on; the other units were acted on
 * @throws NetvmError when systemd cannot reload: then nothing that was written counts
 */
export async function carryOut(p: Paths, findings: readonly Finding[]): Promise<Map<string, string>> {
  const refused = new Map<string, string>()
  const actions = findings.flatMap((f) => f.actions)
  for (const action of actions) onFiles(p, action)
  if (actions.some((a) => a.kind === 'reload')) {
    await systemctlOk(['daemon-reload'], [], { deadlineMs: SYSTEMCTL_DEADLINE_MS, next: 'systemctl status' })
  }
  for (const verb of VERBS) {
    // One call for all units of a verb: each `enable` alone would reload the manager again.
    const asked = actions.flatMap((a) => (a.kind === verb && 'unit' in a ? [a.unit] : []))
    const units = [...new Set(asked)]
    if (units.length === 0) continue
    for (const [unit, why] of await onUnits(verb, units)) refused.set(unit, why)
    if (verb === 'reset-failed') for (const unit of units) rememberReset(p, unit)
  }
  return refused
}

function onFiles(p: Paths, action: Action): void {
  if (action.kind === 'write-file') writeAtomic(action.path, action.text, 0o644)
  if (action.kind === 'make-queue') makeQueue(p, action.node)
  if (action.kind === 'remove-files') removeFiles(action.paths)
}

/** One unit that cannot be acted on must cost the others nothing: after a failure each is asked for alone. */
async function onUnits(verb: string, units: readonly string[]): Promise<[string, string][]> {
  // Not --quiet: with it, systemctl keeps to itself why a start was refused.
  const argv = ['systemctl', '--no-ask-password', verb, '--', ...units]
  const result = await run(argv, { deadlineMs: SYSTEMCTL_DEADLINE_MS })
  // reset-failed of a unit that was unloaded meanwhile: there is nothing left to reset.
  if (result.code === 0 || (verb === 'reset-failed' && /not loaded/.test(result.stderr))) return []
  // Without an answer each one alone would have none either.
  if (units.length === 1 || result.timedOut || result.missing) {
    const why = describe(result, SYSTEMCTL_DEADLINE_MS)
    return units.map((unit) => [unit, why])
  }
  const each: [string, string][] = []
  for (const unit of units) each.push(...(await onUnits(verb, [unit])))
  return each
}
