/** The whole of drift: what one look at the host says is wrong, and what repairs it. Pure. */

import { PERIOD_MS } from '../evidence/owners.ts'
import { unitsOf } from '../registry/names.ts'
import { act, isMasked, repair, report, unmask } from './finding.ts'
import { nodeInForce, removeForeign, serviceInForce, timerInForce } from './force.ts'
import { heldFinding, serviceFinding, timerFinding } from './timers.ts'
import type { Action, Finding, Legacy, NodeLook, Observation, Orphan } from './types.ts'

/** The loops that watch all rows in one run. */
export const LOOPS = ['cdp-relay-watchdog', 'agent-health'] as const

/** What runs the node itself, beside its supervision. */
export const nodeParts = (name: string) => {
  const { netns, tunnel, browser, socket, relay } = unitsOf(name)
  return [netns, tunnel, browser, socket, relay]
}

/** Every finding, in the order in which they are to be repaired: files before the units that read them. */
export function decideDrift(o: Observation): Finding[] {
  const found = [
    ...o.missingUnitFiles.map(missingUnit),
    ...o.rowErrors.map((e) => report(e.scope, 'row-refused', e.text, e.next)),
    staleManager(o),
    bootId(o),
    ...o.nodes.flatMap((n) => nodeFindings(o, n)),
    ...LOOPS.flatMap((loop) => loopFindings(o, loop)),
    ...o.orphans.flatMap(orphanFindings),
    ...o.legacy.map((l) => legacyFinding(o, l)),
  ]
  return found.filter((f) => f !== undefined)
}

function missingUnit({ name, copy }: Observation['missingUnitFiles'][number]): Finding {
  const says = `the unit file ${name} is missing`
  if (copy === undefined) return report('fleet', 'unit-file-missing', says, 'scripts/install')
  const write: Action = { kind: 'write-file', path: name, text: copy }
  return repair('fleet', 'unit-file-missing', says, [write, { kind: 'reload' }], 'put back')
}

/** Unit files changed on disk that systemd has not read. */
function staleManager(o: Observation): Finding | undefined {
  // A unit that is refused, or masked with drop-ins, says so for ever; reloading changes nothing.
  const stale = Object.entries(o.units).filter(([, u]) => u.needReload && u.load === 'loaded')
  if (stale.length === 0) return undefined
  const units = stale.map(([name]) => name)
  const says = `systemd has not read the newest ${units.slice(0, 3).join(', ')}${units.length > 3 ? ' ...' : ''}`
  return repair('fleet', 'needs-reload', says, [{ kind: 'reload' }], 'reloaded')
}

/** Without it units and shells may read different boot ids, and take each other's receipts for another boot's. */
function bootId(o: Observation): Finding | undefined {
  if (!o.bootIdMissing) return undefined
  const says = '/run/netvm/boot-id is missing: receipts may read as those of another boot'
  return report('fleet', 'boot-id-missing', says, 'systemd-tmpfiles --create netvm.conf')
}

function nodeFindings(o: Observation, n: NodeLook): (Finding | undefined)[] {
  const { name } = n.node
  const differ = settings(n)
  // Two supervisors on one browser kill it in turns: ours waits until the other one is gone.
  const held = o.legacy.some((l) => l.scope === name)
  const argv = `/usr/local/bin/chromebox-watchdog ${name}`
  const want = { argv, periodMs: PERIOD_MS['chromebox-watchdog'], held, written: differ === undefined }
  return [
    differ,
    relayAddress(o, n),
    queue(n),
    ...scheduled(o, name, `chromebox-watchdog@${name}`, want),
    ...nodeInForce(n.node, o.units),
    target(o, name),
    namespace(o, name),
    tunnelLeft(o, n),
    ...masked(o, name),
  ]
}

/** What re-arming cannot repair while the settings in force are what they are. */
const SCHEDULE = ['timer-never', 'timer-infinite', 'timer-once', 'timer-far', 'timer-stale']

