import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { textIfThere } from '../base/files.ts'
import type { Paths } from '../base/paths.ts'

/** Where the resolver file of a namespace is; `ip netns exec` and the browser's unit bind it over /etc/resolv.conf. */
export function resolvPath(p: Paths, netns: string): string {
  return join(p.netnsEtc, netns, 'resolv.conf')
}

/** Resolvers that a tunnel without a `DNS =` line uses: Warp's own, asked through the tunnel. */
const TUNNEL_DEFAULT_DNS = ['1.1.1.1', '1.0.0.1']

/**
 * The resolvers of a node: the `DNS =` lines of its WireGuard configuration. Without a tunnel there are
 * none, and the file then has no `nameserver` line: the C library asks 127.0.0.1, which in the namespace
 * refuses at once. The host's resolvers never stand here: a lookup through them would leave by the
 * host's uplink.
 */
export function resolversFrom(wireguardConf: string | undefined): readonly string[] {
  if (wireguardConf === undefined) return []
  const found: string[] = []
  for (const line of wireguardConf.split('\n')) {
    const match = /^\s*DNS\s*=\s*([^#]*)/i.exec(line)
    // wg-quick lets search domains stand among the addresses.
    for (const word of match?.[1]?.split(',') ?? []) if (isIP(word.trim()) !== 0) found.push(word.trim())
  }
  return found.length > 0 ? found : TUNNEL_DEFAULT_DNS
}

function renderResolv(resolvers: readonly string[]): string {
  const head = '# Written by netvm: the resolvers of this network namespace.\n'
  return head + resolvers.map((r) => `nameserver ${r}\n`).join('')
}

/** Whether the resolver file is there as `writeResolv` would leave it. */
export function resolvMatches(p: Paths, node: string, netns: string): boolean {
  return textIfThere(resolvPath(p, netns)) === wanted(p, node)
}

function wanted(p: Paths, node: string): string {
  return renderResolv(resolversFrom(textIfThere(join(p.wireguardDir, `${node}.conf`))))
}

/**
 * Writes the resolver file in place, keeping its inode: a rename is not seen through the bind mount that
 * a running browser has of it. Returns whether anything changed.
 */
export function writeResolv(p: Paths, node: string, netns: string): boolean {
  const path = resolvPath(p, netns)
  const text = wanted(p, node)
  if (textIfThere(path) === text) return false
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 })
  const fd = openSync(path, 'a', 0o644)
  closeSync(fd)
  const rw = openSync(path, 'r+')
  try {
    const bytes = Buffer.from(text)
    writeSync(rw, bytes, 0, bytes.length, 0)
    ftruncateSync(rw, bytes.length)
  } finally {
    closeSync(rw)
  }
  return true
}
