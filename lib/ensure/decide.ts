/** The whole of drift: what one look at the host says is wrong, and what mends it. Pure. */

import { PERIOD_MS } from '../evidence/owners.ts'
import { nodeInForce, removeForeign, serviceInForce, timerInForce } from './force.ts'
import { heldFinding, serviceFinding, timerFinding, unmask } from './timers.ts'
import type { Action, Finding, Legacy, NodeLook, Observation, Orphan } from './types.ts'

/** The loops that watch all rows in one run. */
export const LOOPS = ['cdp-relay-watchdog', 'agent-health'] as const

export const watchdogTimer = (node: string) => `chromebox-watchdog@${node}.timer`
export const watchdogService = (node: string) => `chromebox-watchdog@${node}.service`
export const nodeTarget = (node: string) => `netvm-node@${node}.target`

/** Every finding, in the order in which they are to be mended: files before the units that read them. */
export function decideDrift(o: Observation): Finding[] {
  return [
    ...o.missingUnitFiles.map(missingUnit),
    ...o.rowErrors.map(
      (e): Finding => ({
        scope: e.scope,
        code: 'row-refused',
        says: e.text,
        actions: [],
        did: '',
        next: e.next,
      }),
    ),
    ...staleManager(o),
    ...bootId(o),
    ...o.nodes.flatMap((n) => nodeFindings(o, n)),
    ...LOOPS.flatMap((loop) => loopFindings(o, loop)),
    ...o.orphans.flatMap(orphanFindings),
    ...o.legacy.map((l) => legacyFinding(o, l)),
  ]
}

function missingUnit(m: Observation['missingUnitFiles'][number]): Finding {
  const base = { scope: 'fleet', code: 'unit-file-missing', says: `the unit file ${m.name} is missing` }
  if (m.copy === undefined) {
    return { ...base, actions: [], did: '', next: 'scripts/install' }
  }
  const write: Action = { kind: 'write-file', path: m.name, text: m.copy }
  return { ...base, actions: [write, { kind: 'reload' }], did: 'put back' }
}

/** Unit files changed on disk that systemd has not read. */
function staleManager(o: Observation): Finding[] {
  // A unit that is refused, or masked with drop-ins, says so for ever; reloading changes nothing.
  const stale = Object.entries(o.units).filter(([, u]) => u.needReload && u.load === 'loaded')
  if (stale.length === 0) return []
  const units = stale.map(([name]) => name)
  const says = `systemd has not read the newest ${units.slice(0, 3).join(', ')}${units.length > 3 ? ' ...' : ''}`
  return [{ scope: 'fleet', code: 'needs-reload', says, actions: [{ kind: 'reload' }], did: 'reloaded' }]
}

/** Without it units and shells may read different boot ids, and take each other's receipts for another boot's. */
function bootId(o: Observation): Finding[] {
  if (!o.bootIdMissing) return []
  const says = '/run/netvm/boot-id is missing: receipts may read as those of another boot'
  const next = 'systemd-tmpfiles --create netvm.conf'
  return [{ scope: 'fleet', code: 'boot-id-missing', says, actions: [], did: '', next }]
}

function nodeFindings(o: Observation, n: NodeLook): Finding[] {
  const { name } = n.node
  const differ = settings(n)
  // Two supervisors on one browser kill it in turns: ours waits until the other one is gone.
  const held = o.legacy.some((l) => l.scope === name)
  const argv = `/usr/local/bin/chromebox-watchdog ${name}`
  const want = { argv, periodMs: PERIOD_MS['chromebox-watchdog'], held, written: differ === undefined }
  const findings = [differ, relayAddress(o, n), queue(n)]
  findings.push(...scheduled(o, name, watchdogTimer(name), watchdogService(name), want))
  findings.push(...nodeInForce(n.node, o.units), target(o, name), namespace(o, name))
  findings.push(tunnelLeft(o, n), ...masked(o, name))
  return findings.filter((f) => f !== undefined)
}

/** What re-arming cannot mend while the settings in force are what they are. */
const SCHEDULE = ['timer-never', 'timer-infinite', 'timer-once', 'timer-far', 'timer-stale']

