import assert from 'node:assert/strict'
import test from 'node:test'
import { judgeRelay } from '../../lib/relay/judge.ts'
import { text } from '../../lib/report/codes.ts'
import { decide, waitMs } from '../../lib/supervisors/cdp-relay-watchdog/decide.ts'
import { afterRestart, cautiousMemory, NO_MEMORY } from '../../lib/supervisors/cdp-relay-watchdog/memory.ts'
import { type Memory, type Observation, parseMemory } from '../../lib/supervisors/cdp-relay-watchdog/types.ts'
import {
  blind,
  close,
  decided,
  healthy,
  kinds,
  level,
  link,
  look,
  now,
  pages,
  policy,
  type Row,
  refused,
  restart,
  seen,
} from '../kit/relay-fixtures.ts'

const rows: readonly Row[] = [
  {
    name: 'an answer from a browser',
    o: look({ ...healthy }),
    state: 'healthy',
    code: 'ok',
    reason: /^$/,
    actions: [],
  },
  {
    name: 'an answer, although ip could not be asked',
    o: look({ ...healthy, veth: blind('ip is not installed') }),
    state: 'healthy',
    code: 'ok',
    reason: /^$/,
    actions: [],
  },
  {
    name: 'veth without its address, even though something answers',
    o: look({ ...healthy, veth: seen(link({ hasAddress: false })) }),
    state: 'unhealthy',
    code: 'veth-no-address',
    reason: text('veth-no-address', { veth: 've-1', gw: '10.201.35.1' }),
    actions: [],
    level: 'FAIL_LOUD',
    next: 'ip addr add 10.201.35.1/30 dev ve-1',
    page: true,
  },
  {
    name: 'veth gone',
    o: look({ veth: seen(link({ exists: false, up: false, hasAddress: false })) }),
    state: 'unhealthy',
    code: 'veth-missing',
    reason: text('veth-missing', { veth: 've-1', gw: '10.201.35.1' }),
    actions: [],
    level: 'FAIL_LOUD',
    next: 'netvm-node-up muse',
    page: true,
  },
  {
    name: 'veth down and bare',
    o: look({ veth: seen(link({ up: false, hasAddress: false })) }),
    state: 'unhealthy',
    code: 'veth-no-address',
    reason: text('veth-no-address', { veth: 've-1', gw: '10.201.35.1' }),
    actions: [],
    level: 'FAIL_LOUD',
    next: 'ip link set dev ve-1 up && ip addr add 10.201.35.1/30 dev ve-1',
    page: true,
  },
  {
    name: 'veth down',
    o: look({ veth: seen(link({ up: false })) }),
    state: 'unhealthy',
    code: 'veth-down',
    reason: text('veth-down', { veth: 've-1' }),
    actions: [],
    level: 'FAIL_LOUD',
    next: 'ip link set dev ve-1 up',
    page: true,
  },
  {
    name: "namespace gone: its page is chromebox-watchdog's",
    o: look({ close: close({ netns: seen({ exists: false, isNamespace: false }) }) }),
    state: 'unhealthy',
    code: 'netns-missing',
    reason: text('netns-missing', { netns: 'warp-muse' }),
    actions: [],
    level: 'FAIL_LOUD',
    next: 'netvm-node-up muse',
  },
  {
    name: "the namespace's end has no address",
    o: look({ close: close({ peerLink: seen(link({ name: 'vp-1', hasAddress: false })) }) }),
    state: 'unhealthy',
    code: 'peer-no-address',
    reason: text('peer-no-address', { veth: 'vp-1', netns: 'warp-muse', peer: '10.201.35.2' }),
    actions: [],
    level: 'FAIL_LOUD',
    next: 'ip -n warp-muse addr add 10.201.35.2/30 dev vp-1',
    page: true,
  },
  {
    name: 'browser frozen behind a relay that connects',
    o: look({ close: close({ inner: seen({ browser: 'silent', detail: 'timeout' }) }) }),
    state: 'unhealthy',
    code: 'browser-down',
    reason: text('browser-down'),
    actions: [],
    level: 'WARN',
    next: 'chromebox-watchdog --why muse',
  },
  {
    name: 'browser dead behind a relay that hangs up',
    o: look({
      answer: { kind: 'closed', stage: 'headers', detail: 'closed without an answer', ms: 2 },
      close: close({ inner: seen({ browser: 'refused', detail: 'refused' }) }),
    }),
    state: 'unhealthy',
    code: 'browser-down',
    reason: text('browser-down'),
    actions: [],
    level: 'WARN',
  },
  {
    name: 'browser dead and relay dead: the browser is the lower layer',
    o: look({ answer: refused, close: close({ inner: seen({ browser: 'refused', detail: 'refused' }) }) }),
    state: 'unhealthy',
    code: 'browser-and-relay-down',
    reason: text('browser-and-relay-down', { endpoint: '10.201.35.2:9410' }),
    actions: [],
    level: 'WARN',
  },
  {
    name: 'something that is no browser on the CDP port: never a relay fault',
    o: look({ close: close({ inner: seen({ browser: 'not-a-browser', detail: '200 with HTML' }) }) }),
    state: 'unhealthy',
    code: 'browser-down',
    reason: text('browser-down'),
    actions: [],
    level: 'WARN',
  },
]
// One blind look each: unknown, and nothing is done.
const blinds: readonly [string, Observation][] = [
  ['ip', look({ veth: blind('ip: no permission') })],
  ['no close look', (({ close: _, ...o }) => o)(look())],
  ['the namespace', look({ close: close({ netns: blind('EACCES') }) })],
  ['curl', look({ close: close({ inner: blind('curl is not installed') }) })],
  ['systemd', look({ close: close({ units: blind('systemctl timed out') }) })],
]

