import type { Config } from '../base/config.ts'
import type { FetchRequest, FetchResult } from '../host/curl.ts'

/**
 * The egress probes of one tick, which share the curl process of the CDP requests. Bodies are not wanted.
 * @param mostMs a deadline shorter than the probe's own
 */
export function egressRequests(config: Config, mostMs = Number.POSITIVE_INFINITY): FetchRequest[] {
  const deadlineMs = Math.min(config.probeDeadlineMs, mostMs)
  return config.egressUrls.map((url) => ({ url, deadlineMs, wantBody: false }))
}

/**
 * Any HTTP answer proves the way out, whatever its status: a captive 403 came through the tunnel too.
 * An answer whose headers came and whose body stalled (httpCode set, exit 28) counts as well.
 */
export function answered(result: FetchResult): boolean {
  return result.httpCode > 0
}

/** curl gave up before it had an address: 6 could not resolve, 28 with its resolver's own words. */
export function diedResolving(result: FetchResult): boolean {
  return result.exitCode === 6 || (result.exitCode === 28 && /resolv/i.test(result.error))
}
