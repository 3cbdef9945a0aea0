import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { before, test } from 'node:test'
import {
  FAILING,
  linesSince,
  logMark,
  mainPid,
  SHORT,
  state,
  untilIdle,
  untilLine,
  untilOlder,
} from '../kit/lab/browser.ts'
import {
  installSites,
  nodeUp,
  ok,
  receipt,
  setSite,
  stopTimers,
  tick,
  titles,
  until,
  untilTitled,
  writeConfig,
} from '../kit/lab.ts'
import { rx, says } from '../kit/says.ts'

/** What Chromium titles the page that it shows when nobody answers: the host name of the URL. */
const HOST = '127.0.0.1'

// The title that is looked for occurs in the host name, and the page of the site itself is titled with that name.
before(async () => {
  writeConfig(SHORT)
  setSite('n1', { title: HOST })
  nodeUp('n1', { title: '127.0' })
  await untilTitled('n1', HOST)
  stopTimers('n1')
})

const page = () => receipt('chromebox-watchdog', 'n1')?.layers.find((l) => l.layer === 'page')

test('a page titled with its host name is well: it was asked, and is no error page', async () => {
  const [old, mark] = [mainPid('n1'), logMark()]
  assert.equal(tick('n1').result, 'success')
  assert.equal(page()?.state, 'ok')
  assert.equal(mainPid('n1'), old)
  assert.deepEqual(linesSince(mark, 'n1'), [])
})

test('without a relay nobody can ask it: unknown, and the browser is left alone', async () => {
  await untilOlder('n1')
  const old = mainPid('n1')
  ok(['systemctl', 'stop', 'cdp-relay@n1.socket'])
  try {
    assert.equal(tick('n1').status, '2')
    assert.equal(page()?.state, 'unknown')
    assert.match(
      receipt('chromebox-watchdog', 'n1')?.verdict.reason ?? '',
      rx`^${says('page-doubtful', { why: /over the relay: connect ECONNREFUSED.*/ })}`,
    )
    assert.equal(mainPid('n1'), old)
  } finally {
    ok(['systemctl', 'start', 'cdp-relay@n1.socket'])
  }
})

test('the site is down when the browser starts: its error page does not pass for the page', async (t) => {
  rmSync('/etc/systemd/system/chromebox@.service.d/lab-site.conf')
  ok(['systemctl', 'daemon-reload'])
  t.after(installSites)
  ok(['systemctl', 'stop', 'lab-site@n1.service'])
  writeConfig(FAILING)
  const mark = logMark()
  process.kill(mainPid('n1'), 'SIGKILL')
  const line = await untilLine('n1', mark, /\{relaunch-(failed|ok)\}/, 60_000)
  assert.match(
    line,
    rx`${says('relaunch-failed', { reason: new RegExp(says('error-page', { title: '127.0' })) })} \(error page: 127\.0\.0\.1, ERR_CONNECTION_REFUSED[;)]`,
  )
  await untilIdle('n1')
  assert.deepEqual(titles('n1'), [HOST], 'the target list itself does not tell')
  assert.equal(receipt('chromebox-watchdog', 'n1')?.verdict.code, 'error-page')
  writeConfig(SHORT)
  ok(['systemctl', 'start', 'lab-site@n1.service'])
  // By a relaunch after its back-off, or by Chromium, which loads a page that failed again after a while.
  await until(
    'the page is there again',
    () => tick('n1').result === 'success' && page()?.state === 'ok',
    60_000,
    500,
  )
  assert.equal(page()?.state, 'ok')
  assert.equal(state('n1').failures, 0)
})
