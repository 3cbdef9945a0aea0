import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { everyShell, prepare, runAll } from '../kit/lab/truth-table.ts'
import { nodeUp, ok, sh, until, untilTitled } from '../kit/lab.ts'

// A browser that is well behind a relay, a veth or a tunnel that is not.
const NODES = ['relay', 'veth', 'tunnel', 'squat']

const env = (node: string): Record<string, string> =>
  Object.fromEntries(
    ok(['netvm-names', node])
      .split(/\s+/)
      .map((kv) => kv.split('=').map((s) => s.replaceAll("'", '')) as [string, string]),
  )

test('four nodes come up', async () => {
  prepare()
  for (const node of NODES) {
    nodeUp(node)
    await untilTitled(node)
  }
  for (const node of NODES) runAll(node)
})

test('one relay is gone and cannot be started again', () => {
  sh(['systemctl', 'stop', 'cdp-relay@relay.socket', 'cdp-relay@relay.service'])
  ok(['systemctl', 'mask', '--runtime', 'cdp-relay@relay.socket'])
  runAll('relay')
})
everyShell('relay-down', 'relay')

test('one veth loses its address on the host', () => {
  ok(['ip', 'addr', 'flush', 'dev', env('veth').VETH ?? ''])
  runAll('veth')
})
everyShell('veth-lost', 'veth')

test('one tunnel leads nowhere', () => {
  const key = ok(['wg', 'genkey'])
  const peer = ok(['sh', '-c', 'wg genkey | wg pubkey'])
  const conf = `[Interface]
PrivateKey = ${key}
Address = 10.9.0.2/32
[Peer]
PublicKey = ${peer}
AllowedIPs = 0.0.0.0/0
Endpoint = 192.0.2.1:51820
`
  writeFileSync('/etc/netvm/wireguard/tunnel.conf', conf, { mode: 0o600 })
  sh(['systemctl', 'restart', 'netvm-tunnel@tunnel.service'], { deadlineMs: 60_000 })
  runAll('tunnel')
})
everyShell('tunnel-cut', 'tunnel')

test('something else sits on one relay’s address, and its owner has not run since', async () => {
  const { NETNS = '', PEER_IP = '', CDP_PORT = '' } = env('squat')
  sh(['systemctl', 'stop', 'cdp-relay@squat.socket', 'cdp-relay@squat.service'])
  const argv = ['netns', 'exec', NETNS, 'python3', '-m', 'http.server', '--bind', PEER_IP, CDP_PORT]
  spawn('ip', argv, { stdio: 'ignore', cwd: '/tmp' }).unref()
  const asked = ['curl', '-s', '-o', '/dev/null', '-m', '2', `http://${PEER_IP}:${CDP_PORT}/json/version`]
  await until('the squatter answers', () => sh(asked).code === 0, 10_000)
})
everyShell('squatted-relay', 'squat')
