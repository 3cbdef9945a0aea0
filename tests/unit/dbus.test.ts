import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { type Ask, type BusCall, decode, talk, Values } from '../../lib/host/dbus.ts'
import { lookAtListed, printed } from '../../lib/host/systemd-bus.ts'
import { fakeBus, message, variant } from '../kit/fake-bus.ts'
import { tempDir } from '../kit/temp.ts'
import { patience } from '../kit/unit.ts'

const LONG = patience(20_000)
const call = (args: BusCall['args']): BusCall => ({
  to: 'a.b',
  path: '/c',
  iface: 'd.e',
  member: 'Get',
  args,
})

describe('values on the wire', () => {
  const cases: [unknown, string | number][] = [
    ['', ''],
    ['active', 'active'],
    ['naïve', 'naïve'],
    [true, 'yes'],
    [false, 'no'],
    [203, 203],
    [-1, -1],
    [0n, 0],
    [1_796_116_726_216_775n, 1_796_116_726_216_775],
    [2n ** 64n - 1n, 2 ** 64],
  ]
  for (const [sent, read] of cases)
    it(`${typeof sent} ${sent}`, () => assert.equal(new Values(variant(sent)).variant(), read))
  it('one of a type nobody asks for is refused, and so is one that is cut', () => {
    assert.throws(() => new Values(Buffer.from('\x01d\0\0\0\0\0\0')).variant(), RangeError)
    assert.throws(() => new Values(variant(7).subarray(0, 6)).variant(), RangeError)
  })
})

describe('messages', () => {
  const all = Buffer.concat([
    message(4, 0, 's', variant('x')),
    message(2, 7, 'v', variant('inactive')),
    message(2, 300, 'v', variant(5n)),
  ])
  it('come out whole, wherever what was received is cut', () => {
    for (let cut = 0; cut <= all.length; cut++) {
      const first = decode(all.subarray(0, cut))
      const second = decode(Buffer.concat([first.rest, all.subarray(cut)]))
      const messages = [...first.messages, ...second.messages]
      assert.deepEqual(
        messages.map((m) => [m.type, m.replyTo, m.body.variant()]),
        [
          [4, 0, 'x'],
          [2, 7, 'inactive'],
          [2, 300, 5],
        ],
      )
      assert.equal(second.rest.length, 0)
    }
  })
  it('of a machine of the other byte order are refused', () => {
    const big = Buffer.from(all)
    big[0] = 'B'.charCodeAt(0)
    assert.throws(() => decode(big), RangeError)
  })
})

describe('a talk that fails says why', () => {
  const ask = (ask: Ask) => ask([call(['x', 'y'])])
  /** A socket that says one thing to whoever comes. */
  async function listener(t: TestContext, say: (socket: Socket) => void): Promise<string> {
    const path = `${tempDir(t)}/bus`
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => say(socket))
    })
    await new Promise<void>((resolve) => server.listen(path, resolve))
    t.after(() => server.close())
    return path
  }
  const cases: [string, string | Buffer, RegExp, number?][] = [
    ['it does not answer', '', /^no answer in 50 ms$/, 50],
    ['it does not know us', 'REJECTED EXTERNAL\r\n', /refuses us/],
    ['it is no bus', 'OK 1\r\nHTTP/1.1 400 Bad Request\r\n', /not little-endian/],
    ['it takes no such call', Buffer.concat([Buffer.from('DATA\r\nOK 1\r\n'), refusal()]), /^not you$/],
  ]
  for (const [what, said, why, deadlineMs = LONG] of cases)
    it(what, async (t) => {
      const path = await listener(t, (socket) => socket.write(said))
      await assert.rejects(talk(path, deadlineMs, ask), { message: why })
    })
  function refusal(): Buffer {
    // A variant without its signature is the text alone.
    return message(3, 1, 's', variant('not you').subarray(4))
  }
  it('it hangs up', async (t) => {
    const path = await listener(t, (socket) => socket.end('OK 1\r\n'))
    await assert.rejects(talk(path, LONG, ask), /connection was closed/)
  })
  it('nobody is there', async (t) => {
    await assert.rejects(talk(`${tempDir(t)}/bus`, LONG, ask), /ENOENT/)
  })
  it('the questions themselves fail', async (t) => {
    const path = await listener(t, () => {})
    await assert.rejects(
      talk(path, LONG, () => Promise.reject(new RangeError('out of range'))),
      /out of range/,
    )
  })
})

