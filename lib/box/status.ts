import { hostname, loadavg } from 'node:os'
import { errorLine } from '../base/errors.ts'
import type { ExitCode } from '../base/exit-codes.ts'
import type { Paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import { SUPERVISORS } from '../base/types.ts'
import { isTty, type Style, style } from '../cli/cli.ts'
import { type Collected, collect } from '../evidence/collect.ts'
import { phrase } from '../evidence/decide.ts'
import { unitOf } from '../evidence/owners.ts'
import { exitOf, unknownText } from '../evidence/report.ts'
import { type Selection, select } from '../evidence/select.ts'
import type { RowError } from '../registry/read.ts'
import { refusedLine } from '../report/refused.ts'
import { type HostLine, hostText, nodeTexts } from './screen.ts'

/** Between two screens of `--watch`, in ms. */
const WATCH_MS = 2_000

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
  const lines = c.judged.map(({ verdict, facts }) => ({ verdict, pause: facts.intent }))
  const out = [hostText(hostLine(c), paint)]
  for (const b of c.sight.blind)
    out.push(paint.yellow(`this shell cannot see the host's ${clean(b)}; [*] is evidence`))
  out.push(...nodeTexts(lines, c.at.wallMs, paint))
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
      // Somebody is editing the registry, perhaps: say so, and look again.
      console.error(`box: ${errorLine(err)}`)
    }
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS))
  }
}