for (const row of rows) {
  test(`decide: ${row.name}`, () => {
    const d = decide(row.o, NO_MEMORY, now, policy)
    decided(d, row)
    const { next } = judgeRelay(row.o)
    if (row.next !== undefined) assert.equal(next, row.next)
    if (d.lines.length > 0) assert.ok(next, 'a line that tells of a fault names the next command')
  })
  test(`decide, paused: ${row.name}`, () => {
    const d = decide({ ...row.o, paused: { by: 'ann', reason: 'maintenance' } }, NO_MEMORY, now, policy)
    assert.deepEqual([d.verdict.state, d.actions, d.pages, d.lines], [row.state, [], [], []])
    assert.equal(d.guard?.code, 'paused')
    assert.match(d.guard?.text ?? '', /ann.*maintenance/)
  })
}
for (const [name, o] of blinds) {
  test(`decide: could not look (${name}) is unknown and does nothing`, () => {
    const d = decide(o, NO_MEMORY, now, policy)
    assert.deepEqual([d.verdict.state, d.actions.length, pages(d)], ['unknown', 0, false])
  })
}

test('back-off doubles from the base, ends at the maximum and begins anew with a boot', () => {
  const waits: number[] = []
  let memory: Memory = NO_MEMORY
  for (let i = 0; i < 7; i++) {
    memory = afterRestart(memory, false, now)
    waits.push(waitMs(memory, now, policy) / 1000)
  }
  assert.deepEqual(waits, [120, 240, 480, 960, 1800, 1800, 1800])
  const held = decide(look(), memory, { ...now, bootMs: now.bootMs + 1_799_001 }, policy)
  assert.deepEqual([kinds(held), level(held)], [[], 'FAIL'])
  assert.equal(held.guard?.text, text('relay-backoff', { restarts: '7 restarts', wait: '1s' }))
  assert.deepEqual(kinds(decide(look(), memory, { ...now, bootMs: now.bootMs + 1_800_000 }, policy)), restart)
  assert.deepEqual(kinds(decide(look(), memory, { ...now, bootId: 'boot-b', bootMs: 1_799_999 }, policy)), [])
  assert.deepEqual(
    kinds(decide(look(), memory, { ...now, bootId: 'boot-b', bootMs: 1_800_000 }, policy)),
    restart,
  )
})

test('a restart that helped holds the next one back only when it did not last twice', () => {
  const once = afterRestart(NO_MEMORY, true, now)
  assert.deepEqual(kinds(decide(look(), once, now, policy)), restart)
  assert.equal(waitMs(afterRestart(once, true, now), now, policy), 120_000)
  assert.equal(waitMs(afterRestart(once, false, now), now, policy), 240_000)
})

test('a wall clock that jumps changes no decision', () => {
  const memory = afterRestart(NO_MEMORY, false, now)
  for (const wallMs of [0, now.wallMs - 1e12, now.wallMs + 1e12]) {
    const at = { ...now, wallMs, bootMs: now.bootMs + 60_000 }
    assert.deepEqual(
      decide(look(), memory, at, policy),
      decide(look(), memory, { ...at, wallMs: now.wallMs }, policy),
    )
  }
})

test('a lost memory delays, and never forgets into more restarts', () => {
  assert.deepEqual(kinds(decide(look(), cautiousMemory(now), now, policy)), [])
  for (const bad of [null, [], {}, { attempts: -1 }, { attempts: 1.5 }, { attempts: 1, lastAttempt: {} }]) {
    assert.throws(() => parseMemory(bad))
  }
  const memory = afterRestart(NO_MEMORY, true, now)
  assert.deepEqual(parseMemory(JSON.parse(JSON.stringify({ version: 1, ...memory }))), memory)
})

test('a layer below the finding that nobody looked at is not marked well', () => {
  const marks = (o: Observation) =>
    Object.fromEntries(decide(o, NO_MEMORY, now, policy).marks.map((m) => [m.layer, m.state]))
  const { close: _, ...hurried } = look()
  assert.deepEqual(marks(hurried), {
    netns: 'ok',
    process: 'not-checked',
    cdp: 'not-checked',
    relay: 'unknown',
  })
  const silent = look({ close: close({ inner: seen({ browser: 'silent', detail: 'x' }) }) })
  assert.equal(marks(silent).process, 'not-checked')
  assert.deepEqual(marks(look({ close: close({ inner: blind('x') }) })).process, 'not-checked')
  assert.deepEqual([marks(look()).process, marks(look()).cdp], ['ok', 'ok'])
})
