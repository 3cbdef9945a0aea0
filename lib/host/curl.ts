import { closeSync, fstatSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openNameless } from '../base/files.ts'
import { clean } from '../base/text.ts'
import type { Look } from '../base/types.ts'
import { type RunResult, run } from './exec.ts'
import { inNetns } from './netns.ts'

export interface FetchRequest {
  /** Absolute http(s) URL. */
  readonly url: string
  /** One deadline over name lookup, connect, headers and body. */
  readonly deadlineMs: number
  readonly wantBody: boolean
  /** A longer body counts as an error. Default 1 MiB. */
  readonly maxBytes?: number
}

export interface FetchResult {
  readonly url: string
  /** curl's exit code for this URL: 0 answered, 6 no such host, 7 refused, 28 out of time, 52 no answer... */
  readonly exitCode: number
  /** 0 when no status line was received. */
  readonly httpCode: number
  /** Empty unless wanted. What had arrived when the deadline passed is kept, so look at `exitCode` first. */
  readonly body: string
  readonly timeMs: number
  /** curl's words, cleaned; empty when it answered. */
  readonly error: string
}

const DEFAULT_MAX_BYTES = 1024 * 1024
/** A report is a line per URL of at most a few hundred characters. */
const MAX_REPORT = 256 * 1024
/**
 * An endless body is bounded by its speed: bytes a second times the deadline is all that can arrive.
 * (`--max-filesize` of curl 7.88 trusts Content-Length, and RLIMIT_FSIZE would end the other fetches too.)
 */
const BYTES_PER_SECOND = 4 * 1024 * 1024
/** curl's CURLE_URL_MALFORMAT and CURLE_FILESIZE_EXCEEDED. */
const MALFORMED = 3
const TOO_LARGE = 63

/**
 * Asks several URLs side by side with one curl process, inside a namespace when one is given. Ends at
 * about the longest deadline. Not seen means that curl could not be run there (missing, no such
 * namespace, not permitted); a URL that failed is seen, with its error.
 * @param slackMs added to the longest deadline before the whole process is ended
 */
export async function fetchInNetns(
  netns: string | undefined,
  requests: readonly FetchRequest[],
  { slackMs = 1000 }: { readonly slackMs?: number } = {},
): Promise<Look<FetchResult[]>> {
  // One malformed URL makes curl refuse the whole command line, so such a one never gets there.
  const asked = requests.flatMap((request, index) => (isHttpUrl(request.url) ? [{ request, index }] : []))
  const malformed = { exitCode: MALFORMED, httpCode: 0, body: '', timeMs: 0, error: 'not an http(s) URL' }
  const results: FetchResult[] = requests.map(({ url }) => ({ url, ...malformed }))
  if (asked.length === 0) return { seen: true, value: results }
  const fds: number[] = []
  let report: number | undefined
  try {
    report = openScratch()
    const jobs = asked.map(({ request, index }): Job => {
      return { request, index, ...(request.wantBody && { fd: fds.push(openScratch()) + FIRST_FD - 1 }) }
    })
    const curl = curlArgv(jobs)
    const longest = Math.max(...asked.map(({ request }) => request.deadlineMs))
    const ran = await run(netns === undefined ? curl : inNetns(netns, curl), {
      deadlineMs: longest + slackMs,
      fds,
      outputFd: report,
    })
    const printed = readFrom(report, MAX_REPORT)
    if (ran.missing)
      return { seen: false, why: `the program ${netns === undefined ? 'curl' : 'ip'} is missing` }
    const lines = parseReport(printed)
    for (const { request, index, fd } of jobs) {
      const line = lines.get(index)
      if (line === undefined) return { seen: false, why: notReported(netns, ran, printed) }
      const body = readBody(fd === undefined ? undefined : fds[fd - FIRST_FD], request, line)
      results[index] = { url: request.url, body: '', ...line, ...body }
    }
    return { seen: true, value: results }
  } catch (err) {
    return { seen: false, why: `cannot run curl: ${clean(String((err as Error).message))}` }
  } finally {
    for (const fd of [...fds, report]) if (fd !== undefined) closeSync(fd)
  }
}

/** Why a URL has no line: its own deadline makes curl report, so without one we could not look. */
function notReported(netns: string | undefined, ran: RunResult, printed: string): string {
  const where = netns === undefined ? '' : ` in ${netns}`
  if (ran.timedOut)
    return `curl${where} did not report in ${Math.round(ran.durationMs)} ms (is the host too busy?)`
  const said = clean(printed.trim())
  return `cannot run curl${where}: ${said === '' ? `exit code ${ran.code ?? ran.signal}` : said}`
}

/** `fd` is the number under which curl sees the scratch file of a body. */
interface Job {
  readonly request: FetchRequest
  readonly index: number
  readonly fd?: number
}

/** The first of a child's extra descriptors. */
const FIRST_FD = 3

function curlArgv(asked: readonly Job[]): string[] {
  // -q must come first: nobody's .curlrc changes what a probe means.
  const argv = ['curl', '-q', '--parallel', '--parallel-immediate', '--parallel-max', '100']
  asked.forEach(({ request, index, fd }, i) => {
    if (i > 0) argv.push('--next')
    argv.push('--silent', '--no-progress-meter', '--globoff', '--noproxy', '*', '--proto', '=http,https')
    argv.push('--max-time', (request.deadlineMs / 1000).toFixed(3), '--limit-rate', String(BYTES_PER_SECOND))
    argv.push('--output', fd === undefined ? '/dev/null' : `/dev/fd/${fd}`)
    argv.push('--write-out', `${index} %{exitcode} %{http_code} %{time_total} %{errormsg}\\n`)
    argv.push('--url', request.url)
  })
  return argv
}

type ReportLine = Pick<FetchResult, 'exitCode' | 'httpCode' | 'timeMs' | 'error'>

function parseReport(stdout: string): Map<number, ReportLine> {
  const lines = new Map<number, ReportLine>()
  for (const line of stdout.split('\n')) {
    const m = /^(\d+) (\d+) (\d+) (\d+\.?\d*) (.*)$/.exec(line)
    if (m === null) continue
    const exitCode = Number(m[2])
    const error = exitCode === 0 ? '' : clean(m[5] ?? '') || `curl exit code ${exitCode}`
    const timeMs = Math.round(Number(m[4]) * 1000)
    lines.set(Number(m[1]), { exitCode, httpCode: Number(m[3]), timeMs, error })
  }
  return lines
}

function readBody(fd: number | undefined, request: FetchRequest, line: ReportLine): Partial<FetchResult> {
  if (fd === undefined) return {}
  const max = request.maxBytes ?? DEFAULT_MAX_BYTES
  const size = fstatSync(fd).size
  const body = readFrom(fd, max)
  if (size <= max || line.exitCode !== 0) return { body }
  return { body, exitCode: TOO_LARGE, error: `body larger than ${max} bytes` }
}

/** The first bytes of a scratch file, from its start. */
function readFrom(fd: number, max: number): string {
  const bytes = Buffer.alloc(Math.min(fstatSync(fd).size, max))
  return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, 0)).toString('utf8')
}

function isHttpUrl(url: string): boolean {
  return /^https?:\/\/[^\s/]/i.test(url) && URL.canParse(url)
}

/** A file without a name, in memory where there is /dev/shm; gone when closed, even if we are killed. */
function openScratch(): number {
  try {
    return openNameless('/dev/shm')
  } catch {
    const dir = mkdtempSync(join(tmpdir(), 'netvm-'))
    try {
      return openSync(join(dir, 'body'), 'wx+', 0o600)
    } finally {
      rmSync(dir, { recursive: true })
    }
  }
}