/** A timer and the service it fires, together: what keeps one from working is often a fault of the other. */
function scheduled(
  o: Observation,
  scope: string,
  timer: string,
  service: string,
  want: { argv: string; periodMs: number; held: boolean; written: boolean },
): (Finding | undefined)[] {
  const [t, s] = [o.units[timer], o.units[service]]
  const timerForce = want.written ? timerInForce(scope, timer, t, want.periodMs) : undefined
  const serviceForce = serviceInForce(scope, service, s, want.argv)
  let drift = timerFinding(scope, timer, t, o.nowMs, s?.startedMs)
  // A timer whose service cannot be loaded does not start, or fails when it is due.
  const futile = s !== undefined && s.load !== 'loaded' && s.load !== 'not-found'
  if (drift && drift.actions.length > 0 && (want.held || futile)) drift = undefined
  if (drift && timerForce && SCHEDULE.includes(drift.code)) drift = undefined
  const stuck = serviceForce ? undefined : heldFinding(scope, timer, t, service, s, o.nowMs)
  const period = t?.periodMs
  const look = s && { ...s, ...(period !== undefined && { periodMs: period }) }
  return [
    timerForce,
    drift,
    serviceForce,
    stuck,
    serviceFinding(scope, service, look, o.nowMs, o.resetAgoMs[service]),
  ]
}

function settings(n: NodeLook): Finding | undefined {
  const differ = n.files.filter((f) => f.have !== f.want.text)
  if (differ.length === 0) return undefined
  const { name } = n.node
  const fresh = differ.every((f) => f.have === undefined)
  const what = differ.map((f) => f.want.what).join(', ')
  const actions: Action[] = differ.map((f) => ({
    kind: 'write-file',
    path: f.want.path,
    text: f.want.text,
  }))
  actions.push({ kind: 'reload' })
  const rearm = differ.some((f) => f.want.what === 'timer offset')
  // What runs keeps its old settings: only node-up may restart a browser for new ones.
  const takes = fresh ? '' : `; netvm-node-up ${name} makes what runs follow`
  return {
    scope: name,
    code: fresh ? 'settings-missing' : 'settings-differ',
    says: fresh ? `unit settings are missing (${what})` : `unit settings differ from the row (${what})`,
    actions: rearm && !fresh ? [...actions, { kind: 'restart', unit: watchdogTimer(name) }] : actions,
    did: `written${takes}`,
  }
}

/** The drop-in can be right and another one after it wrong: what systemd will bind is what counts. */
function relayAddress(o: Observation, n: NodeLook): Finding | undefined {
  const unit = `cdp-relay@${n.node.name}.socket`
  const listen = o.units[unit]?.listen
  const want = `${n.node.peer}:${n.node.cdpPort}`
  if (listen === undefined || n.files.some((f) => f.have !== f.want.text) || o.units[unit]?.needReload) {
    return undefined
  }
  if (listen.length === 1 && listen[0] === want) return undefined
  return {
    scope: n.node.name,
    code: 'relay-address-differs',
    says: `${unit} listens on ${listen.join(', ') || 'nothing'}, the row says ${want}`,
    actions: [],
    did: '',
    next: removeForeign(o.units[unit], /^(ListenStream|BindToDevice)$/) ?? `systemctl cat ${unit}`,
  }
}

function queue(n: NodeLook): Finding | undefined {
  if (n.queueReady) return undefined
  const { name } = n.node
  const says = 'its CDP queue is not there for the group netvm'
  return {
    scope: name,
    code: 'queue-missing',
    says,
    actions: [{ kind: 'make-queue', node: name }],
    did: 'made',
  }
}

function target(o: Observation, name: string): Finding | undefined {
  const unit = nodeTarget(name)
  const look = o.units[unit]
  if (look === undefined || look.load === 'not-found' || look.file === 'enabled') return undefined
  if (look.file.startsWith('masked')) {
    const says = `${unit} is masked by hand`
    return {
      scope: name,
      code: 'target-masked',
      says,
      actions: [],
      did: '',
      next: unmask(unit, look),
    }
  }
  return {
    scope: name,
    code: 'target-disabled',
    says: `${unit} is not enabled: a reboot would not bring the node back`,
    actions: [{ kind: 'enable', unit }],
    did: 'enabled',
  }
}

/** A tunnel is no longer looked at once its configuration is gone, and carries the browser's traffic all the same. */
function tunnelLeft(o: Observation, n: NodeLook): Finding | undefined {
  const { name } = n.node
  const unit = `netvm-tunnel@${name}.service`
  if (n.tunnelConfigured || o.units[unit]?.active !== 'active') return undefined
  const conf = `/etc/netvm/wireguard/${name}.conf`
  const says = `${unit} runs without ${conf}, so nobody looks at it: put the file back, or stop the tunnel`
  return { scope: name, code: 'tunnel-left', says, actions: [], did: '', next: `systemctl stop ${unit}` }
}

