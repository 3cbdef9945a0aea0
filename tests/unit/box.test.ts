import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Node } from '../../lib/base/types.ts'
import {
  DEFAULT_PAUSE_MS,
  makePause,
  parseDuration,
  removePause,
  whoAsks,
  writePause,
} from '../../lib/box/pause.ts'
import { findRepairs } from '../../lib/box/repairs.ts'
import { hostLine, hostText, nodeTexts } from '../../lib/box/status.ts'
import type { Collected, Judged } from '../../lib/evidence/collect.ts'
import { decide } from '../../lib/evidence/decide.ts'
import { exitOf, perSupervisor } from '../../lib/evidence/report.ts'
import type { NodeFacts } from '../../lib/evidence/types.ts'
import { isPaused, readIntent } from '../../lib/store/intent.ts'
import { tempPaths } from '../kit/temp.ts'
import { facts, NOW, not, saw } from '../kit/truth-model.ts'

const same = (s: string) => s
const plain = { bold: same, dim: same, red: same, green: same, yellow: same, cyan: same }
const judge = (f: NodeFacts): Judged => ({ node: { name: f.node } as Node, facts: f, verdict: decide(f) })
const collected = (...all: NodeFacts[]): Collected => ({
  at: NOW,
  sight: { processes: saw(true), absenceCounts: true, network: () => saw(true), blind: [] },
  judged: all.map(judge),
})
const line = (f: NodeFacts) => nodeTexts([judge(f)], NOW.wallMs, plain)[0] ?? ''

