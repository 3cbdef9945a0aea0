import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { attempt } from '../base/attempt.ts'
import { wallIso } from '../base/clock.ts'
import { errnoOf, textOf } from '../base/files.ts'
import { type Paths, paths } from '../base/paths.ts'
import { clean } from '../base/text.ts'
import type { LogLevel } from '../base/types.ts'
import { runSync } from '../host/exec.ts'
import { formatLine, type Line, layerOf } from './line.ts'

export interface Log {
  /**
   * Writes one line, at once, to the log file and the journal. Never throws.
   * @param node a node's name, or `fleet` for a line about no single node
   * @param fields further journal fields; names are upper-cased and get the prefix `NETVM_` when they
   *   have none, so `page` is `NETVM_PAGE`
   */
  write(node: string, line: Line, fields?: Record<string, string>): void
}

/** syslog(3) priorities. A page is critical: what monitors wake people for. */
const PRIORITY: Readonly<Record<LogLevel, number>> = { INFO: 6, WARN: 4, FAIL: 3, FAIL_LOUD: 3, PAGE: 2 }

/** Longest value of a journal field, in characters: a line with its command fits. */
const MAX_FIELD = 2200
/** The journal's socket is local: no answer in this time means that it is gone. */
const JOURNAL_DEADLINE_MS = 3000

/** @param supervisor the program's name: names the file and the journal's identifier */
export function makeLog(supervisor: string, p: Paths = paths()): Log {
  return {
    write(node, given, fields = {}) {
      const { level, code, cause } = given
      const said = formatLine(given)
      const line = `${wallIso(Date.now())} ${level} [${clean(node, 40)}] ${said}`
      const failed = append(p.log, `${p.log}/${supervisor}.log`, line)
      const text = `${given.text} (not in ${p.log}/${supervisor}.log: ${failed})`
      const full = failed === undefined ? said : formatLine({ ...given, text })
      const layer = layerOf(code, cause) ?? ''
      const all = { ...fields, code, layer, ...(cause === undefined ? {} : { cause }) }
      const entry = journalEntry(supervisor, level, node, full, all, unitName(p))
      const journaled = toJournal(entry)
      const tty = process.stderr.isTTY === true
      // systemd takes a leading <N> as the priority, and knows the unit a stderr line came from.
      if (!journaled && !tty) stderr(`<${PRIORITY[level]}>${level} [${clean(node, 40)}] ${full}`)
      if (tty) stderr(failed === undefined ? line : `${line} (not logged: ${failed})`)
    },
  }
}

/** @returns why the line is not in the file, or undefined */
function append(dir: string, file: string, line: string): string | undefined {
  const data = Buffer.from(`${line}\n`)
  try {
    mkdirSync(dir, { recursive: true, mode: 0o755 })
    const fd = openSync(file, 'a', 0o644)
    try {
      // One write per line, so that lines of two processes do not mix. A nearly full disk takes a part of it.
      const n = writeSync(fd, data)
      return n === data.length ? undefined : 'ENOSPC'
    } finally {
      closeSync(fd)
    }
  } catch (err) {
    return errnoOf(err)
  }
}

/** The fields of one journal entry in logger(1)'s `--journald` input format. */
export function journalEntry(
  supervisor: string,
  level: LogLevel,
  node: string,
  text: string,
  fields: Record<string, string>,
  unit: string | undefined,
): string {
  const all: Record<string, string> = {
    ...Object.fromEntries(Object.entries(fields).map(([k, v]) => [fieldName(k), v])),
    MESSAGE: `${level} [${node}] ${text}`,
    PRIORITY: String(PRIORITY[level]),
    SYSLOG_IDENTIFIER: supervisor,
    NETVM_NODE: node,
    NETVM_SUPERVISOR: supervisor,
    NETVM_LEVEL: level,
  }
  // The journal sometimes reads the short-lived logger's cgroup too late and has no _SYSTEMD_UNIT then;
  // `journalctl -u` finds the entry by this field as well.
  if (unit !== undefined) all.OBJECT_SYSTEMD_UNIT = unit
  return Object.entries(all)
    .map(([k, v]) => `${k}=${clean(v, MAX_FIELD)}\n`)
    .join('')
}

function fieldName(key: string): string {
  const name = key.toUpperCase().replace(/[^A-Z0-9]+/g, '_')
  return /^(?:NETVM_|OBJECT_|MESSAGE_ID$)/.test(name) ? name : `NETVM_${name.replace(/^_+/, '')}`
}

function toJournal(entry: string): boolean {
  const r = runSync(['logger', '--journald'], { input: entry, deadlineMs: JOURNAL_DEADLINE_MS })
  return r.code === 0
}

/** The system unit this process runs in, from its cgroup; undefined in a login session. */
function unitName(p: Paths): string | undefined {
  const cgroups = textOf(`${p.proc}/self/cgroup`) ?? ''
  return UNIT_CGROUP.exec(cgroups)?.[1]
}

const UNIT_CGROUP = /^(?:0::|\d+:name=systemd:)\/system\.slice\/(?:.*\/)?([^/\n]+\.service)(?:\/|$)/m

/** A closed stderr is nobody's fault: there is nowhere left to say it. */
function stderr(line: string): void {
  attempt(() => writeSync(2, `${line}\n`))
}
