import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { beginsText, field, journalProblem, parseRuns } from '../../lib/evidence/journal.ts'
import { parseLog } from '../../lib/evidence/logs.ts'
import { meaning, readMessage } from '../../lib/evidence/message.ts'
import { NOW } from '../kit/truth-model.ts'

const UNIT = 'chromebox-watchdog@muse.service'
const SUCCESS = '7ad2d189f7e94e70a38c781354912448'
const FAILURE = 'd9b373ed55a64feb8242e02dbe79a49c'
const DROPPED = 'a596d6fe7bfa4994828e72309e95d61e'

const CLOCKS = { ...NOW, aheadMs: 0 }
const base = { _UID: '0', _BOOT_ID: NOW.bootId, __MONOTONIC_TIMESTAMP: '3500000000' }
const ended = (id = SUCCESS, over = {}) => ({
  ...base,
  _PID: '1',
  UNIT,
  MESSAGE_ID: id,
  MESSAGE: 'x',
  ...over,
})
const said = (text: string, level = 'FAIL', over = {}) => ({
  ...base,
  _PID: '99',
  OBJECT_SYSTEMD_UNIT: UNIT,
  NETVM_NODE: 'muse',
  NETVM_LEVEL: level,
  MESSAGE: `${level} [muse] ${text}`,
  ...over,
})
const read = (...entries: object[]) =>
  parseRuns(entries.map((e) => JSON.stringify(e)).join('\n'), ['muse', 'pip'], CLOCKS)
const runs = (...entries: object[]) => read(...entries).get('muse')?.runs ?? []

describe('runs in the journal', () => {
  it('a silent success is a healthy run', () => {
    assert.deepEqual(runs(ended()), [
      { supervisor: 'chromebox-watchdog', endBootMs: 3_500_000, outcome: 'success' },
    ])
  })
  const cases: [string, object[], string[]][] = [
    [
      'a failed run with its finding',
      [said('CDP unreachable on :1'), ended(FAILURE)],
      ['failure: CDP unreachable on :1'],
    ],
    [
      'a run that repaired',
      [said('no chromium process'), said('relaunch OK after 3s', 'INFO'), ended()],
      ['success'],
    ],
    ['a run that found the lock taken', [said('another run holds the lock', 'WARN'), ended()], ['locked']],
    ['two runs do not share lines', [said('x'), ended(FAILURE), ended()], ['failure: x', 'success']],
    ['another boot', [ended(SUCCESS, { _BOOT_ID: 'other' })], []],
    ['a user’s entry', [ended(SUCCESS, { _UID: '1000' })], []],
    ['an entry without a uid', [ended(SUCCESS, { _UID: undefined })], []],
    ['root’s own words are not PID 1’s', [ended(SUCCESS, { _PID: '4711' })], []],
    ['another unit', [ended(SUCCESS, { UNIT: 'ssh.service' })], []],
    ['a message of another kind', [ended('39f53479d3a045ac8e11786248231fbf')], []],
  ]
  for (const [name, entries, expected] of cases)
    it(name, () => {
      const found = runs(...entries).map((r) =>
        r.failure === undefined ? r.outcome : `${r.outcome}: ${r.failure.text}`,
      )
      assert.deepEqual(found, expected)
    })

  it('a fleet-wide run ends for every node, and its lines are about one', () => {
    const unit = { UNIT: 'cdp-relay-watchdog.service', OBJECT_SYSTEMD_UNIT: 'cdp-relay-watchdog.service' }
    const found = read(said('relay restart FAILED', 'FAIL', unit), ended(FAILURE, unit))
    assert.equal(found.get('muse')?.runs[0]?.failure?.text, 'relay restart FAILED')
    assert.equal(found.get('pip')?.runs[0]?.failure, undefined)
  })

  it('suppressed lines of ours make the evidence incomplete, of others not', () => {
    const dropped = (unit: string) => ({
      ...base,
      _PID: '50',
      MESSAGE_ID: DROPPED,
      MESSAGE: `Suppressed 7 messages from ${unit}`,
    })
    assert.match(read(dropped(UNIT), ended()).get('muse')?.incomplete ?? '', /Suppressed 7/)
    assert.equal(read(dropped(UNIT), ended()).get('pip')?.incomplete, undefined)
    assert.equal(read(dropped('spam.service'), ended()).get('muse')?.incomplete, undefined)
    assert.notEqual(read(dropped('agent-health.service')).get('pip')?.incomplete, undefined)
  })

  it('a torn line makes it incomplete', () => {
    assert.notEqual(parseRuns('{"MESSAGE":', ['muse'], CLOCKS).get('muse')?.incomplete, undefined)
  })

  const message: [unknown, string][] = [
    ['text', 'text'],
    [[104, 195, 169], 'hé'],
    [[27, 91, 255], '\u001b[\ufffd'],
    [null, ''],
    [['one', 'two'], 'one'],
    [undefined, ''],
    [7, ''],
  ]
  for (const [raw, expected] of message)
    it(`MESSAGE ${JSON.stringify(raw)}`, () => {
      assert.equal(field({ MESSAGE: raw }, 'MESSAGE'), expected)
      // And it does not throw as the message of a run.
      runs(said('x', 'FAIL', { MESSAGE: raw }), ended(FAILURE))
    })
})

