import type { Node } from '../../lib/base/types.ts'

/** A row of the registry as it is read, with the addresses of muse. */
export const row = (over: Partial<Node> = {}): Node => ({
  name: 'muse',
  agent: 'muse',
  netns: 'warp-muse',
  cdpPort: 9410,
  gw: '10.201.35.1',
  peer: '10.201.35.2',
  relayTarget: '127.0.0.1:9410',
  status: 'active',
  chatUrl: '',
  chatTitle: '',
  apiCheck: '',
  host: '',
  line: 3,
  ...over,
})