/** A timer and the service it fires, together: what keeps one from working is often a fault of the other. */
function scheduled(
  o: Observation,
  scope: string,
  name: string,
  want: { argv: string; periodMs: number; held: boolean; written: boolean },
): (Finding | undefined)[] {
  const subject = (unit: string) => ({ scope, unit, look: o.units[unit] })
  const [timer, service] = [subject(`${name}.timer`), subject(`${name}.service`)]
  const timerForce = want.written ? timerInForce(timer, want.periodMs) : undefined
  const serviceForce = serviceInForce(service, want.argv)
  let drift = timerFinding(timer, o.nowMs, service.look?.startedMs)
  // A timer whose service cannot be loaded does not start, or fails when it is due.
  const futile = !['loaded', 'not-found', undefined].includes(service.look?.load)
  if (drift && drift.actions.length > 0 && (want.held || futile)) drift = undefined
  if (drift && timerForce && SCHEDULE.includes(drift.code)) drift = undefined
  return [
    timerForce,
    drift,
    serviceForce,
    serviceForce ? undefined : heldFinding(timer, service, o.nowMs),
    serviceFinding(service, timer.look?.periodMs, o.nowMs, o.resetAgoMs[service.unit]),
  ]
}

function settings(n: NodeLook): Finding | undefined {
  const differ = n.files.filter((f) => f.have !== f.want.text)
  if (differ.length === 0) return undefined
  const { name } = n.node
  const what = differ.map((f) => f.want.what).join(', ')
  const actions: Action[] = differ.map(({ want: { path, text } }) => ({ kind: 'write-file', path, text }))
  actions.push({ kind: 'reload' })
  if (differ.every((f) => f.have === undefined))
    return repair(name, 'settings-missing', `unit settings are missing (${what})`, actions, 'written')
  if (differ.some((f) => f.want.what === 'timer offset')) actions.push(...act(unitsOf(name).timer, 'restart'))
  // What runs keeps its old settings: only node-up may restart a browser for new ones.
  const did = `written; netvm-node-up ${name} makes what runs follow`
  return repair(name, 'settings-differ', `unit settings differ from the row (${what})`, actions, did)
}

/** The drop-in can be right and another one after it wrong: what systemd will bind is what counts. */
function relayAddress(o: Observation, n: NodeLook): Finding | undefined {
  const unit = unitsOf(n.node.name).socket
  const look = o.units[unit]
  const want = `${n.node.peer}:${n.node.cdpPort}`
  if (look?.listen === undefined || look.needReload) return undefined
  if (n.files.some((f) => f.have !== f.want.text)) return undefined
  if (look.listen.length === 1 && look.listen[0] === want) return undefined
  const says = `${unit} listens on ${look.listen.join(', ') || 'nothing'}, the row says ${want}`
  const next = removeForeign(look, /^(ListenStream|BindToDevice)$/) ?? `systemctl cat ${unit}`
  return report(n.node.name, 'relay-address-differs', says, next)
}

function queue(n: NodeLook): Finding | undefined {
  if (n.queueReady) return undefined
  const { name } = n.node
  const says = 'its CDP queue is not there for the group netvm'
  return repair(name, 'queue-missing', says, [{ kind: 'make-queue', node: name }], 'made')
}

function target(o: Observation, name: string): Finding | undefined {
  const unit = unitsOf(name).target
  const look = o.units[unit]
  if (look === undefined || look.load === 'not-found' || look.file === 'enabled') return undefined
  if (look.file.startsWith('masked')) {
    return report(name, 'target-masked', `${unit} is masked by hand`, unmask(unit, look))
  }
  const says = `${unit} is not enabled: a reboot would not bring the node back`
  return repair(name, 'target-disabled', says, act(unit, 'enable'), 'enabled')
}

