import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { before, beforeEach, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { evaluate } from '../../lib/cdp/evaluate.ts'
import { text } from '../../lib/report/codes.ts'
import { apiNode, check, grown, linesSince, memory, renderers, reset, start } from '../kit/lab/agent.ts'
import { inPage } from '../kit/lab/browser.ts'
import { addresses } from '../kit/lab/relay.ts'
import {
  browser,
  cursor,
  entries,
  logBytes,
  logText,
  ok,
  said,
  scaled,
  setSite,
  sh,
  titles,
  until,
  untilTitled,
} from '../kit/lab.ts'
import { logged, rx, says } from '../kit/says.ts'

const NODE = 'muse'
type Control = { status?: number; delayMs?: number; never?: boolean; redirect?: string }
const api = (control: Control) => setSite(NODE, { title: 'Chat', api: control })
const http = (status: number | string) => text('api-http', { status })
const pid = () => browser(NODE)?.pid
const RELAY = `cdp-relay@${NODE}.socket`

/** What the API has for an answer, as the configuration of this lab says. */
const deadlineMs = (): number =>
  Number(/^NETVM_API_DEADLINE=(.*)$/m.exec(readFileSync('/etc/netvm/netvm.env', 'utf8'))?.[1]) * 1000

/** What an expression in the chat page gives; undefined when the page says nothing within a second of a quick machine. */
async function asked(expression: string): Promise<unknown> {
  const at = addresses(NODE)
  const list = JSON.parse(ok(['curl', '-sS', '-m', '20', `http://${at.peer}:${at.port}/json/list`]))
  const page = list.find((target: { type: string; id: string }) => target.type === 'page')
  const url = `ws://${at.peer}:${at.port}/devtools/page/${page?.id}`
  const answer = await evaluate(url, expression, scaled(1000))
  return answer.kind === 'value' ? answer.value : undefined
}

before(() => apiNode(NODE, { NETVM_API_DEADLINE: 4 }))
beforeEach(async () => {
  api({})
  reset(NODE)
  // Whatever a test that failed left behind is no other one's beginning.
  sh(['systemctl', 'reset-failed', `cdp-relay@${NODE}.service`, RELAY])
  ok(['systemctl', 'start', RELAY])
  if ((await asked('1')) === 1) return
  ok(['systemctl', 'restart', `chromebox@${NODE}.service`])
  await untilTitled(NODE)
  await grown(NODE)
})

describe('what the API answers', () => {
  const cases: [string, Control | (() => Control), string][] = [
    ['204', { status: 204 }, ''],
    ['401', { status: 401 }, http(401)],
    ['403', { status: 403 }, http(403)],
    ['500', { status: 500 }, http(500)],
    ['nothing', { never: true }, text('api-timeout')],
    ['a login page', { redirect: '/elsewhere' }, http('3xx (redirected to http://127.0.0.1:8080/elsewhere)')],
    [
      'a login page of another origin',
      { redirect: 'http://localhost:8080/elsewhere?token=x' },
      http('3xx (redirected)'),
    ],
    [
      'a redirect to an API that fails',
      { redirect: '/api/other', status: 500 },
      http('500 (redirected to http://127.0.0.1:8080/api/other)'),
    ],
    ['its own address with a slash', { redirect: '/api/health/' }, ''],
    ['a redirect in a circle', { redirect: '/api/health' }, http('3xx (redirected)')],
    ['inside the deadline', () => ({ delayMs: deadlineMs() / 2 }), ''],
    ['outside the deadline', () => ({ delayMs: deadlineMs() * 1.5 }), text('api-timeout')],
  ]
  for (const [name, control, reason] of cases) {
    it(`${name}: ${reason || 'ok'}`, async () => {
      const before = pid()
      api(typeof control === 'function' ? control() : control)
      const run = await check()
      assert.equal(run.of(NODE).verdict.reason, reason)
      assert.equal(run.code, reason === '' ? 0 : 1)
      assert.equal(memory(NODE).strikes, reason === '' ? 0 : 1)
      assert.equal(pid(), before)
    })
  }

  it('well: not a byte in the log, not a line in the journal, a receipt', async () => {
    const [bytes, from] = [logBytes('agent-health'), cursor()]
    const done = sh(['systemctl', 'start', 'agent-health.service'])
    assert.equal(done.code, 0, done.all)
    assert.equal(said(from, 'agent-health.service'), '')
    assert.equal(logBytes('agent-health'), bytes)
    const shown = sh(['agent-health', 'status', '--json'])
    const [status] = JSON.parse(shown.stdout)
    assert.deepEqual(
      [status.node, status.circuit, status.strikes, status.last.state],
      [NODE, 'closed', 0, 'healthy'],
    )
  })
})

describe('a page that does not answer', () => {
  const faults: [string, () => Promise<void> | void][] = [
    ['an endless loop', () => inPage(NODE, 'setTimeout(() => { while (1); }, 50); 1')],
    ['an open dialog', () => inPage(NODE, 'setTimeout(() => alert("hello"), 50); 1')],
    ['a killed renderer', () => renderers(NODE).forEach((r) => void process.kill(r, 'SIGKILL'))],
  ]
  for (const [name, breakIt] of faults) {
    it(`${name}: renderer not responding, one strike, then one restart that helps`, async () => {
      const before = pid()
      await breakIt()
      await until('the page is stopped', async () => (await asked('1')) !== 1)
      const first = await check()
      assert.equal(first.of(NODE).verdict.reason, text('renderer-silent'))
      assert.deepEqual(titles(NODE), ['Chat'])
      assert.deepEqual([pid(), memory(NODE).strikes], [before, 1])
      const mark = logText('agent-health').length
      const second = await check()
      assert.equal(second.code, 0, JSON.stringify(second.of(NODE)))
      assert.deepEqual(
        second.of(NODE).actions.map((a) => [a.kind, a.helped]),
        [['restart-browser', true]],
      )
      assert.notEqual(pid(), before)
      const told = rx`INFO \[muse\] ${says('api-restart-ok', { took: /\d+s/ })} .*\{api-restart-ok\}`
      assert.match(linesSince(mark, NODE).join('\n'), told)
      assert.deepEqual([memory(NODE).strikes, memory(NODE).futile], [0, 0])
      await grown(NODE)
    })
  }
})

describe('what is in the way is no strike', () => {
  const unknown = async (run: ReturnType<typeof start>, code: RegExp) => {
    const { of, code: exit } = await run.done
    assert.equal(of(NODE).verdict.state, 'unknown', JSON.stringify(of(NODE).verdict))
    assert.match(of(NODE).verdict.code, code)
    assert.equal(exit, 2)
    assert.equal(memory(NODE).strikes, 0)
    return of(NODE).verdict
  }

  it('the page navigates once during the check: asked again, and well', async () => {
    api({ never: true })
    await inPage(
      NODE,
      'const whole = window.fetch; window.fetch = (...a) => { window.under = "way"; return whole(...a) }; 1',
    )
    const run = start()
    await until('the check has asked the API', async () => (await asked('window.under')) === 'way')
    api({})
    await inPage(NODE, 'location.reload(); 1')
    const { of } = await run.done
    assert.equal(of(NODE).verdict.state, 'healthy', JSON.stringify(of(NODE).verdict))
    await untilTitled(NODE)
  })

  it('the page navigates all the time: unknown', async () => {
    api({ never: true })
    const run = start()
    let running = true
    void run.done.then(() => {
      running = false
    })
    while (running) {
      await inPage(NODE, 'location.reload(); 1')
      await pause(200)
    }
    await unknown(run, /^(check-interrupted|api-unseen)$/)
    await untilTitled(NODE)
  })

  it('the WebSocket dies in the middle of the answer, every time: unknown', async () => {
    api({ never: true })
    const run = start()
    let running = true
    void run.done.then(() => {
      running = false
    })
    while (running) {
      await pause(300)
      sh(['systemctl', 'kill', '--signal=KILL', `cdp-relay@${NODE}.service`])
    }
    await unknown(run, /^(check-interrupted|api-unseen)$/)
  })

  it('the relay is down: unknown, on the relay’s layer', async () => {
    api({ status: 500 })
    ok(['systemctl', 'stop', `cdp-relay@${NODE}.socket`, `cdp-relay@${NODE}.service`])
    const { layer } = await unknown(start(), /^api-unseen$/)
    assert.equal(layer, 'relay')
  })

  it('all slots busy for the whole minute: unknown', async () => {
    api({ status: 500 })
    const script = 'exec 9>"$1"; flock 9; echo in; read -r _'
    const holders = [0, 1].map((n) =>
      // It reads a pipe of Node's, which bash takes for a remote shell's.
      spawn('bash', ['--norc', '-c', script, 'bash', `/run/netvm/cdp-queue/${NODE}/slot-${n}.lock`]),
    )
    try {
      for (const h of holders) await new Promise((r) => h.stdout.once('data', r))
      const run = start()
      await until('it waits in line', () => sh(['cdp-queue', 'depth', NODE]).stdout.includes('waits'))
      await unknown(run, /^no-slot$/)
    } finally {
      for (const h of holders) h.kill('SIGKILL')
    }
  })
})

describe('guards', () => {
  it('a paused node is watched, and neither struck nor restarted', async (t) => {
    api({ status: 500 })
    ok(['box', 'node', 'pause', NODE, '--for', '2h', '--reason', 'lab'])
    t.after(() => sh(['box', 'node', 'resume', NODE]))
    const [before, from] = [pid(), logText('agent-health').length]
    for (let i = 0; i < 3; i++) assert.equal((await check()).of(NODE).verdict.reason, http(500))
    assert.deepEqual([pid(), memory(NODE).strikes, linesSince(from, NODE)], [before, 0, []])
  })

  it('healthy again by the second look, under the lock: not restarted, and the strikes end', async () => {
    api({ status: 500 })
    await check()
    const [before, from] = [pid(), logText('agent-health').length]
    const holder = spawn('bash', [
      '--norc',
      '-c',
      'exec 9>>"$1"; flock 9; echo in; read -r _',
      'bash',
      `/run/netvm/locks/node-${NODE}.lock`,
    ])
    try {
      await new Promise((r) => holder.stdout.once('data', r))
      const run = start()
      // Kept before the lock is asked for.
      await until('the second strike', () => memory(NODE).strikes === 2, 60_000, 10)
      api({})
      holder.kill('SIGKILL')
      const { of, code } = await run.done
      const { verdict, actions, extra } = of(NODE)
      assert.deepEqual([code, verdict.state, actions, pid()], [0, 'healthy', [], before])
      assert.match(verdict.evidence.join(), rx`^${says('api-http', { status: 500 })}; a second look found`)
      assert.deepEqual([extra.strikes, extra.guard], [0, 'a second look found the API healthy'])
      assert.equal(memory(NODE).strikes, 0)
      const [strike, refused, ...more] = logged(linesSince(from, NODE).join('\n'))
      assert.match(strike?.text ?? '', /strike 2 of 2/)
      assert.match(refused?.text ?? '', /; not restarted: a second look found the API healthy$/)
      assert.deepEqual([strike?.level, refused?.level, more], ['FAIL', 'WARN', []])
    } finally {
      holder.kill('SIGKILL')
    }
  })

  it('--dry-run names what it would do, and does and writes nothing', async () => {
    api({ status: 500 })
    await check()
    const before = [pid(), JSON.stringify(memory(NODE)), logBytes('agent-health')]
    const dry = sh(['agent-health', '--dry-run'])
    assert.match(
      dry.stdout,
      rx`muse {2}api ✗ {2}${says('api-http', { status: 500 })}; would restart the browser, after a second look`,
    )
    assert.deepEqual([pid(), JSON.stringify(memory(NODE)), logBytes('agent-health')], before)
  })

  it('both supervisors in the same second on a dead browser: one launch', async () => {
    api({ status: 500 })
    await check()
    const from = cursor()
    const old = pid() ?? Number.NaN
    process.kill(old, 'SIGKILL')
    ok(['systemctl', 'start', '--no-block', `chromebox-watchdog@${NODE}.service`, 'agent-health.service'])
    await until('a new browser', () => pid() !== undefined && pid() !== old, 60_000)
    await untilTitled(NODE)
    await until(
      'both have ended',
      () =>
        !/activating/.test(
          sh(['systemctl', 'is-active', `chromebox-watchdog@${NODE}.service`, 'agent-health.service']).stdout,
        ),
      60_000,
    )
    // What every Chromium says once it is up; systemd's own "Started" is not in this journal.
    const launches = entries(from, `chromebox@${NODE}.service`).filter((e) =>
      /^DevTools listening on/.test(e.MESSAGE ?? ''),
    )
    assert.equal(launches.length, 1, said(from))
  })
})
