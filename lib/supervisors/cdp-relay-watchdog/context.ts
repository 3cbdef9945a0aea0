import { readdirSync } from 'node:fs'
import { now } from '../../clock.ts'
import type { Paths } from '../../paths.ts'
import { readReceipt } from '../../receipts.ts'
import { parseTimer, show, TIMER_PROPS } from '../../systemd.ts'
import { seconds } from '../../text.ts'
import type { ReceiptAction } from '../../types.ts'

const TIMER = 'cdp-relay-watchdog.timer'

/** One line for a person who starts a run by hand: is the timer armed, when is it due, what did the last run do. */
export async function contextLine(p: Paths): Promise<string> {
  const timer = await timerText(p)
  const last = lastAction(p)
  const acted = last === undefined ? 'nothing restarted by the last run' : actedText(last)
  return `${TIMER} ${timer}; ${acted}`
}

async function timerText(p: Paths): Promise<string> {
  const look = await show([TIMER], TIMER_PROPS)
  if (!look.seen) return `not seen (${look.why})`
  const state = parseTimer(look.value[TIMER] ?? {})
  if (!state.loaded) return 'not installed'
  if (!state.active) return 'not armed'
  if (!Number.isFinite(state.nextElapseMs)) return 'armed, running now'
  return `armed, next in ${seconds(Math.max(0, state.nextElapseMs - now(p).bootMs))}`
}

function lastAction(p: Paths): { node: string; action: ReceiptAction } | undefined {
  let names: string[] = []
  try {
    names = readdirSync(`${p.receipts}/cdp-relay-watchdog`).filter((n) => n.endsWith('.json'))
  } catch {
    return undefined
  }
  const found = names.flatMap((file) => {
    const node = file.slice(0, -'.json'.length)
    const look = readReceipt(p, 'cdp-relay-watchdog', node)
    return look.seen ? (look.value?.actions ?? []).map((action) => ({ node, action })) : []
  })
  return found.sort((a, b) => b.action.startedWallMs - a.action.startedWallMs)[0]
}

function actedText({ node, action }: { node: string; action: ReceiptAction }): string {
  const at = new Date(action.startedWallMs).toISOString().slice(11, 16)
  return `last acted ${at}Z on ${node} (${action.kind}), ${action.helped ? 'helped' : 'did not help'}`
}
