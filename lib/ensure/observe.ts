import { existsSync, realpathSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { attempt } from '../base/attempt.ts'
import { monotonicMs } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { namesIn, textIfThere } from '../base/files.ts'
import { shellWord } from '../base/os-error.ts'
import type { Paths } from '../base/paths.ts'
import { run } from '../host/exec.ts'
import { askSystemd } from '../host/systemctl.ts'
import { elapseOf, parseSpan, parseTimer, TIMER_PROPS, type UnitShow } from '../host/systemd.ts'
import { isNodeName, unitsOf } from '../registry/names.ts'
import { activeLocalNodes, isLocal, type ParsedRegistry, readRegistry } from '../registry/read.ts'
import { tunnelConfigured } from '../tunnel/configured.ts'
import { LOOPS, nodeParts } from './decide.ts'
import { findLegacy } from './legacy.ts'
import { resetAges } from './memory.ts'
import { dropIn, queueReady, settingsFiles, wantedFiles } from './settings.ts'
import type { ForeignFile, NodeLook, Observation, Orphan, UnitLook } from './types.ts'

export interface EnsureContext {
  readonly p: Paths
  readonly config: Config
}

const PROPS = [
  ...TIMER_PROPS,
  'NeedDaemonReload',
  'ActiveEnterTimestampMonotonic',
  'InactiveExitTimestampMonotonic',
  'TimeoutStartUSec',
  'ExecMainCode',
  'ExecMainStatus',
  'ExecMainExitTimestampMonotonic',
  'Listen',
  'Unit',
  'AccuracyUSec',
  'RandomizedDelayUSec',
  'ExecStart',
  'Type',
  'RemainAfterExit',
  'ConditionResult',
  'ConditionTimestampMonotonic',
  'NetworkNamespacePath',
  'AssertResult',
  'AssertTimestampMonotonic',
  'FragmentPath',
  'DropInPaths',
]

/** Every unit file the product installs. */
export const UNIT_FILES = [
  ...Object.values(unitsOf('')),
  'chromebox-ended@.target',
  ...LOOPS.flatMap((loop) => [`${loop}.service`, `${loop}.timer`]),
]

/**
 * Looks at everything ensure is responsible for: the registry, the files, systemd.
 * @param only restricts the look to one node; without it the whole host is looked at
 * @throws NetvmError (exit 2) when systemd cannot be asked: drift that was not seen is not healed
 */
export async function observe(ctx: EnsureContext, only?: string): Promise<Observation> {
  const { p } = ctx
  const parsed = readRegistry(p, ctx.config)
  const active = activeLocalNodes(parsed, hostname()).filter((n) => only === undefined || n.name === only)
  const known = only === undefined ? await knownInstances(p) : undefined
  const units = [
    ...active.flatMap(({ name }) => {
      const { timer, watchdog, target } = unitsOf(name)
      return [timer, watchdog, target, ...nodeParts(name)]
    }),
    ...(only === undefined ? LOOPS.flatMap((loop) => [`${loop}.timer`, `${loop}.service`]) : []),
  ]
  const shown = await askSystemd(units, PROPS)
  const looks: Record<string, UnitLook> = {}
  for (const [name, unit] of Object.entries(shown)) looks[name] = unitLook(p, name, unit)
  return {
    // The clock of systemd's *Monotonic properties.
    nowMs: monotonicMs(),
    bootIdMissing: !existsSync(p.bootIdFile),
    nodes: active.map((node): NodeLook => {
      const files = wantedFiles(p, node).map((want) => ({ want, have: textIfThere(want.path) }))
      const tunnel = tunnelConfigured(p, node.name)
      return { node, files, queueReady: queueReady(p, node.name), tunnelConfigured: tunnel }
    }),
    orphans: known === undefined ? [] : orphans(p, parsed, known),
    rowErrors: parsed.errors
      .filter((e) => only === undefined || e.name === only)
      .map((e) => ({
        scope: e.name ?? 'fleet',
        text: `row refused, node not supervised: ${parsed.path} line ${e.line}: ${e.reason}`,
        next: `editor ${shellWord(ctx.config.registry)}`,
      })),
    units: looks,
    missingUnitFiles: UNIT_FILES.filter((name) => !existsSync(join(p.unitDir, name))).map((name) => ({
      name: join(p.unitDir, name),
      copy: unitCopy(name),
    })),
    legacy: findLegacy(p, active),
    resetAgoMs: resetAges(p),
  }
}

function unitLook(p: Paths, name: string, u: UnitShow): UnitLook {
  const timer = parseTimer(u)
  const isTimer = u.TimersMonotonic !== undefined || u.NextElapseUSecMonotonic !== undefined
  const stamp = (key: string) => (Number(u[key] ?? 0) > 0 ? Number(u[key]) / 1000 : undefined)
  const lateMs = (parseSpan(u.AccuracyUSec ?? '') ?? 0) + (parseSpan(u.RandomizedDelayUSec ?? '') ?? 0)
  // CLD_EXITED of siginfo(2).
  const exited = u.ExecMainCode === '1'
  return {
    load: u.LoadState ?? '',
    file: u.UnitFileState ?? '',
    active: u.ActiveState ?? '',
    sub: u.SubState ?? '',
    result: u.Result ?? '',
    needReload: u.NeedDaemonReload === 'yes',
    activeSinceMs: stamp('ActiveEnterTimestampMonotonic'),
    startedMs: stamp('InactiveExitTimestampMonotonic'),
    startTimeoutMs: parseSpan(u.TimeoutStartUSec ?? ''),
    exit: u.ExecMainCode === undefined ? undefined : { exited, status: Number(u.ExecMainStatus) },
    ...(isTimer && {
      nextMs: timer.nextElapseMs,
      periodMs: timer.periodMs,
      lastMs: timer.lastTriggerMs,
      lateMs,
    }),
    firstMs: elapseOf(u, ['OnActiveUSec', 'OnBootUSec', 'OnStartupUSec']),
    fires: u.Unit || undefined,
    netns: u.NetworkNamespacePath,
    ...(u.Type !== undefined && {
      exec: commands(u.ExecStart ?? ''),
      ends: u.Type === 'oneshot' && u.RemainAfterExit !== 'yes',
    }),
    // Before its first start a unit says the same, without a time.
    refused: ['Condition', 'Assert'].some(
      (kind) => u[`${kind}Result`] === 'no' && stamp(`${kind}TimestampMonotonic`) !== undefined,
    ),
    listen: u.Listen?.split('\n').map((line) => line.replace(/ \(\w+\)$/, '')),
    foreign: foreignFiles(p, name, u),
  }
}

/**
 * The files that change a unit of ours and are not ours, in the order in which systemd reads them, so that
 * the last one wins: a unit file of the instance's own in place of the template, and every drop-in but the
 * row's, wherever it lies (/etc, /run, `systemctl set-property`).
 */
export function foreignFiles(p: Paths, unit: string, shown: UnitShow): ForeignFile[] {
  const fragment = shown.FragmentPath ?? ''
  const template = unit.replace(/@[^.]*\./, '@.')
  const ours = fragment === '' || basename(fragment) === template || basename(fragment) === 'null'
  const whole = ours && (fragment === '' || dirname(fragment) === p.unitDir) ? [] : [fragment]
  const dropIns = words(shown.DropInPaths ?? '').filter((path) => path !== dropIn(p, unit))
  return [...whole, ...dropIns].map((path) => ({
    path: shellWord(path),
    keys: Array.from((textIfThere(path) ?? '').matchAll(/^\s*([A-Za-z]+)\s*=/gm), (m) => m[1] ?? ''),
  }))
}

/** systemctl puts double quotes around a path with a blank in it. */
function words(list: string): string[] {
  return Array.from(list.matchAll(/"([^"]+)"|(\S+)/g), (m) => m[1] ?? m[2] ?? '').filter((w) =>
    w.startsWith('/'),
  )
}

