/** What systemd has in force for our units against what the release says, whoever changed it. Pure. */
import type { Node } from '../base/types.ts'
import { report, SLACK_MS, type Subject, span } from './finding.ts'
import type { Finding, ForeignFile, UnitLook } from './types.ts'

/** A first elapse further away than this many periods leaves a node unwatched after every boot. */
const FIRST_PERIODS = 2

/** What is wrong, and the settings that can make it so. */
interface Fault {
  readonly says: string
  readonly keys: RegExp
}
const ELAPSES = /^On\w+$/
const CONDITIONS = /^(Condition|Assert)\w+$/

/**
 * A timer whose settings keep it from firing as often as the release says, or from firing its own service.
 * Arming it again changes nothing, and the file is somebody's decision: reported with the command that takes
 * it away. A shorter period is theirs to choose.
 * @param periodMs the release's
 */
export function timerInForce(timer: Subject, periodMs: number): Finding | undefined {
  const then = ` && systemctl restart ${timer.unit}`
  return judgeLoaded(timer, (look) => timerFault(timer.unit, look, periodMs), then)
}

function timerFault(unit: string, look: UnitLook, periodMs: number): Fault | undefined {
  const service = unit.replace(/\.timer$/, '.service')
  if (look.fires !== undefined && look.fires !== service)
    return { says: `fires ${look.fires} instead of ${service}`, keys: /^Unit$/ }
  if (look.periodMs === undefined || look.periodMs === Number.POSITIVE_INFINITY) {
    return { says: 'has no OnUnitActiveSec: it fires once and never again', keys: ELAPSES }
  }
  const between = look.periodMs + (look.lateMs ?? 0)
  if (between > periodMs + SLACK_MS) {
    const says = `may take ${span(between)} from one run to the next, the release says ${span(periodMs)}`
    return { says, keys: /^(On\w+|RandomizedDelaySec|AccuracySec)$/ }
  }
  if (look.firstMs === undefined)
    return { says: 'has no OnActiveSec: after a boot it never fires', keys: ELAPSES }
  if (look.firstMs > FIRST_PERIODS * periodMs + SLACK_MS) {
    return { says: `fires only ${span(look.firstMs)} after it was armed`, keys: ELAPSES }
  }
  return undefined
}

/**
 * A service behind a timer that does not run what the release says, or does not end, or whose conditions
 * keep it from running.
 * @param argv the release's command line, `program argument...`
 */
export function serviceInForce(service: Subject, argv: string): Finding | undefined {
  return judgeLoaded(service, (look) => serviceFault(look, argv))
}

function serviceFault(look: UnitLook, argv: string): Fault | undefined {
  const { exec = [argv] } = look
  if (exec.length !== 1 || exec[0] !== argv) {
    return { says: `runs ${exec.join(', ') || 'nothing'} instead of ${argv}`, keys: /^ExecStart$/ }
  }
  if (look.ends === false) {
    const says = 'stays active after a run, so its timer fires no other'
    return { says, keys: /^(Type|RemainAfterExit)$/ }
  }
  // Until the next start a unit keeps the answer that a condition gave, even one that was taken away since.
  if (look.refused && removeForeign(look, CONDITIONS) !== undefined) {
    return { says: 'was not run: a condition of the unit is not met', keys: CONDITIONS }
  }
  return undefined
}

/**
 * The browser, the relay and the relay's socket: whatever else a person sets, they keep the row's profile,
 * port and namespace, by which every supervisor knows them.
 */
export function nodeInForce(node: Node, units: Readonly<Record<string, UnitLook>>): (Finding | undefined)[] {
  const { name, cdpPort } = node
  const profile = `--user-data-dir=/var/lib/chromebox/${name}`
  const words: [string, string[]][] = [
    [`chromebox@${name}.service`, [profile, `--remote-debugging-port=${cdpPort}`]],
    [`cdp-relay@${name}.service`, [`127.0.0.1:${cdpPort}`]],
    [`cdp-relay@${name}.socket`, []],
  ]
  const netns = `/run/netns/${node.netns}`
  return words.map(([unit, wanted]) =>
    judgeLoaded({ scope: name, unit, look: units[unit] }, (look) => nodeFault(look, netns, wanted, cdpPort)),
  )
}

function nodeFault(
  look: UnitLook,
  netns: string,
  wanted: readonly string[],
  port: number,
): Fault | undefined {
  // The settings' file of the row gives the port.
  const line = (look.exec ?? wanted).join(' ').replaceAll(/\$\{?CDP_PORT\}?/g, String(port))
  const missing = wanted.find((word) => !line.split(' ').includes(word))
  if (missing !== undefined) return { says: `runs without ${missing}`, keys: /^(ExecStart|Environment\w*)$/ }
  if (look.netns !== undefined && look.netns !== netns) {
    const says = `runs in ${look.netns === '' ? "the host's network" : look.netns} instead of ${netns}`
    return { says, keys: /^(NetworkNamespacePath|PrivateNetwork|JoinsNamespaceOf)$/ }
  }
  return undefined
}

function judgeLoaded(
  { scope, unit, look }: Subject,
  judge: (look: UnitLook) => Fault | undefined,
  then = '',
): Finding | undefined {
  // What is not loaded, or not the newest, is a finding of its own.
  const fault = look?.load !== 'loaded' || look.needReload ? undefined : judge(look)
  if (fault === undefined) return undefined
  const next = removeForeign(look, fault.keys, then) ?? `systemctl cat ${unit}`
  return report(scope, 'settings-foreign', `${unit} ${fault.says}`, next)
}

/** The command that takes away the files in which somebody else set one of `keys`; undefined when there is none. */
export function removeForeign(look: UnitLook | undefined, keys: RegExp, then = ''): string | undefined {
  const files = (look?.foreign ?? []).filter((f) => f.keys.some((key) => keys.test(key)))
  return files.length === 0 ? undefined : remove(files, then)
}

const remove = (files: readonly ForeignFile[], then: string): string =>
  `rm ${files.map((f) => f.path).join(' ')} && systemctl daemon-reload${then}`

/** The command for a unit that systemd refuses to load: a file is only taken away when it must be that one. */
export function refusedNext(unit: string, look: UnitLook): string {
  const { foreign = [] } = look
  const then = unit.endsWith('.timer') ? ` && systemctl restart ${unit}` : ''
  const culprit = foreign.length === 1 ? remove(foreign, then) : undefined
  // verify reads the disk, where it may be repaired already.
  return culprit ?? `systemd-analyze verify ${unit} && systemctl daemon-reload`
}
