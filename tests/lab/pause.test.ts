import { strict as assert } from 'node:assert'
import { before, describe, test } from 'node:test'
import { text } from '../../lib/report/codes.ts'
import { inShell, statusIn } from '../kit/lab/shells.ts'
import { prepare, runAll } from '../kit/lab/truth-table.ts'
import {
  browser,
  cursor,
  nodeUp,
  ok,
  receipt,
  said,
  scaledSeconds,
  sh,
  tick,
  until,
  untilTitled,
} from '../kit/lab.ts'

// A pause keeps every supervisor off a node and ends by itself.
const NODE = 'muse'
const RELAY = `cdp-relay@${NODE}.socket`

before(async () => {
  prepare()
  nodeUp(NODE)
  await untilTitled(NODE)
  runAll(NODE)
})

test('only root pauses', () => {
  const r = sh(inShell('user', ['box', 'node', 'pause', NODE]))
  assert.equal(r.code, 77, r.all)
  assert.equal(statusIn('user', NODE).word, 'ACTIVE')
})

describe('paused, a dead browser and a dead relay', () => {
  let from = ''

  before(async () => {
    const out = ok(['box', 'node', 'pause', NODE, '--for', '2h', '--reason', 'signing in by hand'])
    assert.match(out, /paused for 2h/)
    from = cursor()
    sh(['systemctl', 'stop', RELAY, `cdp-relay@${NODE}.service`])
    // Its end starts the watchdog at once (OnSuccess=), which must not bring it back.
    sh(['systemctl', 'stop', `chromebox@${NODE}.service`])
    await until('it is gone', () => browser(NODE) === undefined)
    for (let i = 0; i < 2; i++) {
      tick(NODE)
      for (const unit of ['cdp-relay-watchdog.service', 'agent-health.service'])
        sh(['systemctl', 'start', unit], { deadlineMs: 120_000 })
    }
  })

  test('are left alone', () => {
    assert.equal(browser(NODE), undefined, said(from))
    assert.notEqual(sh(['systemctl', 'is-active', RELAY]).stdout.trim(), 'active', said(from))
    assert.deepEqual(receipt('chromebox-watchdog', NODE)?.actions, [])
    assert.deepEqual(receipt('cdp-relay-watchdog', NODE)?.actions, [])
  })

  test('are reported', () => {
    const screen = statusIn('user', NODE)
    assert.equal(screen.word, 'PAUSED')
    assert.equal(screen.beneath, 'STOPPED')
    assert.equal(screen.code, 1)
    assert.match(
      sh(['box', 'fleet', 'status']).stdout,
      /paused by root: signing in by hand, until \d\d:\d\d UTC/,
    )
  })
})

describe('at its end', () => {
  let word = ''

  before(async () => {
    // Long enough to be seen before it is over.
    ok(['box', 'node', 'pause', NODE, '--for', `${Math.ceil(scaledSeconds(10))}s`])
    word = statusIn('root', NODE).word
    sh(['systemctl', 'stop', RELAY, `cdp-relay@${NODE}.service`, `chromebox@${NODE}.service`])
    await until('the pause is over', () => statusIn('root', NODE).word !== 'PAUSED', 60_000, 200)
    tick(NODE)
    sh(['systemctl', 'start', 'cdp-relay-watchdog.service'], { deadlineMs: 120_000 })
    await untilTitled(NODE)
    runAll(NODE)
  })

  test('the supervisors do their work again', async () => {
    assert.equal(word, 'PAUSED')
    await until('it is up', () => statusIn('user', NODE).word === 'ACTIVE')
  })

  test('the history says what was done and that it helped', () => {
    const r = sh(inShell('user', ['box', 'node', 'history', NODE]))
    assert.equal(r.code, 0, r.all)
    const told = r.stdout.split('\n')
    const relaunch = told.find((line) => / relaunch in \d.*, helped/.test(line))
    assert.ok(relaunch?.includes(text('no-process')), r.stdout)
    assert.match(r.stdout, /relay restart in .*, helped/)
  })
})

test('resume ends it sooner', () => {
  ok(['box', 'node', 'pause', NODE, '--for', '2h'])
  assert.equal(statusIn('root', NODE).word, 'PAUSED')
  assert.match(ok(['box', 'node', 'resume', NODE]), /resumed/)
  assert.equal(statusIn('root', NODE).word, 'ACTIVE')
  assert.match(ok(['box', 'node', 'resume', NODE]), /was not paused/)
})
