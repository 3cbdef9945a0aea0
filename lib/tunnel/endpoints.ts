import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { NetvmError } from '../base/errors.ts'
import type { TunnelConf } from './wg-conf.ts'

/** How long the host's resolver may take, in milliseconds: glibc's own first retry comes after 5 s. */
const RESOLVE_DEADLINE_MS = 8_000

/** `ip:port` as `wg` writes it, IPv6 in brackets. */
export function endpointText(address: string, port: number): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`
}

/**
 * Every address of a host name, by the host's resolver (outside the tunnel), in the resolver's order, which puts
 * families the host cannot reach last. Throws NetvmError when there is none within 8 s.
 */
export async function resolveHost(host: string, deadlineMs = RESOLVE_DEADLINE_MS): Promise<string[]> {
  if (isIP(host) !== 0) return [host]
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${deadlineMs} ms`)), deadlineMs)
  })
  try {
    const found = await Promise.race([lookup(host, { all: true, verbatim: true }), late])
    return found.map((entry) => entry.address)
  } catch (err) {
    const code = (err as NodeJS.ErrnoException).code
    const why = code ?? (err as Error).message
    throw new NetvmError(`endpoint ${host} does not resolve on the host (${why})`, {
      next: `getent ahosts ${host}`,
    })
  } finally {
    clearTimeout(timer)
  }
}

/** The address to connect to, for each peer that has an endpoint, by its public key. */
export async function resolveEndpoints(
  conf: TunnelConf,
  deadlineMs = RESOLVE_DEADLINE_MS,
): Promise<ReadonlyMap<string, string>> {
  const resolved = await Promise.all(
    conf.peers.flatMap(({ publicKey, endpoint }) =>
      endpoint === undefined
        ? []
        : [
            resolveHost(endpoint.host, deadlineMs).then(([first]): [string, string] => {
              return [publicKey, endpointText(first ?? endpoint.host, endpoint.port)]
            }),
          ],
    ),
  )
  return new Map(resolved)
}

/** Every `ip:port` that the configured endpoints stand for now. */
export async function allEndpoints(conf: TunnelConf, deadlineMs: number): Promise<string[]> {
  const lists = await Promise.all(
    conf.peers.flatMap(({ endpoint }) =>
      endpoint === undefined
        ? []
        : [
            resolveHost(endpoint.host, deadlineMs).then((all) =>
              all.map((address) => endpointText(address, endpoint.port)),
            ),
          ],
    ),
  )
  return lists.flat()
}
