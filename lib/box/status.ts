import { hostname, loadavg } from 'node:os'
import { errorLine } from '../base/errors.ts'
import type { ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean, seconds } from '../base/text.ts'
import { SUPERVISORS } from '../base/types.ts'
import { isTty, type Style, style } from '../cli/cli.ts'
import { MARKS, paintState } from '../cli/marks.ts'
import { type Collected, collect, type Judged } from '../evidence/collect.ts'
import { phrase } from '../evidence/decide.ts'
import { unitOf } from '../evidence/owners.ts'
import { exitOf, unknownText } from '../evidence/report.ts'
import { type Selection, select } from '../evidence/select.ts'
import type { LayerKnowledge, NodeVerdict } from '../evidence/types.ts'
import type { RowError } from '../registry/read.ts'
import { text as textOf } from '../report/codes.ts'
import { refusedLine } from '../report/refused.ts'

/** Between two screens of `--watch`, in ms. */
const WATCH_MS = 2_000

/** What the top line says of the host. */
export interface HostLine {
  readonly name: string
  readonly uplink: 'ok' | 'down' | 'unknown'
  /** One-minute load average. */
  readonly load: number
  readonly timers: { readonly armed: number; readonly of: number } | undefined
}

/** What the top line says, from what the nodes' facts say. Pure but for the host's name and load. */
export function hostLine(c: Collected): HostLine {
  const egress = c.judged.map((j) => j.verdict.layers.find((l) => l.layer === 'egress'))
  const down = egress.some((l) => l?.state === 'fail' && l.code === 'uplink-down')
  const uplink = down ? 'down' : egress.some((l) => l?.state === 'ok') ? 'ok' : 'unknown'
  const timers = new Map<string, boolean>()
  for (const { node, facts } of c.judged)
    for (const s of facts.units.seen ? SUPERVISORS : [])
      timers.set(unitOf(s, node.name), facts.units.seen && facts.units.value.timers[s].state === 'armed')
  const of = timers.size
  const armed = [...timers.values()].filter(Boolean).length
  return { name: hostname(), uplink, load: loadavg()[0] ?? 0, timers: of === 0 ? undefined : { armed, of } }
}

function markOf({ layer, state }: LayerKnowledge, paint: Style): string {
  if (state === 'absent') return paint.dim(`${layer}–`)
  return paintState(paint, state, `${layer}${MARKS[state]}`)
}

function painter(v: NodeVerdict, paint: Style): (s: string) => string {
  if (v.word === 'ACTIVE') return paint.green
  if (v.word === 'ACTIVE [*]') return paint.cyan
  return v.word === 'UNKNOWN' || v.word === 'PAUSED' ? paint.yellow : paint.red
}

/** `14:05` today, with the date when it is another day; UTC as in the logs. */
function untilText(wallMs: number, nowMs: number): string {
  const iso = new Date(wallMs).toISOString()
  const day = iso.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10) ? '' : `${iso.slice(0, 10)} `
  return `${day}${iso.slice(11, 16)} UTC (${seconds(Math.max(0, wallMs - nowMs))} left)`
}

/** What follows the marks: why, how it is known, who paused it, what else is wrong. */
function remarks({ verdict: v, facts: { intent: pause } }: Judged, nowMs: number): string[] {
  const out: string[] = []
  if (pause !== undefined) {
    const paused = textOf('paused', { by: pause.by, reason: pause.reason || 'no reason given' })
    out.push(`${paused}, until ${untilText(pause.untilWallMs, nowMs)}`)
  }
  if (v.reason !== '') out.push(v.reason)
  if (v.source !== 'live' && v.source !== 'none')
    out.push(`${v.source}, ${v.ageMs < 1000 ? 'now' : `${seconds(v.ageMs)} ago`}`)
  return [...out, ...v.notes]
}

/** The first line: the host. Pure. */
export function hostText(h: HostLine, paint: Style): string {
  const uplink =
    h.uplink === 'ok' ? paint.green('ok') : h.uplink === 'down' ? paint.red('DOWN') : paint.dim('not known')
  const { armed, of } = h.timers ?? {}
  const armedText = `${armed}/${of} armed`
  const timers = of === undefined ? paint.dim('not known') : armed === of ? armedText : paint.red(armedText)
  return `${paint.bold(h.name)}  uplink ${uplink} · load ${h.load.toFixed(2)} · timers ${timers}`
}

/** One line per node, the columns aligned. Pure. */
export function nodeTexts(judged: readonly Judged[], nowMs: number, paint: Style): string[] {
  const nameWidth = Math.max(4, ...judged.map((l) => l.verdict.node.length))
  const wordWidth = Math.max(6, ...judged.map((l) => phrase(l.verdict).length))
  return judged.map((line) => {
    const v = line.verdict
    const word = painter(v, paint)(phrase(v).padEnd(wordWidth))
    const path = v.layers.map((k) => markOf(k, paint)).join(' ')
    const more = remarks(line, nowMs).map((r) => clean(r, 160))
    return `${v.node.padEnd(nameWidth)}  ${word}  ${path}${more.length === 0 ? '' : `  ${more.join('; ')}`}`
  })
}

function toJson(c: Collected, refused: readonly RowError[]): unknown {
  return {
    host: hostLine(c),
    at: new Date(c.at.wallMs).toISOString(),
    blind: c.sight.blind,
    nodes: c.judged.map(({ verdict: v, facts }) => ({
      ...v,
      text: phrase(v),
      unknowns: v.unknowns.map(unknownText),
      pause: facts.intent,
    })),
    refused,
  }
}

function toText(c: Collected, { refused, registry }: Selection, paint: Style): string {
  const out = [hostText(hostLine(c), paint)]
  for (const b of c.sight.blind)
    out.push(paint.yellow(`this shell cannot see the host's ${clean(b)}; [*] is evidence`))
  out.push(...nodeTexts(c.judged, c.at.wallMs, paint))
  if (c.judged.length === 0) out.push('no active node in the registry')
  for (const r of refused) out.push(paint.red(clean(refusedLine(registry, r), 400)))
  const unsure = c.judged.filter((j) => j.verdict.beneath === 'UNKNOWN').map((j) => j.node.name)
  if (unsure.length > 0) out.push(paint.dim(`why unknown: host-evidence ${unsure.slice(0, 6).join(' ')}`))
  return out.join('\n')
}

/** `box fleet status`: one screen, or one every two seconds until interrupted. @returns the exit status */
export async function fleetStatus(
  p: Paths,
  names: readonly string[],
  options: { json?: true; watch?: true },
): Promise<ExitCode> {
  const paint = await style()
  const once = async (clear: string): Promise<ExitCode> => {
    // Anew each time: rows come and go while somebody watches.
    const of = select(p, names)
    const c = await collect(p, of.config, of.nodes)
    const text = options.json ? JSON.stringify(toJson(c, of.refused)) : toText(c, of, paint)
    console.log(`${clear}${text}`)
    return exitOf(c, of.refused.length)
  }
  if (!options.watch) return once('')
  const clear = !options.json && isTty() ? '\u001b[H\u001b[2J' : ''
  for (;;) {
    try {
      await once(clear)
    } catch (err) {
      // Somebody is editing the registry, perhaps: say so, and go on.
      console.error(`box: ${errorLine(err)}`)
    }
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS))
  }
}