describe('what journalctl says besides', () => {
  const cases: [string, number | null, RegExp | undefined][] = [
    ['', 0, undefined],
    ['No journal files were found.\n', 0, /no journal files/],
    ['No journal files were opened due to insufficient permissions.\n', 1, /no permission/],
    ['Hint: You are currently not seeing messages from other users and the system.\n', 0, /no permission/],
    ['Failed to parse timestamp: 2026-01-01T00:00:00Z\n', 1, /did not take the time/],
    ['something else\n', 1, /something else/],
    ['Journal file /x is truncated, ignoring file.\n', 0, undefined],
  ]
  for (const [stderr, code, why] of cases)
    it(stderr.trim() || 'nothing', () => {
      const problem = journalProblem(stderr, code)
      if (why === undefined) assert.equal(problem, undefined)
      else assert.match(problem ?? '', why)
    })
})

describe('how far back the journal reaches', () => {
  const head = (ms: number) =>
    `Head realtime timestamp: Mon 2026-11-30 04:22:01 UTC (${(ms * 1000).toString(16)})\n`
  const now = 1_800_000_000_000
  const window = 900_000
  it('far enough', () =>
    assert.equal(beginsText(head(now - 10) + head(now - window - 1), now, window), undefined))
  it('not', () =>
    assert.match(beginsText(head(now - 60_000) + head(now - 10), now, window) ?? '', /only 1m ago/))
  it('nothing said', () => assert.equal(beginsText(`File path: /x\n${head(0)}`, now, window), undefined))
})

describe('the logs', () => {
  const line = (text: string, level = 'FAIL', node = 'muse') =>
    `2026-01-02T03:04:05.678Z ${level} [${node}] ${text}`

  it('stop at the last newline and begin at the first whole line', () => {
    const texts = (text: string, whole: boolean) => parseLog(text, whole, 'agent-health').map((l) => l.text)
    assert.deepEqual(texts(`${line('a')}\n${line('b')}\n${line('half')}`, true), ['a', 'b'])
    assert.deepEqual(texts(`${line('cut')}\n${line('b')}\n`, false), ['b'])
    assert.deepEqual(texts('', true), [])
    assert.deepEqual(texts(line('no newline'), true), [])
    assert.deepEqual(texts('garbage\n\n\u0000\n', true), [])
  })

  const tells: [string, string, ReturnType<typeof meaning>][] = [
    ['FAIL', 'CDP unreachable on :9410 {cdp-unreachable}; next: x', 'fault'],
    ['FAIL', 'CDP unreachable on :9410; skip kill: launched 3s ago {cdp-unreachable} {fresh}', 'fault'],
    ['FAIL_LOUD', 'veth ve-1 has no 10.201.35.1/30 {veth-no-address}', 'fault'],
    ['FAIL', 'relaunch FAILED: x {no-process} {relaunch-failed}', 'fault'],
    ['PAGE', 'browser-fault: x {held-down}', 'fault'],
    ['PAGE', 'browser-fault recovered: browser healthy again (lasted 5m) {browser-recovered}', undefined],
    ['INFO', 'whatever it says {relaunch-ok}', 'over'],
    ['INFO', 'whatever it says {relay-recovered}', 'over'],
    ['INFO', 'released by an operator: x {released}', undefined],
    ['WARN', 'cannot tell: x {cdp-unseen}', undefined],
    ['FAIL', 'state file was corrupt (x), kept as y {state-corrupt}', undefined],
    // Lines of a release that wrote no codes.
    ['FAIL', 'CDP unreachable', 'fault'],
    ['PAGE', 'browser-fault: x', 'fault'],
    ['PAGE', 'browser-fault recovered: relaunch OK after 3s (lasted 5m)', undefined],
    ['INFO', 'relaunch OK after 3s', 'over'],
    ['INFO', 'released by an operator', undefined],
    ['WARN', 'cannot tell: x', undefined],
  ]
  for (const [level, text, expected] of tells)
    it(`${level} ${text}: ${expected ?? 'a remark'}`, () =>
      assert.equal(meaning(readMessage(text), level), expected))

  const layers: [string, string | undefined, string | undefined][] = [
    ['whatever it says {port-squatted}; next: x', undefined, 'cdp'],
    ['whatever it says {cdp-unreachable} {relaunch-failed}', undefined, 'cdp'],
    ['whatever it says {egress-no-answer} {out-of-time}', undefined, 'egress'],
    ['whatever it says {api-unseen}', 'relay', 'relay'],
    ['whatever it says {api-unseen}', 'nonsense', undefined],
    ['whatever it says {of-a-release-to-come}', 'page', 'page'],
    ['CDP unreachable on :9410', undefined, undefined],
  ]
  for (const [text, field, layer] of layers)
    it(`"${text}" of ${field ?? 'no field'} is about ${layer ?? 'no layer that is told'}`, () =>
      assert.equal(readMessage(text, field).layer, layer))
})
