import assert from 'node:assert/strict'
import test from 'node:test'
import { judgeRelay } from '../../lib/relay/judge.ts'
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
  refused,
  restart,
  seen,
  units,
} from '../kit/relay-fixtures.ts'
import { saying } from '../kit/says.ts'

const rows: readonly Row[] = [
  {
    name: 'socket stopped',
    o: look({
      answer: refused,
      close: close({ units: seen(units({ socketActive: 'inactive' })), listeners: seen([chromium]) }),
    }),
    state: 'unhealthy',
    code: 'relay-down',
    reason: text('relay-down', { socket: 'cdp-relay@muse.socket', state: 'inactive' }),
    actions: restart,
    level: 'WARN',
  },
  {
    name: 'socket failed at a limit: reset, restarted and paged',
    o: look({
      answer: refused,
      close: close({
        units: seen(units({ socketActive: 'failed', socketResult: 'trigger-limit-hit' })),
        listeners: seen([chromium]),
      }),
    }),
    state: 'unhealthy',
    code: 'relay-start-limit',
    reason: text('relay-start-limit', { socket: 'cdp-relay@muse.socket', limit: 'trigger-limit-hit' }),
    actions: ['reset-and-restart-relay'],
    level: 'WARN',
    page: true,
  },
  {
    name: 'service failed at its start limit',
    o: look({
      answer: refused,
      close: close({
        units: seen(
          units({
            socketActive: 'failed',
            socketResult: 'service-start-limit-hit',
            serviceActive: 'failed',
            serviceResult: 'start-limit-hit',
          }),
        ),
        listeners: seen([chromium]),
      }),
    }),
    state: 'unhealthy',
    code: 'relay-start-limit',
    reason: text('relay-start-limit', { socket: 'cdp-relay@muse.socket', limit: 'service-start-limit-hit' }),
    actions: ['reset-and-restart-relay'],
    page: true,
  },
  {
    name: 'socket bound in a namespace that was made again',
    o: look({ answer: refused, close: close({ listeners: seen([chromium]) }) }),
    state: 'unhealthy',
    code: 'relay-stale-namespace',
    reason: text('relay-stale-namespace', {
      socket: 'cdp-relay@muse.socket',
      endpoint: '10.201.35.2:9410',
      netns: 'warp-muse',
    }),
    actions: restart,
  },
  {
    name: 'foreign listener on the address and port',
    o: look({ close: close({ listeners: seen([listener({ owners: [owner()] }), chromium]) }) }),
    state: 'unhealthy',
    code: 'foreign-listener',
    reason: text('foreign-listener', {
      where: '10.201.35.2:9410 in warp-muse held by socat (pid 4711, session-1.scope)',
    }),
    actions: ['remove:4711', 'restart-relay'],
  },
  {
    name: 'foreign listener that nobody can see into is left alone',
    o: look({ close: close({ listeners: seen([listener({ owners: [] }), chromium]) }) }),
    state: 'unhealthy',
    code: 'foreign-kept',
    reason: saying('foreign-kept', { where: /.*cannot be seen.*/ }),
    actions: [],
    level: 'FAIL',
    page: true,
  },
  {
    name: "a browser that listens on the relay's address is never ended here",
    o: look({ close: close({ listeners: seen([listener({ owners: [owner({ browser: true })] })]) }) }),
    state: 'unhealthy',
    code: 'foreign-kept',
    reason: saying('foreign-kept', { where: /.*4711.*/ }),
    actions: [],
    page: true,
  },
  {
    name: 'wildcard listener: named with its command, not removed',
    o: look({
      answer: refused,
      close: close({
        units: seen(units({ socketActive: 'failed', socketResult: 'resources' })),
        listeners: seen([listener({ address: '::', owners: [owner()] })]),
      }),
    }),
    state: 'unhealthy',
    code: 'foreign-wildcard-listener',
    reason: saying('foreign-wildcard-listener', { where: /.*held by socat \(pid 4711.*/ }),
    actions: [],
    level: 'FAIL',
    next: 'kill 4711',
    page: true,
  },
  {
    name: "this relay's port on another node's address: removed, and ours restarted",
    o: look({
      answer: refused,
      close: close({
        listeners: seen([
          chromium,
          listener({ netns: 'warp-pip', address: '10.201.87.2', otherNode: 'pip', owners: [owner()] }),
        ]),
      }),
    }),
    state: 'unhealthy',
    code: 'relay-wrong-address',
    reason: saying('relay-wrong-address', {
      where: /10\.201\.87\.2:9410 in warp-pip held by socat .*/,
      endpoint: '10.201.35.2:9410',
    }),
    actions: ['remove:4711', 'restart-relay'],
  },
  {
    name: 'the loaded unit has another address: a restart would not help',
    o: look({ answer: refused, close: close({ units: seen(units({ listen: ['10.201.87.2:9410'] })) }) }),
    state: 'unhealthy',
    code: 'relay-unit-address',
    reason: text('relay-unit-address', {
      socket: 'cdp-relay@muse.socket',
      listen: '10.201.87.2:9410',
      endpoint: '10.201.35.2:9410',
    }),
    actions: [],
    level: 'FAIL',
    next: 'ensure-node-supervision muse',
    page: true,
  },
  {
    name: 'our socket, bound elsewhere before its unit was corrected',
    o: look({
      answer: refused,
      close: close({ listeners: seen([listener({ address: '10.201.87.2' }), chromium]) }),
    }),
    state: 'unhealthy',
    code: 'relay-wrong-address',
    reason: saying('relay-wrong-address', { where: /10\.201\.87\.2:9410.*/ }),
    actions: restart,
  },
  {
    name: 'masked by hand: not undone',
    o: look({ answer: refused, close: close({ units: seen(units({ socketLoad: 'masked' })) }) }),
    state: 'unhealthy',
    code: 'relay-masked',
    reason: saying('relay-masked', { masked: /cdp-relay@muse\.socket.*/ }),
    actions: [],
    level: 'FAIL',
    next: 'systemctl unmask cdp-relay@muse.socket',
    page: true,
  },
  {
    name: 'its service masked by hand: the socket cannot start either',
    o: look({
      answer: refused,
      close: close({ units: seen(units({ socketActive: 'inactive', serviceLoad: 'masked' })) }),
    }),
    state: 'unhealthy',
    code: 'relay-masked',
    reason: saying('relay-masked', { masked: /cdp-relay@muse\.service.*/ }),
    actions: [],
    level: 'FAIL',
    next: 'systemctl unmask cdp-relay@muse.service',
    page: true,
  },
  {
    name: 'everything in place and silent',
    o: look(),
    state: 'unhealthy',
    code: 'relay-silent',
    reason: text('relay-silent', { endpoint: '10.201.35.2:9410' }),
    actions: restart,
  },
  {
    name: 'listeners could not be seen: a restart is still safe',
    o: look({ close: close({ listeners: blind('ip timed out') }) }),
    state: 'unhealthy',
    code: 'relay-silent',
    reason: text('relay-silent', { endpoint: '10.201.35.2:9410' }),
    actions: restart,
  },
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
    assert.equal(d.guard?.text, text('paused', { by: 'ann', reason: 'maintenance' }))
  })
}
