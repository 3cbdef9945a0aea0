import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { before, it } from 'node:test'
import { apiNode, check, grown, linesSince, memory, reset, SHORT, STATE, start } from '../kit/lab/agent.ts'
import {
  browser,
  cursor,
  entries,
  logText,
  setSite,
  sh,
  until,
  untilTitled,
  writeConfig,
} from '../kit/lab.ts'

const NODE = 'muse'
/** Seconds. The recovery of a page is told after a 24th of its repeat interval has been well. */
const SET = { NETVM_CIRCUIT_COOLDOWN: 20, NETVM_PAGE_REPEAT: 60 }
const api = (status: number) => setSite(NODE, { title: 'Chat', api: { status } })
const pid = () => browser(NODE)?.pid
const status = () => JSON.parse(sh(['agent-health', 'status', '--json']).stdout)[0]

before(() => apiNode(NODE, SET))

/** Runs until the browser was restarted once; returns how many runs it took. */
async function untilRestart(): Promise<number> {
  const old = pid()
  for (let n = 1; n <= 4; n++) {
    await check()
    if (pid() !== old) {
      await grown(NODE)
      return n
    }
  }
  throw new Error(`no restart in 4 runs: ${logText('agent-health').slice(-500)}`)
}

it('three futile restarts open the circuit, which pages once and kills no more', {
  timeout: 120_000,
}, async () => {
  api(500)
  const mark = logText('agent-health').length
  for (let i = 1; i <= 3; i++) {
    assert.equal(await untilRestart(), 2)
    assert.equal(memory(NODE).futile, i)
  }
  const said = linesSince(mark, NODE).join('\n')
  assert.equal(
    said.match(/FAIL \[muse\] CRITICAL - still down after restart: api http 500 \(futile/g)?.length,
    3,
  )
  assert.match(said, /FAIL_LOUD \[muse\] circuit open: api http 500, and 3 restarts in a row did not help/)
  writeConfig({ ...SHORT, ...SET, NETVM_CIRCUIT_COOLDOWN: 600 })
  const before = pid()
  const runs = [await check(), await check(), await check()]
  assert.deepEqual(
    runs.map((r) => [r.code, r.of(NODE).extra.circuit, r.of(NODE).actions.length]),
    Array(3).fill([1, 'open', 0]),
  )
  assert.equal(pid(), before)
  const pages = linesSince(mark, NODE).filter((l) => l.includes(' PAGE '))
  assert.equal(pages.length, 1, pages.join('\n'))
  assert.match(
    pages[0] ?? '',
    /PAGE \[muse\] api-fault: circuit open: .*Look at \/api\/health.*; next: agent-health status muse/,
  )
  const shown = status()
  assert.deepEqual([shown.circuit, shown.futile, shown.trips7d], ['open', 3, 1])
  assert.ok(shown.nextProbeInMs > 0)
  assert.match(sh(['agent-health', 'status']).stdout, /restarts do not help; next probe in/)
})

it('half-open: one run restarts once, and opens it again', { timeout: 90_000 }, async () => {
  writeConfig({ ...SHORT, ...SET, NETVM_CIRCUIT_COOLDOWN: 1 })
  await until('half-open', () => status().circuit === 'half-open', 30_000)
  assert.equal(await untilRestart(), 1)
  writeConfig({ ...SHORT, ...SET, NETVM_CIRCUIT_COOLDOWN: 600 })
  const before = pid()
  assert.equal((await check()).of(NODE).extra.circuit, 'open')
  assert.equal(pid(), before)
  assert.equal(status().trips7d, 1)
})

it('the API heals: the next run closes the circuit, and the page recovers', { timeout: 60_000 }, async () => {
  api(200)
  const mark = logText('agent-health').length
  const from = cursor()
  assert.equal((await check()).code, 0)
  assert.deepEqual([memory(NODE).openedAt, memory(NODE).futile], [null, 0])
  assert.match(linesSince(mark, NODE).join('\n'), /INFO \[muse\] circuit closed/)
  await until(
    'the recovery is told',
    async () => {
      await check()
      return linesSince(mark, NODE).some((l) => /api-fault recovered/.test(l))
    },
    20_000,
  )
  assert.ok(entries(from).some((e) => e.NETVM_CODE === 'api-fault' && e.PRIORITY === '2'))
})

it('a run killed in the middle of its restart has counted it already', { timeout: 90_000 }, async () => {
  api(500)
  await check()
  const old = pid()
  const run = start()
  await until('the attempt is on disk', () => memory(NODE).pending !== 'none', 20_000, 10)
  process.kill(run.pid, 'SIGKILL')
  await run.done
  assert.equal(memory(NODE).futile, 1)
  if (pid() === undefined || pid() === old) sh(['systemctl', 'restart', `chromebox@${NODE}.service`])
  await untilTitled(NODE)
  await grown(NODE)
  await check()
  assert.deepEqual([memory(NODE).pending, memory(NODE).futile, memory(NODE).strikes], ['none', 1, 1])
})

it('a torn state file is an open circuit, kept and reported; reset closes it and asks for a review', {
  timeout: 60_000,
}, async () => {
  api(500)
  writeFileSync(STATE(NODE), '{"version":1,"strikes":')
  const [mark, before] = [logText('agent-health').length, pid()]
  for (let i = 0; i < 3; i++) assert.equal((await check()).of(NODE).extra.circuit, 'open')
  assert.equal(pid(), before)
  const said = linesSince(mark, NODE).filter((l) => l.includes('state file was corrupt'))
  assert.equal(said.length, 1, said.join('\n'))
  assert.match(reset(NODE), /muse: circuit closed by hand before its cooldown ended/)
  assert.deepEqual([memory(NODE).openedAt, memory(NODE).futile], [null, 0])
  assert.ok(status().reviews.some((r: { kind: string }) => r.kind === 'reset-early'))
})

it('a state that cannot be written is no kill', { timeout: 60_000 }, async () => {
  api(500)
  reset(NODE)
  await check()
  const before = pid()
  sh(['mount', '--bind', '/var/lib/netvm/agent-health', '/var/lib/netvm/agent-health'])
  sh(['mount', '-o', 'remount,bind,ro', '/var/lib/netvm/agent-health'])
  try {
    const run = await check()
    assert.equal(run.of(NODE).verdict.code, 'run-failed', JSON.stringify(run.of(NODE)))
    assert.equal(pid(), before)
  } finally {
    sh(['umount', '/var/lib/netvm/agent-health'])
  }
})
