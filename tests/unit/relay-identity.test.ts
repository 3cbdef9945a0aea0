import assert from 'node:assert/strict'
import test from 'node:test'
import { text } from '../../lib/report/codes.ts'
import { decide } from '../../lib/supervisors/cdp-relay-watchdog/decide.ts'
import { NO_MEMORY } from '../../lib/supervisors/cdp-relay-watchdog/memory.ts'
import {
  blind,
  chromium,
  close,
  decided,
  listener,
  look,
  now,
  owner,
  policy,
  type Row,
  restart,
  seen,
  well,
} from '../kit/relay-fixtures.ts'

// Whose socket accepts, and whose browser answers, come before any sentence about the relay.

const rows: readonly Row[] = [
  {
    name: "83: browser frozen, and another program accepts at the relay's address",
    o: look({
      close: close({
        inner: seen({ browser: 'silent', detail: 'timeout' }),
        listeners: seen([listener({ owners: [owner()] }), chromium]),
      }),
    }),
    state: 'unhealthy',
    code: 'browser-and-relay-down',
    reason: text('browser-and-relay-down', { endpoint: '10.201.35.2:9410' }),
    actions: [],
    level: 'WARN',
  },
  {
    name: '83: browser frozen, and another program accepts on every address',
    o: look({
      close: close({
        inner: seen({ browser: 'silent', detail: 'timeout' }),
        listeners: seen([listener({ address: '0.0.0.0', owners: [owner()] })]),
      }),
    }),
    state: 'unhealthy',
    code: 'browser-and-relay-down',
    reason: text('browser-and-relay-down', { endpoint: '10.201.35.2:9410' }),
    actions: [],
  },
  {
    name: '45: another program has the port of the browser',
    o: look({ close: close({ inner: seen({ browser: 'squatted', detail: 'Chrome/1, from pid 5 (nc)' }) }) }),
    state: 'unhealthy',
    code: 'port-squatted',
    reason: text('port-squatted', { port: 9410 }),
    actions: [],
    level: 'WARN',
    next: 'chromebox-watchdog --why muse',
  },
  {
    name: '45: the same browser over the relay and inside',
    o: look({
      answer: well,
      id: 'a',
      close: close({ inner: seen({ browser: 'answers', detail: 'Chrome/1', id: 'a' }) }),
    }),
    state: 'healthy',
    code: 'ok',
    reason: '',
    actions: [],
  },
  {
    name: '45: another browser over the relay than inside',
    o: look({
      answer: well,
      id: 'b',
      close: close({
        inner: seen({ browser: 'answers', detail: 'Chrome/1', id: 'a' }),
        listeners: seen([listener({ owners: [owner()] }), chromium]),
      }),
    }),
    state: 'unhealthy',
    code: 'foreign-listener',
    reason: /socat \(pid 4711/,
    actions: ['remove:4711', ...restart],
  },
]
for (const row of rows) {
  test(`decide: ${row.name}`, () => {
    const d = decide(row.o, NO_MEMORY, now, policy)
    decided(d, row)
    if (row.next !== undefined) assert.equal(d.lines[0]?.next, row.next)
  })
}

test("83: whose the relay's address is cannot be seen, with a frozen browser behind it: unknown, nothing done", () => {
  const inner = seen({ browser: 'silent', detail: 'timeout' } as const)
  const o = look({ close: close({ inner, listeners: blind('ip is missing') }) })
  const d = decide(o, NO_MEMORY, now, policy)
  assert.deepEqual([d.verdict.state, d.verdict.code, d.actions], ['unknown', 'relay-not-asked', []])
})
