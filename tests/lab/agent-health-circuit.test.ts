import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
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
import { logged, rx, says } from '../kit/says.ts'

const NODE = 'muse'
/** Seconds. The recovery of a page is told after a 24th of its repeat interval has been well. */
const SET = { NETVM_CIRCUIT_COOLDOWN: 1800, NETVM_PAGE_REPEAT: 60 }
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

describe('three futile restarts', () => {
  const took: number[] = []
  const futile: number[] = []
  let mark = 0
  const told = () => linesSince(mark, NODE).join('\n')

  before(async () => {
    api(500)
    mark = logText('agent-health').length
    for (let i = 1; i <= 3; i++) {
      took.push(await untilRestart())
      futile.push(memory(NODE).futile)
    }
  })

  it('each takes two failing looks, and is counted and told', () => {
    assert.deepEqual(
      [took, futile],
      [
        [2, 2, 2],
        [1, 2, 3],
      ],
    )
    const lines = logged(told()).filter((l) => l.code === 'api-restart-futile')
    assert.deepEqual(
      lines.map((l) => l.level),
      ['FAIL', 'FAIL', 'FAIL'],
    )
    for (const { text: words } of lines) assert.match(words, rx`${says('api-restart-futile')}`)
  })

  it('open the circuit, which pages once and kills no more', async () => {
    const what = /.*, and 3 restarts in a row did not help.*/
    assert.match(told(), rx`FAIL_LOUD \[muse\] ${says('circuit-open', { what })} \{.*\}`)
    const old = pid()
    const runs = [await check(), await check(), await check()]
    assert.deepEqual(
      runs.map((r) => [r.code, r.of(NODE).extra.circuit, r.of(NODE).actions.length]),
      Array(3).fill([1, 'open', 0]),
    )
    assert.equal(pid(), old)
    const pages = logged(told()).filter((l) => l.level === 'PAGE')
    assert.equal(pages.length, 1, told())
    assert.match(pages[0]?.text ?? '', rx`^api-fault: ${says('circuit-open')}Look at /api/health`)
    assert.equal(pages[0]?.next, 'agent-health status muse')
    const shown = status()
    assert.deepEqual([shown.circuit, shown.futile, shown.trips7d], ['open', 3, 1])
    assert.ok(shown.nextProbeInMs > 0)
    assert.match(sh(['agent-health', 'status']).stdout, /restarts do not help; next probe in/)
  })

  it('half-open: one run restarts once, and opens it again', async () => {
    writeConfig({ ...SHORT, ...SET, NETVM_CIRCUIT_COOLDOWN: 1 })
    await until('half-open', () => status().circuit === 'half-open')
    assert.equal(await untilRestart(), 1)
    writeConfig({ ...SHORT, ...SET })
    const old = pid()
    assert.equal((await check()).of(NODE).extra.circuit, 'open')
    assert.equal(pid(), old)
    assert.equal(status().trips7d, 1)
  })
})

it('the API heals: the next run closes the circuit, and the page recovers', async () => {
  api(200)
  const mark = logText('agent-health').length
  const from = cursor()
  assert.equal((await check()).code, 0)
  assert.deepEqual([memory(NODE).openedAt, memory(NODE).futile], [null, 0])
  assert.match(
    linesSince(mark, NODE).join('\n'),
    rx`INFO \[muse\] ${says('circuit-closed')}.*\{circuit-closed\}`,
  )
  await until(
    'the recovery is told',
    async () => {
      await check()
      return logged(linesSince(mark, NODE).join('\n')).some(
        (l) => l.level === 'PAGE' && l.code === 'api-recovered',
      )
    },
    60_000,
  )
  assert.ok(entries(from).some((e) => e.NETVM_CODE === 'api-recovered' && e.PRIORITY === '2'))
})

it('a run killed in the middle of its restart has counted it already', async () => {
  api(500)
  await check()
  const old = pid()
  const run = start()
  await until('the attempt is on disk', () => memory(NODE).pending !== 'none', 60_000, 10)
  process.kill(run.pid, 'SIGKILL')
  await run.done
  assert.equal(memory(NODE).futile, 1)
  if (pid() === undefined || pid() === old) sh(['systemctl', 'restart', `chromebox@${NODE}.service`])
  await untilTitled(NODE)
  await grown(NODE)
  await check()
  assert.deepEqual([memory(NODE).pending, memory(NODE).futile, memory(NODE).strikes], ['none', 1, 1])
})

it('a torn state file is an open circuit, kept and reported; reset closes it and asks for a review', async () => {
  api(500)
  writeFileSync(STATE(NODE), '{"version":1,"strikes":')
  const [mark, before] = [logText('agent-health').length, pid()]
  for (let i = 0; i < 3; i++) assert.equal((await check()).of(NODE).extra.circuit, 'open')
  assert.equal(pid(), before)
  const said = linesSince(mark, NODE).filter((l) => logged(l)[0]?.code === 'state-corrupt')
  assert.equal(said.length, 1, said.join('\n'))
  assert.match(reset(NODE), rx`^muse: ${says('circuit-reset', { early: ' before its cooldown ended' })}`)
  assert.deepEqual([memory(NODE).openedAt, memory(NODE).futile], [null, 0])
  assert.ok(status().reviews.some((r: { kind: string }) => r.kind === 'reset-early'))
})

it('a state that cannot be written is no kill', async () => {
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
