import { strict as assert } from 'node:assert'
import { before, test } from 'node:test'
import { FAST } from '../kit/lab/egress.ts'
import { statusIn } from '../kit/lab/shells.ts'
import { prepare } from '../kit/lab/truth-table.ts'
import { type WgServer, wgServer } from '../kit/lab/wg-server.ts'
import { bringUp, ok, receipt, sh, stopTimers, tick, untilTitled } from '../kit/lab.ts'

// What its owner saw failing stays failing, whoever else could not get that far later.
const NODE = 'muse'
const SEES = ['root', 'user'] as const
const BLIND = ['own-net', 'both'] as const
let server: WgServer

const agentHealth = () => sh(['systemctl', 'start', 'agent-health.service'], { deadlineMs: 180_000 })
const relay = () => sh(['systemctl', 'start', 'cdp-relay-watchdog.service'], { deadlineMs: 120_000 })

before(async () => {
  server = await wgServer()
  server.conf(NODE)
  prepare({
    ...FAST,
    NETVM_TUNNEL_VERIFY: 1,
    NETVM_API_DEADLINE: 2,
    NETVM_EGRESS_URLS: `"${server.addressUrl}"`,
  })
  bringUp(NODE, ['--title', server.title, '--url', server.url, '--api', '/'])
  stopTimers(NODE)
  ok(['systemctl', 'start', `chromebox-watchdog@${NODE}.timer`])
  await untilTitled(NODE)
})

test('everybody has looked: up, seen or not', () => {
  tick(NODE)
  relay()
  agentHealth()
  for (const shell of SEES) assert.equal(statusIn(shell, NODE).word, 'ACTIVE', statusIn(shell, NODE).raw)
  for (const shell of BLIND) assert.equal(statusIn(shell, NODE).word, 'ACTIVE [*]', statusIn(shell, NODE).raw)
})

test('a dead tunnel is one after agent-health has run', () => {
  server.cutNode(NODE)
  tick(NODE)
  assert.equal(receipt('chromebox-watchdog', NODE)?.verdict.layer, 'egress')
  agentHealth()
  const after = receipt('agent-health', NODE)
  assert.deepEqual([after?.verdict.state, after?.verdict.layer], ['unknown', 'egress'])
  for (const shell of [...SEES, ...BLIND]) {
    const { word, code, raw } = statusIn(shell, NODE)
    assert.deepEqual([word, code], ['DEGRADED egress', 1], `${shell}: ${raw}`)
  }
})

test('and well again once its owner has seen it so', async () => {
  server.mendNode(NODE)
  tick(NODE)
  relay()
  agentHealth()
  assert.equal(statusIn('root', NODE).word, 'ACTIVE', statusIn('root', NODE).raw)
})
