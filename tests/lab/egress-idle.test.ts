import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertQuiet, FAST, setStatus, tunnelNode } from '../kit/lab/egress.ts'
import { SITE, stubBrowsers, wgServer } from '../kit/lab/wg-server.ts'
import { patience, until, writeConfig } from '../kit/lab.ts'

// In a lab of its own, because it does nothing but wait: no other test's traffic may wake the tunnel.
test('an idle tunnel with an old handshake and working egress is no fault', {
  timeout: patience(300_000),
}, async (t) => {
  const server = await wgServer()
  server.conf('idle')
  writeConfig({ ...FAST, NETVM_EGRESS_URLS: `http://${SITE}/` })
  stubBrowsers('idle')
  assert.match(tunnelNode('idle', server.url), /egress/)
  // Retired for now: nobody's question about the fleet may wake its tunnel.
  setStatus('idle', 'retired')
  // A session is refused after 180 s (REJECT_AFTER_TIME of WireGuard): from then on its handshake is old by any rule.
  await until('the handshake is old', () => (server.handshakeAge('idle') ?? 0) > 181, 200_000, 5_000)
  t.diagnostic(`handshake ${Math.round(server.handshakeAge('idle') ?? 0)} s old`)
  setStatus('idle', 'active')
  assertQuiet('idle')
})