/** A tunnel is no longer looked at once its configuration is gone, and carries the browser's traffic all the same. */
function tunnelLeft(o: Observation, n: NodeLook): Finding | undefined {
  const { name } = n.node
  const unit = unitsOf(name).tunnel
  if (n.tunnelConfigured || o.units[unit]?.active !== 'active') return undefined
  const conf = `/etc/netvm/wireguard/${name}.conf`
  const says = `${unit} runs without ${conf}, so nobody looks at it: put the file back, or stop the tunnel`
  return report(name, 'tunnel-left', says, `systemctl stop ${unit}`)
}

/** What runs on when it is masked, and cannot be started again when it ends: reported before that happens. */
function masked(o: Observation, name: string): Finding[] {
  return nodeParts(name).flatMap((unit) => {
    const look = o.units[unit]
    if (look === undefined || !isMasked(look)) return []
    const says = `${unit} is masked by hand: it cannot be started again`
    return [report(name, 'unit-masked', says, unmask(unit, look))]
  })
}

/** A namespace that could not be made: nobody's to repair automatically. */
function namespace(o: Observation, name: string): Finding | undefined {
  const unit = unitsOf(name).netns
  const look = o.units[unit]
  if (look?.active !== 'failed') return undefined
  return report(name, 'netns-failed', `${unit} failed (${look.result})`, `netvm-node-up ${name}`)
}

function loopFindings(o: Observation, loop: (typeof LOOPS)[number]): (Finding | undefined)[] {
  const timer = `${loop}.timer`
  // A unit file that is missing is a finding of its own, and repaired before this one can be seen.
  if (o.missingUnitFiles.some((m) => m.name.endsWith(`/${timer}`) && m.copy !== undefined)) {
    const says = `${timer} was not there to fire`
    return [repair('fleet', 'timer-missing', says, act(timer, 'enable', 'restart'), 'enabled and armed')]
  }
  const held = o.legacy.some((l) => l.scope === 'fleet' && l.what.includes(loop))
  const want = { argv: `/usr/local/bin/${loop}`, periodMs: PERIOD_MS[loop], held, written: true }
  return scheduled(o, 'fleet', loop, want)
}

function orphanFindings(orphan: Orphan): Finding[] {
  const { name } = orphan
  const row = orphan.why === 'retired' ? 'its row is retired' : 'it has no row here'
  const { timer, target, watchdog } = unitsOf(name)
  const ours = [timer, target]
  const enabled = ours.filter((u) => orphan.enabled.includes(u))
  const stop = orphan.active.includes(timer) ? [timer] : []
  const running = orphan.active.filter((u) => !ours.includes(u) && u !== watchdog)
  const findings: Finding[] = []
  // Its settings stay while something of it runs: node-down needs the addresses.
  const removal: Action[] =
    running.length > 0 || orphan.files.length === 0
      ? []
      : [{ kind: 'remove-files', paths: orphan.files }, { kind: 'reload' }]
  if (enabled.length > 0 || stop.length > 0) {
    const ends = [
      ...stop.flatMap((unit) => act(unit, 'stop')),
      ...enabled.flatMap((unit) => act(unit, 'disable')),
    ]
    const says = `still supervised, but ${row}`
    findings.push(repair(name, 'orphan-supervised', says, [...ends, ...removal], 'supervision removed'))
  } else if (removal.length > 0) {
    findings.push(repair(name, 'orphan-files', `unit settings are left, but ${row}`, removal, 'removed'))
  }
  if (running.length > 0) {
    const says = `${running.join(', ')} still running, but ${row}`
    findings.push(report(name, 'orphan-running', says, `netvm-node-down ${name}`))
  }
  return findings
}

function legacyFinding(o: Observation, l: Legacy): Finding {
  const loop = LOOPS.find((name) => l.what.includes(name))
  const unit = l.scope === 'fleet' ? `${loop}.timer` : unitsOf(l.scope).timer
  const actions = l.armed && o.units[unit]?.active === 'active' ? act(unit, 'stop') : []
  const did = `${unit} stopped until it is gone: ${l.remove}`
  return { ...repair(l.scope, 'legacy', `supervised by ${l.what} as well`, actions, did), next: l.remove }
}
