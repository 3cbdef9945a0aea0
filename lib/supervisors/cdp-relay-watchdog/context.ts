import { readdirSync } from 'node:fs'
import type { Paths } from '../../base/paths.ts'
import type { ReceiptAction } from '../../base/types.ts'
import { timerText } from '../../host/systemctl.ts'
import { readReceipt } from '../../store/receipts.ts'

const TIMER = 'cdp-relay-watchdog.timer'

/** One line for a person who starts a run by hand: is the timer armed, when is it due, what did the last run do. */
export async function contextLine(p: Paths): Promise<string> {
  const timer = await timerText(TIMER)
  const last = lastAction(p)
  const acted = last === undefined ? 'nothing restarted by the last run' : actedText(last)
  return `${TIMER} ${timer}; ${acted}`
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
