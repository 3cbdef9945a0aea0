import { textOf } from '../base/files.ts'
import { nodeEnvPath, type Paths } from '../base/paths.ts'
import type { Node } from '../base/types.ts'
import { type Names, network } from './names.ts'

/** SUB is the /30 with its prefix length; CHAT_URL may be empty. */
const KEYS = 'NODE NETNS VETH VPEER WG SUB GW PEER_IP CDP_PORT CHAT_URL'.split(' ') as (keyof NodeEnv)[]

/** What the units of a node need to know; their EnvironmentFile. A tick reads it instead of hashing. */
type NodeEnv = ReturnType<typeof nodeEnv>

type IfNames = Pick<Names, 'veth' | 'vpeer' | 'wg'>

/** Addresses and port are the row's, which may be pinned; only interface names come from `names`. */
function nodeEnv(node: Node, names: IfNames) {
  return {
    NODE: node.name,
    NETNS: node.netns,
    VETH: names.veth,
    VPEER: names.vpeer,
    WG: names.wg,
    SUB: `${network(node.gw)}/30`,
    GW: node.gw,
    PEER_IP: node.peer,
    CDP_PORT: String(node.cdpPort),
    CHAT_URL: node.chatUrl,
  }
}

/** The file's text. Single quotes are safe for systemd and a shell alike: no value can hold one (see the registry). */
export function renderNodeEnv(node: Node, names: IfNames): string {
  return Object.entries(nodeEnv(node, names))
    .map(([key, value]) => `${key}='${value}'\n`)
    .join('')
}

/** The node's file; undefined when it is not there, cannot be read, or is not whole. */
export function readNodeEnv(p: Paths, node: string): NodeEnv | undefined {
  const text = textOf(nodeEnvPath(p, node)) ?? ''
  const found = Object.fromEntries(
    Array.from(text.matchAll(/^([A-Z_]+)='([^'\n]*)'$/gm), ([, key, value]) => [key, value]),
  )
  if (!KEYS.every((k) => (k === 'CHAT_URL' ? k in found : found[k])) || found.NODE !== node) return undefined
  return Object.fromEntries(KEYS.map((k) => [k, found[k]])) as NodeEnv
}

/**
 * What the row says and the settings of the node's units do not yet: a browser that is started again would have
 * them still. Undefined when nothing is, or when the settings cannot be read.
 */
export function notApplied(p: Paths, node: Node): { what: 'port' | 'url'; text: string } | undefined {
  const env = readNodeEnv(p, node.name)
  if (env === undefined) return undefined
  if (env.CDP_PORT !== String(node.cdpPort)) {
    const text = `the row says port ${node.cdpPort}, its unit is still set to ${env.CDP_PORT}`
    return { what: 'port', text }
  }
  if (env.CHAT_URL === node.chatUrl) return undefined
  return { what: 'url', text: 'the row says another Chat URL than its unit is set to' }
}