describe('systemd over the bus', () => {
  const UNITS = {
    'chromebox@muse.service': { listed: ['loaded', 'active', 'running'], Result: 'success' },
    'a-1.timer': { listed: ['loaded', 'active', 'waiting'], NextElapseUSecMonotonic: 2n ** 64n - 1n },
    'gone.timer': { LoadState: 'not-found' },
  } as const
  const look = (root: string, deadlineMs = LONG) =>
    lookAtListed(
      root,
      ['*.service', 'a-*', '*'],
      (listed) => [
        ['chromebox@muse.service', ['Result']],
        ['a-1.timer', ['NextElapseUSecMonotonic']],
        ['gone.timer', listed.has('gone.timer') ? [] : ['LoadState']],
      ],
      deadlineMs,
    )
  const LIST = 'ListUnitsByPatterns *.service a-* *'
  const SEEN = {
    'chromebox@muse.service': {
      LoadState: 'loaded',
      ActiveState: 'active',
      SubState: 'running',
      Result: 'success',
    },
    'a-1.timer': {
      LoadState: 'loaded',
      ActiveState: 'active',
      SubState: 'waiting',
      NextElapseUSecMonotonic: 'infinity',
    },
    'gone.timer': { LoadState: 'not-found' },
  }
  const seen = async (root: string) => {
    const found = await look(root)
    assert.ok(found.seen, JSON.stringify(found))
    return Object.fromEntries(found.value)
  }

  it('PID 1 itself is asked, without a word to the bus', async (t) => {
    const root = tempDir(t)
    const pid1 = await fakeBus(t, `${root}/run/systemd/private`, UNITS)
    const bus = await fakeBus(t, `${root}/run/dbus/system_bus_socket`, UNITS)
    assert.deepEqual(await seen(root), SEEN)
    assert.deepEqual(pid1.asked, [
      LIST,
      'chromebox@muse.service Result',
      'a-1.timer NextElapseUSecMonotonic',
      'gone.timer LoadState',
    ])
    assert.deepEqual(bus.asked, [])
  })
  it('who may not ask it asks over the bus, and says hello first', async (t) => {
    const root = tempDir(t)
    const bus = await fakeBus(t, `${root}/run/dbus/system_bus_socket`, UNITS)
    assert.deepEqual(await seen(root), SEEN)
    assert.deepEqual(bus.asked.slice(0, 2), ['Hello', LIST])
  })
  it('a property that it does not tell makes the whole look no look', async (t) => {
    const root = tempDir(t)
    await fakeBus(t, `${root}/run/systemd/private`, {
      ...UNITS,
      'a-1.timer': { listed: UNITS['a-1.timer'].listed },
    })
    await fakeBus(t, `${root}/run/dbus/system_bus_socket`, { ...UNITS, 'gone.timer': {} })
    assert.deepEqual(await look(root), {
      seen: false,
      why: 'no a-1.timer NextElapseUSecMonotonic; no gone.timer LoadState',
    })
  })
  it('a PID 1 that does not answer leaves no time for the bus', async (t) => {
    const root = tempDir(t)
    const bus = await fakeBus(t, `${root}/run/dbus/system_bus_socket`, UNITS)
    mkdirSync(`${root}/run/systemd`)
    const silent = createServer(() => {})
    await new Promise<void>((resolve) => silent.listen(`${root}/run/systemd/private`, resolve))
    t.after(() => silent.close())
    const found = await look(root, 50)
    assert.match(found.seen ? '' : found.why, /^no answer in \d+ ms$/)
    assert.deepEqual(bus.asked, [])
  })
  it('never has more calls on their way than a bus takes', async (t) => {
    const root = tempDir(t)
    const names = Array.from({ length: 400 }, (_, i) => `n${i}.socket`)
    const units = Object.fromEntries(names.map((n) => [n, { Result: n }]))
    const bus = await fakeBus(t, `${root}/run/dbus/system_bus_socket`, units)
    const found = await lookAtListed(root, [], () => names.map((n) => [n, ['Result']]), LONG)
    assert.ok(found.seen && names.every((n) => found.value.get(n)?.Result === n))
    assert.ok(bus.most() <= 128, `${bus.most()} at a time`)
  })
  it('asks everything of a unit at once', async (t) => {
    const root = tempDir(t)
    const properties = ['Result', 'ExecMainStatus', 'ConditionResult']
    const names = Array.from({ length: 100 }, (_, i) => `n${i}.service`)
    const unit = { Result: 'x', ExecMainStatus: 1, ConditionResult: true }
    const bus = await fakeBus(
      t,
      `${root}/run/dbus/system_bus_socket`,
      Object.fromEntries(names.map((n) => [n, unit])),
    )
    assert.ok((await lookAtListed(root, [], () => names.map((n) => [n, properties]), LONG)).seen)
    assert.deepEqual(
      bus.asked.slice(2),
      names.flatMap((n) => properties.map((p) => `${n} ${p}`)),
    )
    assert.ok(bus.most() <= 128, `${bus.most()} at a time`)
    for (const [first, ...more] of bus.bursts().slice(1)) {
      assert.match(`${first}`, / Result$/)
      assert.match(`${more.at(-1)}`, / ConditionResult$/)
    }
  })

  const words: [string, string | number, string][] = [
    ['Result', 'exit-code', 'exit-code'],
    ['ExecMainStatus', 203, '203'],
    ['ActiveEnterTimestamp', 0, '0'],
    ['ActiveEnterTimestamp', Date.UTC(2026, 0, 2, 3, 4, 5, 678) * 1000, '@ 2026-01-02 03:04:05.678 UTC'],
    ['ActiveEnterTimestampMonotonic', 705_531_281, '705531281'],
    ['NextElapseUSecMonotonic', 1_500_000, '1500000us'],
    ['NextElapseUSecMonotonic', 2 ** 64, 'infinity'],
  ]
  for (const [property, value, word] of words)
    it(`${property} ${value} reads ${word}`, () => assert.equal(printed(property, value), word))
})
