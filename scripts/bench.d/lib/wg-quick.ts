import { mkdirSync, writeFileSync } from 'node:fs'
import { INTERNET, SITE, type WgServer } from '../../../tests/kit/lab/wg-server.ts'
import { ok, sh, until } from '../../../tests/kit/lab.ts'

const NET = 'bare-quick'
const WG = 'bareq'

/**
 * Milliseconds of `wg-quick down` and `up` with a handshake and an answer, the tool an operator would use. It works
 * in one namespace only, where its socket must reach the server: so it gets one with its own link to the lab's server.
 */
export async function wgQuick(server: WgServer, rounds: number): Promise<number[]> {
  server.conf(WG)
  const conf = ok(['cat', `/etc/netvm/wireguard/${WG}.conf`])
  mkdirSync('/etc/wireguard', { recursive: true })
  // Without DNS: that line needs resolvconf, which nothing else here does.
  const plain = conf.replace(/^DNS = .*\n/m, '').replace('wg.lab', '10.201.251.1')
  writeFileSync(`/etc/wireguard/${WG}.conf`, plain, { mode: 0o600 })
  ok(['ip', 'netns', 'add', NET])
  ok(['ip', '-n', NET, 'link', 'add', 'bare0', 'type', 'veth', 'peer', 'name', 'bare1', 'netns', INTERNET])
  ok(['ip', '-n', NET, 'address', 'add', '10.201.251.2/30', 'dev', 'bare0'])
  ok(['ip', '-n', INTERNET, 'address', 'add', '10.201.251.1/30', 'dev', 'bare1'])
  for (const [netns, link] of [
    [NET, 'lo'],
    [NET, 'bare0'],
    [INTERNET, 'bare1'],
  ] as const)
    ok(['ip', '-n', netns, 'link', 'set', link, 'up'])
  const inside = (...argv: string[]) => sh(['ip', 'netns', 'exec', NET, ...argv])
  const answers = (): boolean =>
    inside('curl', '-q', '-sf', '-o', '/dev/null', '-m', '1', `http://${SITE}/`).code === 0
  const quick = (verb: 'up' | 'down'): void => {
    const ran = inside('wg-quick', verb, WG)
    if (ran.code !== 0) throw new Error(`wg-quick ${verb}: ${ran.all}`)
  }
  quick('up')
  const times: number[] = []
  for (let i = 0; i < rounds; i++) {
    const began = performance.now()
    quick('down')
    quick('up')
    await until('it answers', answers, 10_000, 2)
    times.push(performance.now() - began)
  }
  quick('down')
  ok(['ip', 'netns', 'del', NET])
  return times
}