describe('how long a pause lasts', () => {
  const good: [string, number][] = [
    ['90s', 90_000],
    ['30m', DEFAULT_PAUSE_MS],
    ['2h', 7_200_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
  ]
  for (const [text, ms] of good) it(text, () => assert.equal(parseDuration(text), ms))
  for (const text of ['', '0s', '30', 'm', '-5m', '5 m', '8d', '1h30', '30min', '1.5h', '99999999s'])
    it(`"${text}" is refused`, () => assert.throws(() => parseDuration(text), /duration|longer/))
})

describe('a pause', () => {
  it('is what every supervisor reads, and ends by itself', (t) => {
    const p = tempPaths(t)
    writePause(p, makePause('muse', 'ops', 'by\u001b[31m hand\n', NOW, 60_000))
    const { intent, corrupt } = readIntent(p, 'muse')
    assert.equal(corrupt, undefined)
    assert.equal(intent?.reason, 'by hand')
    assert.ok(isPaused(intent, { ...NOW, bootMs: NOW.bootMs + 59_999 }))
    assert.ok(!isPaused(intent, { ...NOW, bootMs: NOW.bootMs + 60_000 }))
    // After a reboot the wall clock ends it.
    const rebooted = { wallMs: NOW.wallMs + 59_000, bootMs: 5_000, bootId: 'next' }
    assert.ok(isPaused(intent, rebooted))
    assert.ok(!isPaused(intent, { ...rebooted, wallMs: NOW.wallMs + 60_000 }))
    const later = { ...NOW, bootMs: NOW.bootMs + 1000, wallMs: NOW.wallMs + 1000 }
    assert.equal(removePause(p, 'muse', later), true)
    const ended = readIntent(p, 'muse').intent
    assert.ok(!isPaused(ended, later) && !isPaused(ended, { ...later, bootId: 'next' }))
    // Its time stays on record: what ran within it has proved nothing.
    assert.deepEqual(ended?.ended, later)
    assert.equal(removePause(p, 'muse', later), false)
  })
  it('says who asked, through sudo too', () => {
    assert.equal(whoAsks({ SUDO_USER: 'alice' }), 'alice')
    assert.notEqual(whoAsks({}), '')
  })
})

describe('the screen', () => {
  it('shows the broken layer on the path', () => {
    const text = line(facts('relay-down', 'user'))
    assert.match(
      text,
      /^muse {2}DEGRADED relay {2}netns✓ egress✓ process✓ cdp✓ page✓ relay✗ api✓ {2}nothing listens/,
    )
  })
  it('shows age and source of evidence', () => {
    assert.match(line(facts('healthy', 'both')), /ACTIVE \[\*\] .* {2}receipt, 2m 30s ago$/)
  })
  it('shows who paused it, why and until when', () => {
    assert.match(line(facts('paused', 'user')), /paused by ops: upgrade, until \d\d:\d\d UTC \(1m left\)/)
  })
  it('shows a hold and a circuit with their next probe', () => {
    const f = {
      ...facts('held-down', 'user'),
      memos: ['held for 2m, next probe in 20m', 'circuit open, next probe in 9m'],
    }
    assert.match(
      line(f),
      /^muse {2}HELD DOWN .*held for 2m, next probe in 20m; circuit open, next probe in 9m/,
    )
  })
  it('lets no control character through', () => {
    const f = facts('healthy', 'user')
    const evil = { ...f, memos: ['a\u001b]0;x\u0007b\nc'] }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it is for
    assert.doesNotMatch(line(evil), /[\u0000-\u001f]/)
  })
  it('aligns the columns', () => {
    const lines = [facts('healthy', 'user'), { ...facts('relay-down', 'user'), node: 'a-long-name' }]
    const texts = nodeTexts(lines.map(judge), NOW.wallMs, plain)
    assert.equal(texts[0]?.indexOf('netns'), texts[1]?.indexOf('netns'))
  })
})

describe('the top line', () => {
  it('counts the timers, those of the fleet once', () => {
    const c = collected(facts('healthy', 'user'), { ...facts('timer-disabled', 'user'), node: 'pip' })
    const j = c.judged.map((x, i) => ({ ...x, node: { name: ['muse', 'pip'][i] } as Node }))
    assert.deepEqual(hostLine({ ...c, judged: j }).timers, { armed: 3, of: 4 })
  })
  it('says when the bus says nothing of timers', () => {
    assert.equal(hostLine(collected(facts('healthy', 'no-bus'))).timers, undefined)
  })
  const uplink: [string, NodeFacts, string][] = [
    ['a tunnel that works', facts('healthy', 'user'), 'ok'],
    ['a tunnel that does not', facts('tunnel-cut', 'user'), 'unknown'],
    ['nothing known', facts('healthy', 'logs-only'), 'unknown'],
  ]
  for (const [name, f, word] of uplink)
    it(`uplink with ${name}: ${word}`, () => assert.equal(hostLine(collected(f)).uplink, word))
  it('prints', () => {
    const text = hostText({ name: 'h', uplink: 'down', load: 1.234, timers: { armed: 1, of: 2 } }, plain)
    assert.equal(text, 'h  uplink DOWN · load 1.23 · timers 1/2 armed')
  })
})

describe('the exit status', () => {
  const cases: [string, NodeFacts[], number, number][] = [
    ['all active', [facts('healthy', 'user'), facts('healthy', 'both')], 0, 0],
    ['nothing to look at', [], 0, 0],
    ['one down', [facts('healthy', 'user'), facts('dead', 'user')], 0, 1],
    ['one unknown', [facts('healthy', 'user'), facts('healthy', 'logs-only')], 0, 2],
    ['down outweighs unknown', [facts('dead', 'user'), facts('healthy', 'logs-only')], 0, 1],
    ['a pause over a node that is up', [facts('paused', 'user')], 0, 0],
    ['a pause over a dead one', [{ ...facts('paused', 'user'), ...facts('dead', 'user') }], 0, 1],
    ['held down', [facts('held-down', 'user')], 0, 1],
    ['a row nobody watches', [facts('healthy', 'user')], 1, 2],
  ]
  for (const [name, all, refused, code] of cases)
    it(`${name}: ${code}`, () => assert.equal(exitOf(collected(...all), refused), code))
})

describe('what host-evidence says of each supervisor', () => {
  it('the newest word that counts, with its source and age', () => {
    const [watchdog, relay] = perSupervisor(judge(facts('dead', 'both')))
    assert.deepEqual([watchdog?.verdict, watchdog?.source, watchdog?.ageMs], ['unhealthy', 'receipt', 40_000])
    assert.match(watchdog?.reason ?? '', /no chromium process/)
    assert.equal(relay?.verdict, 'healthy')
  })
  it('why nothing is known', () => {
    const f = { ...facts('rebooted', 'both'), journal: not("no permission to read the system's journal") }
    const [watchdog] = perSupervisor(judge(f))
    assert.equal(watchdog?.verdict, 'unknown')
    assert.match(watchdog?.unknown.join('; ') ?? '', /another boot.*no permission.*never ran in this boot/)
  })
  it('a timer that was never installed', () => {
    const [watchdog] = perSupervisor(judge(facts('torn-down', 'both')))
    assert.match(watchdog?.timer ?? '', /missing \(never installed\)/)
  })
})

describe('the history of repairs', () => {
  const at = (s: number) => `2026-01-02T03:04:${String(s).padStart(2, '0')}.000Z`
  const log = [
    `${at(0)} FAIL [muse] no chromium process for profile; relaunching; next: chromebox-watchdog muse --why`,
    `${at(1)} FAIL [pip] CDP unreachable on :9420`,
    `${at(4)} INFO [muse] relaunch OK after 4s`,
    `${at(5)} PAGE [muse] browser-fault recovered: relaunch OK after 4s (lasted 4s)`,
    `${at(10)} FAIL [muse] egress down: x; restarting the tunnel`,
    `${at(12)} FAIL [muse] tunnel restart FAILED: egress down: x; next: y`,
    `${at(20)} FAIL [muse] relaunch FAILED — needs operator attention: CDP unreachable on :9410`,
  ].join('\n')
  it('tells before, after, how long, and whether it helped', () => {
    const found = findRepairs(`${log}\n`, true, 'chromebox-watchdog', 'muse')
    assert.deepEqual(
      found.map((r) => [r.what, r.before, r.after, r.durationMs, r.helped]),
      [
        ['relaunch', 'no chromium process for profile; relaunching', 'healthy', 4000, true],
        [
          'tunnel restart',
          'egress down: x; restarting the tunnel',
          'tunnel restart FAILED: egress down: x',
          2000,
          false,
        ],
        [
          'relaunch',
          'tunnel restart FAILED: egress down: x',
          'relaunch FAILED — needs operator attention: CDP unreachable on :9410',
          8000,
          false,
        ],
      ],
    )
  })
  it('does not take a fault of long ago for the cause', () => {
    const old = `2026-01-02T02:00:00.000Z FAIL [muse] CDP unreachable\n${at(4)} INFO [muse] relay restart OK after 0.4s\n`
    const [r] = findRepairs(old, true, 'cdp-relay-watchdog', 'muse')
    assert.deepEqual([r?.before, r?.durationMs], ['', undefined])
  })
  it('goes by the codes, whatever the lines say, and tells cause and API restarts that helped', () => {
    const coded = [
      `${at(0)} FAIL [muse] a {api-timeout}; next: x`,
      `${at(9)} INFO [muse] relaunch FAILED, so it says {api-restart-ok}`,
      `${at(20)} FAIL [muse] b {egress-dns}`,
      `${at(25)} FAIL [muse] relaunch OK after 99s {egress-peer-silent} {tunnel-restart-failed}; next: y`,
      `${at(30)} PAGE [muse] tunnel-fault: c {egress-peer-silent}`,
      `${at(31)} INFO [muse] tunnel restart OK after 7s {tunnel-recovered}`,
    ].join('\n')
    const found = findRepairs(`${coded}\n`, true, 'agent-health', 'muse')
    assert.deepEqual(
      found.map((r) => [r.what, r.code, r.cause, r.before, r.durationMs, r.helped]),
      [
        ['browser restart (api)', 'api-restart-ok', undefined, 'a', 9000, true],
        ['tunnel restart', 'tunnel-restart-failed', 'egress-peer-silent', 'b', 5000, false],
      ],
    )
  })
  it('is empty for another node', () =>
    assert.deepEqual(findRepairs(log, true, 'chromebox-watchdog', 'dev'), []))
})
