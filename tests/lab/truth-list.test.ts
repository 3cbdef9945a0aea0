import { strict as assert } from 'node:assert'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { statusIn } from '../kit/lab/shells.ts'
import { prepare } from '../kit/lab/truth-table.ts'
import { stubBrowsers } from '../kit/lab/wg-server.ts'
import { bringUp, sh, stopTimers, until } from '../kit/lab.ts'

// A browser whose /json/version answers and whose /json/list does not: for its watchdog that is a fault, and so it is
// on every screen.
const NODE = 'muse'
const STUB = '/usr/local/lib/lab/stub-browser.mjs'
const HANGS = '/usr/local/lib/lab/list-hangs'

const approvals = () => sh(['box', 'approvals', 'check', NODE, '--json'], { deadlineMs: 20_000 })
const part = (name: string): string => {
  const { nodes } = JSON.parse(sh(['netvm-topology', '--json'], { deadlineMs: 60_000 }).stdout)
  return nodes[0].parts.find((p: { part: string }) => p.part === name).state
}
const marks = (raw: string): Record<string, string> =>
  Object.fromEntries(
    JSON.parse(raw).nodes[0].layers.map((l: { layer: string; state: string }) => [l.layer, l.state]),
  )

before(async () => {
  prepare({ NETVM_FRESH_BROWSER: 3600, NETVM_PROBE_DEADLINE: 2, NETVM_INNER_DEADLINE: 1 })
  stubBrowsers(NODE)
  const stub = readFileSync(STUB, 'utf8')
  const list = "else if (request.url?.startsWith('/json')) response.end"
  assert.ok(stub.includes(list))
  const hanging = `else if (request.url === '/json/list' && existsSync('${HANGS}')) return\n  ${list}`
  writeFileSync(STUB, `import { existsSync } from 'node:fs'\n${stub.replace(list, hanging)}`)
  bringUp(NODE, ['--title', 'Chat', '--url', 'http://site.lab/'])
  stopTimers(NODE)
  await until('the list is read', () => approvals().stdout.includes('"OK"'), 60_000)
})

test('while the list comes, CDP and page are well', () => {
  const { cdp, page } = marks(statusIn('root', NODE).raw)
  assert.deepEqual([cdp, page, part('cdp'), part('page')], ['ok', 'ok', 'ok', 'ok'])
})

test('when it does not, every screen says that CDP fails', () => {
  writeFileSync(HANGS, '')
  const look = sh(['chromebox-watchdog', NODE, '--dry-run', '--json'], { deadlineMs: 60_000 })
  assert.equal(JSON.parse(look.stdout).verdict.code, 'cdp-unreachable', look.all)
  for (const shell of ['root', 'user'] as const) {
    const { word, code, raw } = statusIn(shell, NODE)
    assert.deepEqual([word, code], ['DEGRADED cdp', 1], raw)
  }
  const check = approvals()
  assert.deepEqual([JSON.parse(check.stdout)[0].word, check.code], ['DOWN', 1], check.all)
  assert.equal(part('cdp'), 'fail')
})

test('and when it comes again, none does', () => {
  rmSync(HANGS)
  assert.equal(JSON.parse(approvals().stdout)[0].word, 'OK')
  assert.equal(part('cdp'), 'ok')
})
