import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { NetvmError } from '../base/errors.ts'
import type { TunnelConf } from './wg-conf.ts'

/** How long the host's resolver may take, in milliseconds: glibc's own first retry comes after 5 s. */
const RESOLVE_DEADLINE_MS = 8_000

/** `ip:port` as `wg` writes it, IPv6 in brackets. */
function endpointText(address: string, port: number): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`
}

/**
 * Every address of a host name, by the host's resolver (outside the tunnel), in the resolver's order, which puts
 * families the host cannot reach last. Throws NetvmError when there is none within 8 s.
 */
async function resolveHost(host: string, deadlineMs: number): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${deadlineMs} ms`)), deadlineMs)
  })
  try {
    const found = await Promise.race([lookup(host, { all: true, verbatim: true }), late])
    return found.map((entry) => entry.address)
  } catch (err) {
    const { code, message } = err as NodeJS.ErrnoException
    const why = code ?? message
    throw new NetvmError(`endpoint ${host} does not resolve on the host (${why})`, {
      next: `getent ahosts ${host}`,
    })
  } finally {
    clearTimeout(timer)
  }
}

/** Every `ip:port` that each peer's endpoint stands for now, by the peer's public key. */
async function resolvePeers(conf: TunnelConf, deadlineMs: number): Promise<[key: string, all: string[]][]> {
  const resolved = conf.peers.map(async ({ publicKey, endpoint }): Promise<[string, string[]][]> => {
    if (endpoint === undefined) return []
    const addresses = await resolveHost(endpoint.host, deadlineMs)
    return [[publicKey, addresses.map((address) => endpointText(address, endpoint.port))]]
  })
  return (await Promise.all(resolved)).flat()
}

/** The address to connect to, for each peer that has an endpoint, by its public key. */
export async function resolveEndpoints(
  conf: TunnelConf,
  deadlineMs = RESOLVE_DEADLINE_MS,
): Promise<ReadonlyMap<string, string>> {
  const peers = await resolvePeers(conf, deadlineMs)
  return new Map(peers.flatMap(([key, [first]]) => (first === undefined ? [] : [[key, first]])))
}

/** Every `ip:port` that the configured endpoints stand for now. */
export async function allEndpoints(conf: TunnelConf, deadlineMs: number): Promise<string[]> {
  return (await resolvePeers(conf, deadlineMs)).flatMap(([, all]) => all)
}
