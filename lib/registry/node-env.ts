import { readFileSync } from 'node:fs'
import { nodeEnvPath, type Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import type { Names } from './names.ts'

/** What the units of a node need to know; their EnvironmentFile. A tick reads it instead of hashing. */
export interface NodeEnv {
  readonly NODE: string
  readonly NETNS: string
  readonly VETH: string
  readonly VPEER: string
  readonly WG: string
  /** The /30 with its prefix length. */
  readonly SUB: string
  readonly GW: string
  readonly PEER_IP: string
  readonly CDP_PORT: string
  /** May be empty. */
  readonly CHAT_URL: string
}

const KEYS: readonly (keyof NodeEnv)[] = [
  'NODE',
  'NETNS',
  'VETH',
  'VPEER',
  'WG',
  'SUB',
  'GW',
  'PEER_IP',
  'CDP_PORT',
  'CHAT_URL',
]

/**
 * The file's text. Addresses and port are the row's, which may be pinned; only interface names come from
 * `names`. Single quotes are safe for systemd and a shell alike: no value can hold one (see the registry).
 */
export function renderNodeEnv(node: Node, names: Pick<Names, 'veth' | 'vpeer' | 'wg'>): string {
  const dot = node.gw.lastIndexOf('.')
  const env: NodeEnv = {
    NODE: node.name,
    NETNS: node.netns,
    VETH: names.veth,
    VPEER: names.vpeer,
    WG: names.wg,
    SUB: `${node.gw.slice(0, dot)}.${Number(node.gw.slice(dot + 1)) & ~3}/30`,
    GW: node.gw,
    PEER_IP: node.peer,
    CDP_PORT: String(node.cdpPort),
    CHAT_URL: node.chatUrl,
  }
  return `${KEYS.map((k) => `${k}='${env[k]}'`).join('\n')}\n`
}

/** The node's file; undefined when it is not there, cannot be read, or is not whole. */
export function readNodeEnv(p: Paths, node: string): NodeEnv | undefined {
  let text: string
  try {
    text = readFileSync(nodeEnvPath(p, node), 'utf8')
  } catch {
    return undefined
  }
  const found: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const m = /^([A-Z_]+)='([^']*)'$/.exec(line)
    if (m?.[1] !== undefined) found[m[1]] = m[2] ?? ''
  }
  if (!KEYS.every((k) => k in found && (k === 'CHAT_URL' || found[k] !== '')) || found.NODE !== node)
    return undefined
  return Object.fromEntries(KEYS.map((k) => [k, found[k]])) as unknown as NodeEnv
}

/**
 * What the row says and the settings of the node's units do not yet: a browser that is started again would have
 * them still. Undefined when nothing is, or when the settings cannot be read.
 */
export function notApplied(
  p: Paths,
  node: Node,
): { readonly what: 'port' | 'url'; readonly text: string } | undefined {
  const env = readNodeEnv(p, node.name)
  if (env === undefined) return undefined
  if (env.CDP_PORT !== String(node.cdpPort)) {
    return {
      what: 'port',
      text: `the row says port ${node.cdpPort}, its unit is still set to ${env.CDP_PORT}`,
    }
  }
  if (env.CHAT_URL !== node.chatUrl) {
    return { what: 'url', text: 'the row says another Chat URL than its unit is set to' }
  }
  return undefined
}
