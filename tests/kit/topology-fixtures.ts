import type { Node } from '../../lib/base/types.ts'
import { judgeBrowser } from '../../lib/browser/judge.ts'
import type { OwnedListener } from '../../lib/host/listeners.ts'
import { ifNames } from '../../lib/registry/names.ts'
import type { RowError } from '../../lib/registry/read.ts'
import { judgeTopology } from '../../lib/topology/judge.ts'
import type { FleetLook, InsideLook, NodeLook, Part, UnitSeen } from '../../lib/topology/types.ts'
import { asked, look as chromeboxLook } from './chromebox-fixtures.ts'

export const row = (name: string, octet: number, over: Partial<Node> = {}): Node => ({
  name,
  agent: name,
  netns: `warp-${name}`,
  cdpPort: 9400 + octet,
  gw: `10.201.${octet}.1`,
  peer: `10.201.${octet}.2`,
  relayTarget: `127.0.0.1:${9400 + octet}`,
  status: 'active',
  chatUrl: '',
  chatTitle: '',
  apiCheck: '',
  host: '',
  line: octet,
  ...over,
})
export const seen = <T>(value: T) => ({ seen: true, value }) as const
export const blind = (why: string) => ({ seen: false, why }) as const
export const names = ['muse', 'pip', 'old', 'far', 'bent', 'ghost']
export const link = (name: string, address: string) => ({
  name,
  up: true,
  ipv4: [`${address}/30`],
  ipv6: false,
})
export const systemd = { pid: 1, startTicks: 1, program: 'systemd', unit: 'init.scope', browser: false }
export const listener = (
  node: string,
  address: string,
  port: number,
  over: Partial<OwnedListener> = {},
): OwnedListener => ({
  netns: `warp-${node}`,
  address,
  port,
  inode: port,
  owners: [systemd],
  ...over,
})
export const socat = {
  pid: 77,
  startTicks: 5,
  program: 'socat TCP-LISTEN:9',
  unit: 'session-1.scope',
  browser: false,
}
export const errors: RowError[] = [{ line: 9, name: 'bent', reason: 'bad port' }]
export const muse = row('muse', 35)

export const museListeners: readonly OwnedListener[] = [
  listener('muse', '10.201.35.2', 9435),
  listener('muse', '127.0.0.1', 9435, { owners: [{ ...socat, browser: true }] }),
]
export const museUnits: readonly UnitSeen[] = [
  { id: 'cdp-relay@muse.socket', active: 'active', listen: ['10.201.35.2:9435'] },
  { id: 'netvm-netns@muse.service', active: 'active', listen: [] },
]
export const museInside: InsideLook = {
  inode: 5,
  links: seen([link(ifNames('muse').vpeer, '10.201.35.2'), link(ifNames('muse').wg, '172.16.0.2')]),
}
export const museLook: NodeLook = {
  watchdog: {
    node: 'muse',
    netns: seen({ exists: true, isNamespace: true, inode: 5 }),
    egress: { state: 'healthy', code: 'ok', reason: '', evidence: [], repair: false },
    browser: judgeBrowser(chromeboxLook(900), asked),
  },
  relay: {
    node: muse,
    veth: seen({ name: ifNames('muse').veth, exists: true, up: true, hasAddress: true }),
    answer: { kind: 'answer', status: 200, body: '', ms: 3 },
    browser: 'Chrome/156',
  },
}

/** One node, well, with nothing around it. */
export function fleet(over: Partial<FleetLook> = {}): FleetLook {
  return {
    host: 'lab',
    now: { wallMs: 1_000_000, bootMs: 1_000_000, bootId: 'boot-a' },
    netnsDir: '/run/netns',
    registry: {
      nodes: [muse, row('old', 40, { status: 'retired' }), row('far', 41, { host: 'other' })],
      errors,
    },
    names: new Map(['muse', 'old', 'far', 'bent'].map((n) => [n, ifNames(n)])),
    hostLinks: seen([link('lo', '127.0.0.1'), link(ifNames('muse').veth, '10.201.35.1')]),
    namespaces: seen({ names: ['warp-muse', 'docker-1'], others: [] }),
    inside: new Map([['warp-muse', museInside]]),
    listeners: seen(museListeners),
    units: seen(museUnits),
    browsers: seen([{ pid: 4711, node: 'muse', unit: 'chromebox@muse.service', netns: 5 }]),
    nodes: new Map([['muse', museLook]]),
    ...over,
  }
}
export const isLocal = (node: Node) => node.host === ''
export const judge = (over: Partial<FleetLook> = {}) => judgeTopology(fleet(over), isLocal)
export const stateOf = (over: Partial<FleetLook>, part: Part) =>
  judge(over).nodes[0]?.parts.find((m) => m.part === part)
