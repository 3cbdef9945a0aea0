import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import fc from 'fast-check'
import { nodeEnvPath } from '../../lib/base/paths.ts'
import type { Node } from '../../lib/base/types.ts'
import { ifNames } from '../../lib/registry/names.ts'
import { readNodeEnv, renderNodeEnv } from '../../lib/registry/node-env.ts'
import { parseRegistry } from '../../lib/registry/read.ts'
import { cells, line, nodeName, registry } from '../kit/registry-fixtures.ts'
import { tempPaths } from '../kit/temp.ts'

function node(name: string, over: Record<string, string> = {}): Node {
  const [n] = parseRegistry(registry([line(cells(name, over))])).nodes
  assert.ok(n)
  return n
}

const TEXT = `NODE='muse'
NETNS='warp-muse'
VETH='ve-4016c3db'
VPEER='vp-4016c3db'
WG='wg-4016c3db'
SUB='10.201.35.0/30'
GW='10.201.35.1'
PEER_IP='10.201.35.2'
CDP_PORT='9410'
CHAT_URL='https://x.test/?a=1&b=$c'
`
const pinned = {
  'CDP Port': '9410',
  'Relay Target': '127.0.0.1:9410',
  'Chat URL': 'https://x.test/?a=1&b=$c',
}

test('the file of a node, with the row’s pinned port', () => {
  assert.equal(renderNodeEnv(node('muse', pinned), ifNames('muse')), TEXT)
})

test('a pinned address gives its own /30', () => {
  const n = node('muse', { 'Veth IP (host)': '10.201.9.253', 'Peer IP (netns)': '10.201.9.254' })
  assert.match(renderNodeEnv(n, ifNames('muse')), /^SUB='10\.201\.9\.252\/30'$/m)
})

test('every node’s file is read back, by us and by a shell alike', (t) => {
  const p = tempPaths(t)
  mkdirSync(p.nodesDir, { recursive: true })
  fc.assert(
    fc.property(nodeName, (name) => {
      const n = node(name, { 'Chat URL': 'https://x.test/$(id)`id`"\\;&' })
      writeFileSync(nodeEnvPath(p, name), renderNodeEnv(n, ifNames(name)))
      const env = readNodeEnv(p, name)
      assert.deepEqual(
        [env?.NODE, env?.GW, env?.CDP_PORT, env?.CHAT_URL],
        [name, n.gw, String(n.cdpPort), n.chatUrl],
      )
      const sh = spawnSync('sh', ['-c', '. "$1"; printf %s "$CHAT_URL"', 'sh', nodeEnvPath(p, name)])
      assert.equal(sh.stdout.toString(), n.chatUrl)
    }),
    { numRuns: 20 },
  )
})

const NOT_WHOLE: [string, string | undefined][] = [
  ['missing', undefined],
  ['empty', ''],
  ['torn', TEXT.slice(0, 150)],
  ['a key missing', TEXT.replace(/^WG=.*\n/m, '')],
  ['a key empty', TEXT.replace(/^GW=.*$/m, "GW=''")],
  ['of another node', TEXT.replace("NODE='muse'", "NODE='pip'")],
  ['without quotes', TEXT.replaceAll("'", '')],
]
for (const [what, text] of NOT_WHOLE) {
  test(`not used: ${what}`, (t) => {
    const p = tempPaths(t)
    mkdirSync(p.nodesDir, { recursive: true })
    if (text !== undefined) writeFileSync(nodeEnvPath(p, 'muse'), text)
    assert.equal(readNodeEnv(p, 'muse'), undefined)
  })
}

test('an empty chat URL is fine', (t) => {
  const p = tempPaths(t)
  mkdirSync(p.nodesDir, { recursive: true })
  writeFileSync(nodeEnvPath(p, 'muse'), TEXT.replace(/^CHAT_URL=.*$/m, "CHAT_URL=''"))
  assert.equal(readNodeEnv(p, 'muse')?.CHAT_URL, '')
})
