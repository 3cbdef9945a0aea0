import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { execa } from 'execa'
import { text } from '../../lib/report/codes.ts'
import { inShell, makeUser } from '../kit/lab/shells.ts'
import { browser, nodeUp, ok, setSite, sh, until, untilTitled, withDropIns } from '../kit/lab.ts'

// Browsers are restarted one after the other, and a fleet never loses two.
const NODES = ['muse', 'pip', '646', 'opm', 'def', 'dev']
const pids = () => Object.fromEntries(NODES.map((node) => [node, browser(node)?.pid]))

/** Runs the restart, and counts meanwhile how many browsers are missing at a time. */
async function restart(...args: string[]) {
  const run = execa('box', ['fleet', 'restart', ...args], { stdin: 'ignore', reject: false, all: true })
  let [over, most, looks] = [false, 0, 0]
  const done = run.finally(() => {
    over = true
  })
  while (!over) {
    most = Math.max(most, NODES.filter((node) => browser(node) === undefined).length)
    looks++
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const { exitCode, all } = await done
  return { code: exitCode, said: String(all), most, looks }
}

before(async () => {
  makeUser()
  for (const node of NODES) {
    setSite(node, { title: 'Chat' })
    nodeUp(node)
    await untilTitled(node)
  }
})

test('all at once is refused, and so is a plain user', () => {
  const old = pids()
  const bare = sh(['box', 'fleet', 'restart'])
  assert.equal(bare.code, 64, bare.all)
  assert.match(bare.all, /--rolling/)
  assert.equal(sh(inShell('user', ['box', 'fleet', 'restart', '--rolling'])).code, 77)
  assert.deepEqual(pids(), old)
})

test('six nodes: each gets a new browser, never more than one is missing, each is healthy before the next', async () => {
  const old = pids()
  const { code, said, most, looks } = await restart('--rolling')
  assert.equal(code, 0, said)
  assert.equal(most, 1, `${most} were missing at a time, in ${looks} looks`)
  for (const node of NODES) assert.notEqual(pids()[node], old[node], node)
  const order = [...said.matchAll(/^(\S+): restarted, healthy/gm)].map(([, node]) => node)
  assert.deepEqual(order, NODES, said)
  for (const node of NODES) await untilTitled(node)
  assert.match(
    readFileSync('/var/log/netvm/box.log', 'utf8'),
    /\[dev\] relaunch OK after \d+s \{relaunch-ok\}/,
  )
})

test('a node that is down already: nothing is touched', async () => {
  ok(['box', 'node', 'pause', 'opm', '--for', '1h'])
  sh(['systemctl', 'stop', 'chromebox@opm.service'])
  await until('it is gone', () => browser('opm') === undefined)
  const old = pids()
  const { code, said } = await restart('--rolling', 'muse', 'pip')
  assert.equal(code, 1, said)
  assert.match(said, /^opm: not healthy: .*; next: chromebox-watchdog opm --why$/m)
  assert.match(said, /^stopped; not restarted: muse pip$/m)
  assert.deepEqual(pids(), old)
  ok(['systemctl', 'start', 'chromebox@opm.service'])
  await untilTitled('opm')
})

test('a paused node is left alone, and the others are restarted', async (t) => {
  t.after(() => ok(['box', 'node', 'resume', 'opm']))
  const old = pids()
  const { code, said } = await restart('--rolling', 'opm', 'def')
  assert.equal(code, 0, said)
  assert.match(said, /^opm: paused by root, left as it is$/m)
  assert.equal(pids().opm, old.opm)
  assert.notEqual(pids().def, old.def)
})

test('the first that does not come back ends it, and the rest keep their browsers', async () => {
  const old = pids()
  const broken = '[Service]\nExecStart=\nExecStart=/bin/false\n'
  await withDropIns({ 'chromebox@646.service': broken }, async () => {
    const { code, said } = await restart('--rolling')
    assert.equal(code, 1, said)
    assert.ok(said.includes(`646: ${text('relaunch-failed', { reason: '' })}`), said)
    assert.match(said, /^stopped; not restarted: opm def dev$/m)
  })
  for (const node of ['opm', 'def', 'dev']) assert.equal(pids()[node], old[node], node)
  for (const node of ['muse', 'pip']) assert.notEqual(pids()[node], old[node], node)
})
