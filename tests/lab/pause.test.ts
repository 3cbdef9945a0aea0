import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { inShell, statusIn } from '../kit/lab/shells.ts'
import { prepare } from '../kit/lab/truth-table.ts'
import { browser, cursor, nodeUp, ok, receipt, said, sh, tick, until, untilTitled } from '../kit/lab.ts'

// A pause keeps every supervisor off a node and ends by itself.
const NODE = 'muse'

test('a node comes up', async () => {
  prepare()
  nodeUp(NODE)
  await untilTitled(NODE)
})

test('only root pauses', () => {
  const r = sh(inShell('user', ['box', 'node', 'pause', NODE]))
  assert.equal(r.code, 77, r.all)
  assert.equal(statusIn('user', NODE).word, 'ACTIVE')
})

test('paused, a dead browser and a dead relay are reported and left alone', async () => {
  const out = ok(['box', 'node', 'pause', NODE, '--for', '10m', '--reason', 'signing in by hand'])
  assert.match(out, /paused for 10m/)
  const from = cursor()
  const relay = `cdp-relay@${NODE}.socket`
  sh(['systemctl', 'stop', relay, `cdp-relay@${NODE}.service`])
  // Its end starts the watchdog at once (OnSuccess=), which must not bring it back.
  sh(['systemctl', 'stop', `chromebox@${NODE}.service`])
  await until('it is gone', () => browser(NODE) === undefined, 20_000)
  for (let i = 0; i < 2; i++) {
    tick(NODE)
    for (const unit of ['cdp-relay-watchdog.service', 'agent-health.service'])
      sh(['systemctl', 'start', unit], { deadlineMs: 120_000 })
  }
  assert.equal(browser(NODE), undefined, said(from))
  assert.notEqual(sh(['systemctl', 'is-active', relay]).stdout.trim(), 'active', said(from))
  assert.deepEqual(receipt('chromebox-watchdog', NODE)?.actions, [])
  assert.deepEqual(receipt('cdp-relay-watchdog', NODE)?.actions, [])
  const screen = statusIn('user', NODE)
  assert.equal(screen.word, 'PAUSED')
  assert.equal(screen.beneath, 'STOPPED')
  assert.equal(screen.code, 1)
  assert.match(
    sh(['box', 'fleet', 'status']).stdout,
    /paused by root: signing in by hand, until \d\d:\d\d UTC/,
  )
})

test('it ends by itself, and the supervisors do their work again', async () => {
  ok(['box', 'node', 'pause', NODE, '--for', '3s'])
  assert.equal(statusIn('root', NODE).word, 'PAUSED')
  await until('the pause is over', () => statusIn('root', NODE).word !== 'PAUSED', 10_000, 200)
  tick(NODE)
  sh(['systemctl', 'start', 'cdp-relay-watchdog.service'], { deadlineMs: 120_000 })
  await untilTitled(NODE)
  await until('it is up', () => statusIn('user', NODE).word === 'ACTIVE', 10_000)
})

test('the history says what was done and that it helped', () => {
  const r = sh(inShell('user', ['box', 'node', 'history', NODE]))
  assert.equal(r.code, 0, r.all)
  assert.match(r.stdout, /relaunch in \d.*, helped; before: no chromium process for profile/)
  assert.match(r.stdout, /relay restart in .*, helped/)
})

test('resume ends it sooner', () => {
  ok(['box', 'node', 'pause', NODE])
  assert.equal(statusIn('root', NODE).word, 'PAUSED')
  assert.match(ok(['box', 'node', 'resume', NODE]), /resumed/)
  assert.equal(statusIn('root', NODE).word, 'ACTIVE')
  assert.match(ok(['box', 'node', 'resume', NODE]), /was not paused/)
})
