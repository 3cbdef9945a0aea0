import { bootTimeMs, type Clocks } from '../base/damping.ts'
import { present } from '../base/present.ts'
import { fromJson, type Json, object } from '../base/shape.ts'
import { clean, seconds } from '../base/text.ts'
import { type Look, SUPERVISORS, type Supervisor } from '../base/types.ts'
import { run } from '../host/exec.ts'
import { type Message, meaning, readMessage } from './message.ts'
import { MAX_PERIODS, PERIOD_MS, unitOf } from './owners.ts'
import type { JournalFacts, JournalRun } from './types.ts'

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
    const late = f.runs.length > 0 ? undefined : begins
    return { seen: true, value: { runs: f.runs, incomplete: damaged ?? f.incomplete, begins: late } }
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

/** Message ids of systemd (`journalctl --catalog`, systemd/sd-messages.h). */
const UNIT_SUCCESS = '7ad2d189f7e94e70a38c781354912448'
const UNIT_FAILURE = 'd9b373ed55a64feb8242e02dbe79a49c'
const JOURNAL_DROPPED = 'a596d6fe7bfa4994828e72309e95d61e'

/**
 * A field of journalctl's JSON. Text with control characters or broken UTF-8 comes as an array of byte
 * values, a field too large as null, a field that is there twice as an array of texts.
 */
export function field(entry: Json, name: string): string {
  const v = entry[name]
  if (typeof v === 'string') return v
  if (!Array.isArray(v)) return ''
  if (v.every((b) => typeof b === 'number')) return Buffer.from(v as number[]).toString('utf8')
  return typeof v[0] === 'string' ? v[0] : ''
}

/** `chromebox-watchdog@muse.service` → supervisor and node; fleet-wide units have no node. */
function unitName(unit: string): { supervisor: Supervisor; node?: string } | undefined {
  const m = /^chromebox-watchdog@([a-z0-9][a-z0-9-]{0,31})\.service$/.exec(unit)
  if (m?.[1] !== undefined) return { supervisor: 'chromebox-watchdog', node: m[1] }
  if (unit === 'cdp-relay-watchdog.service') return { supervisor: 'cdp-relay-watchdog' }
  return unit === 'agent-health.service' ? { supervisor: 'agent-health' } : undefined
}

interface Line extends Message {
  readonly level: string
}

/** Lines of a run that is still open, by the node they are about. */
type Pending = Map<string, Line[]>

function outcomeOf(success: boolean, lines: readonly Line[]): JournalRun['outcome'] {
  if (!success) return 'failure'
  // Finding the lock taken ends in success for systemd (SuccessExitStatus=75) and proves nothing. Such a
  // run says so, and a healthy one says nothing at all but that a fault is over.
  const last = lines.at(-1)
  if (last === undefined) return 'success'
  const says = meaning(last, last.level)
  return says === 'over' || (says === undefined && last.level === 'PAGE') ? 'success' : 'locked'
}

/**
 * Reads `journalctl -o json`, oldest entry first, into runs per node. Only entries that root wrote may be
 * passed in (`_UID=0`): PID 1 reports how runs ended, the runs report what they found. Pure.
 */
export function parseRuns(
  json: string,
  nodes: readonly string[],
  now: Clocks,
): ReadonlyMap<string, JournalFacts> {
  const runs = new Map<string, JournalRun[]>(nodes.map((n) => [n, []]))
  const pending = new Map<string, Pending>()
  const incomplete = new Map<string, string>()
  for (const raw of json.split('\n')) {
    if (raw === '') continue
    const entry = fromJson(raw, object)
    // A torn line: what it said is lost, and it may have been a failure.
    if (entry === undefined) {
      for (const n of nodes) incomplete.set(n, 'an entry cannot be read')
      continue
    }
    if (field(entry, '_UID') !== '0') continue
    const id = field(entry, 'MESSAGE_ID')
    const message = clean(field(entry, 'MESSAGE'), 2500)
    if (id === JOURNAL_DROPPED) {
      for (const n of nodes) if (concerns(message, n)) incomplete.set(n, message)
      continue
    }
    if (field(entry, '_BOOT_ID') !== now.bootId) continue
    const byInit = field(entry, '_PID') === '1'
    const unit = byInit
      ? field(entry, 'UNIT')
      : field(entry, 'OBJECT_SYSTEMD_UNIT') || field(entry, '_SYSTEMD_UNIT')
    const name = unitName(unit)
    if (name === undefined) continue
    if (!byInit) {
      const about = name.node ?? field(entry, 'NETVM_NODE')
      // The text without `FAIL [muse] `, which the fields say as well.
      const text = message.replace(/^(INFO|WARN|FAIL|FAIL_LOUD|PAGE) \[[^\]]*\] /, '')
      const level =
        field(entry, 'NETVM_LEVEL') || (Number(field(entry, 'PRIORITY') || 6) <= 3 ? 'FAIL' : 'INFO')
      const of: Pending = pending.get(unit) ?? new Map()
      of.set(about, [...(of.get(about) ?? []), { level, ...readMessage(text, field(entry, 'NETVM_LAYER')) }])
      pending.set(unit, of)
    } else if (id === UNIT_SUCCESS || id === UNIT_FAILURE) {
      const ms = (clock: string) => Number(field(entry, `__${clock}_TIMESTAMP`)) / 1000
      const endBootMs = bootTimeMs({ monoMs: ms('MONOTONIC'), wallMs: ms('REALTIME') }, now)
      const said = pending.get(unit) ?? new Map()
      pending.delete(unit)
      for (const n of name.node === undefined ? nodes : [name.node]) {
        const lines = said.get(n) ?? []
        const failure = lines.findLast((l: Line) => meaning(l, l.level) === 'fault')
        const outcome = outcomeOf(id === UNIT_SUCCESS, lines)
        const why = outcome === 'success' ? undefined : failure
        runs.get(n)?.push(present({ supervisor: name.supervisor, endBootMs, outcome, failure: why }))
      }
    }
  }
  return new Map(nodes.map((n) => [n, present({ runs: runs.get(n) ?? [], incomplete: incomplete.get(n) })]))
}

/** Does "Suppressed N messages from X" take lines away that could be about the node? */
function concerns(message: string, node: string): boolean {
  return (
    message.includes(`chromebox-watchdog@${node}.service`) ||
    /cdp-relay-watchdog\.service|agent-health\.service|init\.scope/.test(message)
  )
}
