import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { patience } from '../kit/unit.ts'

const root = mkdtempSync(join(tmpdir(), 'by-hand-'))
after(() => rmSync(root, { recursive: true, force: true }))
mkdirSync(join(root, 'etc/netvm'), { recursive: true })
writeFileSync(
  join(root, 'etc/netvm/NODES.md'),
  `| Node | Agent | Netns | CDP Port | Veth IP (host) | Peer IP (netns) | Relay Target | Status |
| --- | --- | --- | --- | --- | --- | --- | --- |
`,
)

const pipe = (program: string, env: Record<string, string>, rest = '') =>
  spawnSync('bash', ['--norc', '-c', `"$PROGRAM" ${rest}; exit "\${PIPESTATUS[0]}"`], {
    encoding: 'utf8',
    timeout: patience(20_000),
    env: {
      PATH: process.env.PATH,
      NETVM_ROOT: root,
      PROGRAM: new URL(`../../dist/${program}`, import.meta.url).pathname,
      ...env,
    },
  })

for (const program of ['cdp-relay-watchdog', 'agent-health']) {
  test(`${program}: silent when systemd started it`, () => {
    const r = pipe(program, { INVOCATION_ID: 'test' })
    assert.deepEqual([r.status, r.stdout, r.stderr], [0, '', ''])
  })
  test(`${program} | cat: says when the timer is due, like on a terminal`, () => {
    const r = pipe(program, {}, '| cat')
    assert.equal(r.status, 0, r.stderr)
    assert.match(r.stdout, new RegExp(`^${program}\\.timer `))
  })
  test(`${program} | true: a reader that has gone does not end the run`, () => {
    const r = pipe(program, {}, '| true')
    assert.deepEqual([r.status, r.stderr], [0, ''])
  })
}