/** `{ path=/bin/x ; argv[]=/bin/x y ; ... }`, one a line. */
function commands(shown: string): string[] {
  return Array.from(shown.matchAll(/ argv\[\]=(.*?) ; ignore_errors=/g), (m) => m[1] ?? '')
}

/**
 * Every node name that the host's units and our files still carry, whatever the registry says, and with it the units
 * that systemd has active, and those that it has enabled (`linked`).
 */
async function knownInstances(p: Paths) {
  const argv = ['systemctl', 'list-units', '--plain', '--no-legend', '--no-pager']
  const states = ['--state=active,activating,reloading,deactivating', '--', ...Object.values(unitsOf('*'))]
  const listed = await run([...argv, ...states], { deadlineMs: 5000 })
  const active = Array.from(listed.stdout.matchAll(/^\s*(\S*@\S*)/gm), (m) => m[1] ?? '')
  const linked = ['timers.target.wants', 'multi-user.target.wants'].flatMap((d) =>
    namesIn(join(p.unitDir, d)),
  )
  const ours = namesIn(p.unitDir).filter(
    (d) => /^(chromebox-watchdog|cdp-relay)@.+\.d$/.test(d) && existsSync(join(p.unitDir, d, 'netvm.conf')),
  )
  const envs = namesIn(p.nodesDir).map((f) => `env@${f}`)
  const pattern =
    /^(?:netvm-node|chromebox-watchdog|chromebox|cdp-relay|netvm-netns|netvm-tunnel|env)@([^.]+)\./
  const names = [...active, ...linked, ...ours, ...envs].map((unit) => pattern.exec(unit)?.[1] ?? '')
  return { names: new Set(names.filter(isNodeName)), active, linked }
}

function orphans(
  p: Paths,
  parsed: ParsedRegistry,
  known: Awaited<ReturnType<typeof knownInstances>>,
): Orphan[] {
  // A refused row may be anybody's: its node was supervised, and a typo must not end that. When the row
  // does not even show its name, no name can be said to be gone.
  const refused = new Set(parsed.errors.map((e) => e.name))
  const nameless = parsed.errors.some((e) => e.name === undefined)
  const found: Orphan[] = []
  for (const name of [...known.names].sort()) {
    const row = parsed.nodes.find((n) => n.name === name)
    if (row?.status === 'active' && isLocal(row, hostname())) continue
    if (refused.has(name) || (row === undefined && nameless)) continue
    const mine = (unit: string) => unit.replace(/^[^@]*@/, '').replace(/\.[a-z]+$/, '') === name
    found.push({
      name,
      why: row?.status === 'retired' ? 'retired' : 'removed',
      enabled: known.linked.filter(mine),
      active: known.active.filter(mine),
      files: settingsFiles(p, name).filter((f) => existsSync(f)),
    })
  }
  return found.filter((o) => o.enabled.length + o.active.length + o.files.length > 0)
}

/** The release's own copy of a unit file, which scripts/install puts beside the programs. */
function unitCopy(name: string): string | undefined {
  return attempt(() => textIfThere(join(dirname(realpathSync(process.argv[1] ?? '')), 'units', name)))
}
