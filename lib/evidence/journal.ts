import type { Clocks } from '../base/damping.ts'
import { clean, seconds } from '../base/text.ts'
import { type Look, SUPERVISORS } from '../base/types.ts'
import { run } from '../host/exec.ts'
import { parseRuns } from './journal-parse.ts'
import { MAX_PERIODS, PERIOD_MS, unitOf } from './owners.ts'
import type { JournalFacts } from './types.ts'

/** What `parseRuns` reads; without this list journalctl prints some forty fields per entry. */
const FIELDS =
  'MESSAGE,MESSAGE_ID,UNIT,OBJECT_SYSTEMD_UNIT,_SYSTEMD_UNIT,PRIORITY,NETVM_NODE,NETVM_LEVEL,NETVM_LAYER,_PID,_UID,_BOOT_ID'

/** Entries of one node in the window: some eight runs of three supervisors, a handful of entries each. */
const ENTRIES_PER_NODE = 150

/** Why journalctl's answer is not one, from what it says besides (it exits 0 all the same); else undefined. */
export function journalProblem(stderr: string, code: number | null): string | undefined {
  if (/No journal files were found/i.test(stderr)) return 'no journal files were found'
  if (/insufficient permissions|not seeing messages from other users/i.test(stderr))
    return "no permission to read the system's journal"
  if (/Failed to parse timestamp/i.test(stderr)) return 'journalctl did not take the time'
  if (code !== 0) return `journalctl: ${clean(stderr.trim(), 120) || `exit code ${code}`}`
  return undefined
}

/**
 * Asks the journal once for all nodes: recent runs of their supervisors, root's entries only. Bounded by
 * time, by unit and by number of entries, so its size does not matter.
 */
export async function lookAtJournal(
  nodes: readonly string[],
  now: Clocks,
  deadlineMs: number,
): Promise<(node: string) => Look<JournalFacts>> {
  const windowMs = MAX_PERIODS * Math.max(...SUPERVISORS.map((s) => PERIOD_MS[s]))
  const units = new Set([
    'systemd-journald.service',
    ...nodes.flatMap((n) => SUPERVISORS.map((s) => `${unitOf(s, n)}.service`)),
  ])
  // `@<epoch>`: systemd 252 takes no ISO time that ends in Z.
  const since = `--since=@${Math.floor((now.wallMs - windowMs) / 1000)}`
  const limit = `--lines=${ENTRIES_PER_NODE * (nodes.length + 1)}`
  const argv = ['journalctl', '--no-pager', '-o', 'json', since, limit, `--output-fields=${FIELDS}`]
  for (const u of units) argv.push('-u', u)
  const r = await run([...argv, '_UID=0'], { deadlineMs, maxOutput: 64 * 1024 * 1024 })
  const why = r.missing
    ? 'the program journalctl is missing'
    : r.timedOut
      ? `journalctl gave no answer in ${deadlineMs} ms`
      : journalProblem(r.stderr, r.code)
  if (why !== undefined) return () => ({ seen: false, why })
  const facts = parseRuns(r.stdout, nodes, now)
  // Only when runs are missing is it worth asking whether they could have been there at all.
  const missing = nodes.some((n) => facts.get(n)?.runs.length === 0)
  const headers = missing ? await run(['journalctl', '--header', '--no-pager'], { deadlineMs }) : undefined
  const begins = headers === undefined ? undefined : beginsText(headers.stdout, now.wallMs, windowMs)
  const damaged = /truncated|corrupted/i.test(r.stderr) ? clean(r.stderr.trim(), 120) : undefined
  return (node) => {
    const f = facts.get(node) ?? { runs: [] }
    const late = begins === undefined || f.runs.length > 0 ? {} : { begins }
    return { seen: true, value: { ...f, ...late, ...(damaged === undefined ? {} : { incomplete: damaged }) } }
  }
}

/**
 * Says so when the journal's oldest entry is younger than the window (`journalctl --header`: microseconds in
 * hex after each file's "Head realtime timestamp"); undefined when it reaches back, or says nothing. Pure.
 */
export function beginsText(headers: string, nowMs: number, windowMs: number): string | undefined {
  const heads = [...headers.matchAll(/^Head realtime timestamp: .*\(([0-9a-f]+)\)$/gm)]
    .map((m) => Number.parseInt(m[1] ?? '', 16) / 1000)
    .filter((ms) => ms > 0)
  if (heads.length === 0) return undefined
  const oldest = Math.min(...heads)
  if (oldest <= nowMs - windowMs) return undefined
  return `it begins only ${seconds(Math.max(0, nowMs - oldest))} ago (vacuumed, or not kept over a boot)`
}
