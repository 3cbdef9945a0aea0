import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseWgDump } from '../../lib/tunnel/wg-dump.ts'

const SECRET = 'yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk='
const PUBLIC = 'xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg='
const PSK = 'FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE='
const HEAD = `${SECRET}\t${PUBLIC}\t51820\toff\n`

/** One line of a peer, as wg 1.0.20210914 prints it. */
function peer(
  cells: Partial<Record<'psk' | 'endpoint' | 'allowed' | 'handshake' | 'rx' | 'tx' | 'keep', string>>,
): string {
  const c = {
    psk: '(none)',
    endpoint: '192.0.2.1:2408',
    allowed: '0.0.0.0/0,::/0',
    handshake: '1764475000',
    rx: '92',
    tx: '180',
    keep: 'off',
    ...cells,
  }
  return [PUBLIC, c.psk, c.endpoint, c.allowed, c.handshake, c.rx, c.tx, c.keep].join('\t')
}

test('an interface with a peer', () => {
  assert.deepEqual(parseWgDump(`${HEAD}${peer({ psk: PSK, keep: '25' })}\n`), {
    listenPort: 51820,
    peers: [
      {
        publicKey: PUBLIC,
        endpoint: '192.0.2.1:2408',
        allowedIps: ['0.0.0.0/0', '::/0'],
        latestHandshakeMs: 1764475000000,
        rxBytes: 92,
        txBytes: 180,
      },
    ],
  })
})

const SHAPES: readonly [string, string, (text: string) => void][] = [
  ['no peers', HEAD, (t) => assert.deepEqual(parseWgDump(t).peers, [])],
  ['no key yet', '(none)\t(none)\t0\toff\n', (t) => assert.equal(parseWgDump(t).listenPort, 0)],
  ['a firewall mark', `${SECRET}\t${PUBLIC}\t1\t0xca6c\n`, (t) => assert.equal(parseWgDump(t).listenPort, 1)],
  [
    'no endpoint',
    HEAD + peer({ endpoint: '(none)' }),
    (t) => assert.equal(parseWgDump(t).peers[0]?.endpoint, undefined),
  ],
  [
    'an IPv6 endpoint',
    HEAD + peer({ endpoint: '[2001:db8::1]:2408' }),
    (t) => assert.equal(parseWgDump(t).peers[0]?.endpoint, '[2001:db8::1]:2408'),
  ],
  [
    'no networks',
    HEAD + peer({ allowed: '(none)' }),
    (t) => assert.deepEqual(parseWgDump(t).peers[0]?.allowedIps, []),
  ],
  [
    'never a handshake',
    HEAD + peer({ handshake: '0' }),
    (t) => assert.equal(parseWgDump(t).peers[0]?.latestHandshakeMs, 0),
  ],
  [
    'two peers',
    `${HEAD}${peer({})}\n${peer({ rx: '7' })}\n`,
    (t) =>
      assert.deepEqual(
        parseWgDump(t).peers.map((p) => p.rxBytes),
        [92, 7],
      ),
  ],
]
for (const [what, text, check] of SHAPES) test(what, () => check(text))

const BAD: readonly [string, string][] = [
  ['nothing', ''],
  ['a short interface line', `${SECRET}\t${PUBLIC}\n`],
  ['a short peer line', `${HEAD}${PUBLIC}\t(none)\n`],
  ['a word for a number', HEAD + peer({ rx: 'many' })],
  ['words of an error', 'Unable to access interface: No such device\n'],
]
for (const [what, text] of BAD) {
  test(`refused without echoing anything: ${what}`, () => {
    assert.throws(
      () => parseWgDump(text),
      (err: Error) => /^wg dump: line [12] /.test(err.message) && !err.message.includes(SECRET),
    )
  })
}

test('no key that is secret is ever in the result or the error', () => {
  const cell = fc.constantFrom(SECRET, PSK, PUBLIC, '0', '1', 'off', '(none)', '')
  const text = fc.array(
    fc.array(cell, { maxLength: 9 }).map((cells) => cells.join('\t')),
    { maxLength: 3 },
  )
  fc.assert(
    fc.property(text, (lines) => {
      // The cells of public keys and networks are kept as they are; elsewhere nothing of a key survives.
      const whole = lines.map((line) =>
        line
          .split('\t')
          .map((c, i) => (i === 0 || i === 2 || i === 3 ? 'x' : c))
          .join('\t'),
      )
      const input = `${HEAD}${whole.join('\n')}`
      let out: string
      try {
        out = JSON.stringify(parseWgDump(input))
      } catch (err) {
        out = String(err)
      }
      assert.ok(!out.includes(SECRET) && !out.includes(PSK), out)
    }),
  )
})
