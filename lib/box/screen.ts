import { clean, seconds } from '../base/text.ts'
import type { Style } from '../cli/cli.ts'
import { MARKS, paintState } from '../cli/marks.ts'
import { phrase } from '../evidence/decide.ts'
import type { LayerKnowledge, NodeVerdict, PauseFact } from '../evidence/types.ts'
import { text } from '../report/codes.ts'

/** What the top line says of the host. */
export interface HostLine {
  readonly name: string
  readonly uplink: 'ok' | 'down' | 'unknown'
  /** One-minute load average. */
  readonly load: number
  readonly timers: { readonly armed: number; readonly of: number } | undefined
}

export interface NodeLine {
  readonly verdict: NodeVerdict
  readonly pause?: PauseFact | undefined
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
function remarks({ verdict: v, pause }: NodeLine, nowMs: number): string[] {
  const out: string[] = []
  if (pause !== undefined) {
    const paused = text('paused', { by: pause.by, reason: pause.reason || 'no reason given' })
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
export function nodeTexts(lines: readonly NodeLine[], nowMs: number, paint: Style): string[] {
  const nameWidth = Math.max(4, ...lines.map((l) => l.verdict.node.length))
  const wordWidth = Math.max(6, ...lines.map((l) => phrase(l.verdict).length))
  return lines.map((line) => {
    const v = line.verdict
    const word = painter(v, paint)(phrase(v).padEnd(wordWidth))
    const path = v.layers.map((k) => markOf(k, paint)).join(' ')
    const more = remarks(line, nowMs).map((r) => clean(r, 160))
    return `${v.node.padEnd(nameWidth)}  ${word}  ${path}${more.length === 0 ? '' : `  ${more.join('; ')}`}`
  })
}