/** What runs on when it is masked, and cannot be started again when it ends: told before that happens. */
function masked(o: Observation, name: string): Finding[] {
  const parts = [
    'netvm-netns@NODE.service',
    'netvm-tunnel@NODE.service',
    'chromebox@NODE.service',
    'cdp-relay@NODE.socket',
    'cdp-relay@NODE.service',
  ]
  return parts.flatMap((part): Finding[] => {
    const unit = part.replace('NODE', name)
    const look = o.units[unit]
    if (look?.load !== 'masked' && !look?.file.startsWith('masked')) return []
    const says = `${unit} is masked by hand: it cannot be started again`
    return [{ scope: name, code: 'unit-masked', says, actions: [], did: '', next: unmask(unit, look) }]
  })
}

/** A namespace that could not be made: nobody's to repair automatically. */
function namespace(o: Observation, name: string): Finding | undefined {
  const unit = `netvm-netns@${name}.service`
  if (o.units[unit]?.active !== 'failed') return undefined
  const says = `${unit} failed (${o.units[unit]?.result})`
  return { scope: name, code: 'netns-failed', says, actions: [], did: '', next: `netvm-node-up ${name}` }
}

function loopFindings(o: Observation, loop: (typeof LOOPS)[number]): Finding[] {
  const [timer, service] = [`${loop}.timer`, `${loop}.service`]
  // A unit file that is missing is a finding of its own, and mended before this one can be seen.
  if (o.missingUnitFiles.some((m) => m.name.endsWith(`/${timer}`) && m.copy !== undefined)) {
    const verbs: Action[] = [
      { kind: 'enable', unit: timer },
      { kind: 'restart', unit: timer },
    ]
    const says = `${timer} was not there to fire`
    return [{ scope: 'fleet', code: 'timer-missing', says, actions: verbs, did: 'enabled and armed' }]
  }
  const held = o.legacy.some((l) => l.scope === 'fleet' && l.what.includes(loop))
  const want = { argv: `/usr/local/bin/${loop}`, periodMs: PERIOD_MS[loop], held, written: true }
  return scheduled(o, 'fleet', timer, service, want).filter((f) => f !== undefined)
}

function orphanFindings(orphan: Orphan): Finding[] {
  const { name } = orphan
  const row = orphan.why === 'retired' ? 'its row is retired' : 'it has no row here'
  const ours = [watchdogTimer(name), nodeTarget(name)]
  const enabled = ours.filter((u) => orphan.enabled.includes(u))
  const running = orphan.active.filter((u) => !ours.includes(u) && u !== watchdogService(name))
  const findings: Finding[] = []
  const stop = orphan.active.includes(watchdogTimer(name)) ? [watchdogTimer(name)] : []
  // Its settings stay while something of it runs: node-down needs the addresses.
  const files = running.length > 0 ? [] : orphan.files
  if (enabled.length > 0 || stop.length > 0) {
    findings.push({
      scope: name,
      code: 'orphan-supervised',
      says: `still supervised, but ${row}`,
      actions: [
        ...stop.map((unit) => ({ kind: 'stop', unit }) as const),
        ...enabled.map((unit) => ({ kind: 'disable', unit }) as const),
        ...removal(files),
      ],
      did: 'supervision removed',
    })
  } else if (files.length > 0) {
    const says = `unit settings are left, but ${row}`
    findings.push({ scope: name, code: 'orphan-files', says, actions: removal(files), did: 'removed' })
  }
  if (running.length > 0) {
    findings.push({
      scope: name,
      code: 'orphan-running',
      says: `${running.join(', ')} still running, but ${row}`,
      actions: [],
      did: '',
      next: `netvm-node-down ${name}`,
    })
  }
  return findings
}

function removal(files: readonly string[]): Action[] {
  return files.length === 0 ? [] : [{ kind: 'remove-files', paths: files }, { kind: 'reload' }]
}

function legacyFinding(o: Observation, l: Legacy): Finding {
  const loop = LOOPS.find((name) => l.what.includes(name))
  const unit = l.scope === 'fleet' ? `${loop}.timer` : watchdogTimer(l.scope)
  const armed = l.armed && o.units[unit]?.active === 'active'
  return {
    scope: l.scope,
    code: 'legacy',
    says: `supervised by ${l.what} as well`,
    actions: armed ? [{ kind: 'stop', unit }] : [],
    did: `${unit} stopped until it is gone: ${l.remove}`,
    next: l.remove,
  }
}
