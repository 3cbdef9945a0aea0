import { existsSync, readFileSync, statSync } from 'node:fs'
import type { Receipt, Supervisor } from '../../../lib/base/types.ts'
import { ok } from './run.ts'

export interface JournalEntry {
  readonly [field: string]: string | undefined
  readonly MESSAGE?: string
  readonly PRIORITY?: string
}

/** A position in the journal; read what came after it with `entries`. */
export function cursor(): string {
  ok(['journalctl', '--sync'])
  const shown = ok(['journalctl', '-n', '1', '-o', 'cat', '--show-cursor'])
  return /-- cursor: (.*)$/m.exec(shown)?.[1] ?? ''
}

/**
 * Every entry after the position, of one unit or of all. The filter is ours, not journalctl's:
 * with a match, --after-cursor skips an entry when the one at the cursor does not match.
 */
export function entries(after: string, unit?: string): JournalEntry[] {
  ok(['journalctl', '--sync'])
  const text = ok(['journalctl', '--all', '-o', 'json', ...(after === '' ? [] : [`--after-cursor=${after}`])])
  return text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as JournalEntry)
    .filter((entry) => unit === undefined || isOf(entry, unit))
}

function isOf(entry: JournalEntry, unit: string): boolean {
  return entry._SYSTEMD_UNIT === unit || entry.UNIT === unit || entry.OBJECT_SYSTEMD_UNIT === unit
}

/** What was said after the position, one message a line, systemd's own messages left out. */
export function said(after: string, unit?: string): string {
  return entries(after, unit)
    .filter((entry) => entry._COMM !== 'systemd' && entry.SYSLOG_IDENTIFIER !== 'systemd')
    .map((entry) => entry.MESSAGE ?? '')
    .join('\n')
}

const logFile = (supervisor: Supervisor): string => `/var/log/netvm/${supervisor}.log`

export function logText(supervisor: Supervisor): string {
  return existsSync(logFile(supervisor)) ? readFileSync(logFile(supervisor), 'utf8') : ''
}

export function logBytes(supervisor: Supervisor): number {
  return existsSync(logFile(supervisor)) ? statSync(logFile(supervisor)).size : 0
}

/** The supervisor's last receipt of the node, or undefined before its first run. */
export function receipt(supervisor: Supervisor, node: string): Receipt | undefined {
  const file = `/run/netvm/receipts/${supervisor}/${node}.json`
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Receipt) : undefined
}
