import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { carriesV6, insideLines, renderSetconf } from '../../lib/tunnel/render.ts'
import { ConfError, parseTunnelConf } from '../../lib/tunnel/wg-conf.ts'

const KEY_A = `${'A'.repeat(42)}E=`
const KEY_B = `${'B'.repeat(42)}A=`
const KEY_C = `${'C'.repeat(42)}k=`

const FULL = `# made by hand
[Interface]
PrivateKey = ${KEY_A}
Address = 172.16.0.2/32, 2606:4700:110:8a36::2/128
DNS = 1.1.1.1, 2606:4700:4700::1111
MTU = 1280
ListenPort = 51820

[Peer]   # the far end
PublicKey = ${KEY_B}
PresharedKey = ${KEY_C}
AllowedIPs = 0.0.0.0/0
AllowedIPs = ::/0
Endpoint = engage.example.com:2408
PersistentKeepalive = 25
`

const MINIMAL = `[Interface]
PrivateKey=${KEY_A}
Address=10.0.0.2
[Peer]
PublicKey=${KEY_B}
AllowedIPs=0.0.0.0/0
Endpoint=192.0.2.1:51820
`

function problemsOf(text: string): readonly string[] {
  try {
    parseTunnelConf(text)
  } catch (err) {
    assert.ok(err instanceof ConfError, String(err))
    return err.problems
  }
  return []
}

/** The minimal file with one line replaced or added. */
function withInterface(line: string): string {
  return MINIMAL.replace('[Peer]', `${line}\n[Peer]`)
}
function withPeer(line: string): string {
  return `${MINIMAL}${line}\n`
}

test('a whole file of wg-quick, every setting', () => {
  assert.deepEqual(parseTunnelConf(FULL), {
    privateKey: KEY_A,
    addresses: ['172.16.0.2/32', '2606:4700:110:8a36::2/128'],
    dns: ['1.1.1.1', '2606:4700:4700::1111'],
    mtu: 1280,
    listenPort: 51820,
    peers: [
      {
        publicKey: KEY_B,
        presharedKey: KEY_C,
        allowedIps: ['0.0.0.0/0', '::/0'],
        endpoint: { host: 'engage.example.com', port: 2408 },
        keepalive: 25,
      },
    ],
    ignored: [],
  })
})

test('CRLF line ends, a byte order mark, odd case and spacing read the same', () => {
  const odd = `\uFEFF${FULL.replace('[Interface]', '[ INTERFACE ]').replace('MTU =', '  mtu=').replaceAll('\n', '\r\n')}`
  assert.deepEqual(parseTunnelConf(odd), parseTunnelConf(FULL))
})

test('an address without a prefix is one host', () => {
  assert.deepEqual(parseTunnelConf(MINIMAL).addresses, ['10.0.0.2/32'])
  assert.deepEqual(parseTunnelConf(withInterface('Address = fd00::2')).addresses, [
    '10.0.0.2/32',
    'fd00::2/128',
  ])
})

const IGNORED: readonly [string, RegExp][] = [
  ['Table = off', /^line 4: Table is ignored: /],
  ['FwMark = 0xca6c', /^line 4: FwMark is ignored: /],
  ['DNS = corp.example', /^line 4: a search domain in DNS is ignored/],
]
for (const [line, said] of IGNORED) {
  test(`left out with a reason: ${line}`, () => {
    const { ignored, dns } = parseTunnelConf(withInterface(line))
    assert.match(ignored.join('\n'), said)
    assert.deepEqual(dns, [])
  })
}

const REFUSED: readonly [what: string, text: string, problem: RegExp][] = [
  ['PreUp', withInterface('PreUp = iptables -F'), /^line 4: PreUp is refused: it would run a command$/],
  ['PostUp', withInterface('postup = curl x'), /^line 4: postup is refused: it would run a command$/],
  ['PreDown', withInterface('PreDown = a'), /^line 4: PreDown is refused/],
  ['PostDown', withInterface('PostDown = a'), /^line 4: PostDown is refused/],
  ['PostUp in a peer', withPeer('PostUp = a'), /^line 8: PostUp is refused/],
  ['SaveConfig', withInterface('SaveConfig = true'), /^line 4: SaveConfig is refused: it would write/],
  ['unknown in [Interface]', withInterface('Jc = 4'), /^line 4: unknown setting Jc in \[Interface\]$/],
  ['unknown in [Peer]', withPeer('Jc = 4'), /^line 8: unknown setting Jc in \[Peer\]$/],
  ['unknown section', withPeer('[Other]\nX = 1'), /^line 8: unknown section/],
  ['setting before a section', `MTU = 1400\n${MINIMAL}`, /^line 1: MTU stands before \[Interface\]$/],
  ['second [Interface]', withPeer('[Interface]'), /^line 8: second \[Interface\] section$/],
  ['no value', withInterface('MTU ='), /^line 4: MTU has no value$/],
  ['no equals sign', withInterface('MTU 1400'), /^line 4: is not `Setting = value`$/],
  ['MTU too small', withInterface('MTU = 100'), /^line 4: MTU is not a number from 576 to 65535$/],
  ['MTU no number', withInterface('MTU = 1400x'), /^line 4: MTU is not a number/],
  ['MTU below IPv6', withInterface('MTU = 1000\nAddress = fd00::2'), /^MTU below 1280 cannot carry/],
  ['port', withInterface('ListenPort = 65536'), /^line 4: ListenPort is not a number/],
  ['address', withInterface('Address = 10.0.0.300/32'), /^line 4: Address is not an address/],
  ['prefix', withInterface('Address = 10.0.0.3/33'), /^line 4: Address is not an address/],
  ['scope', withInterface('Address = fe80::1%eth0/64'), /^line 4: Address is not an address/],
  ['empty item', withInterface('Address = 10.0.0.3/32,'), /^line 4: Address is not an address/],
  ['same address', withInterface('Address = 10.0.0.2/32'), /^line 4: Address says the same twice$/],
  ['DNS', withInterface('DNS = 1.1.1.1;8.8.8.8'), /^line 4: DNS is neither/],
  ['allowed', withPeer('AllowedIPs = any'), /^line 8: AllowedIPs is not an address/],
  ['keepalive', withPeer('PersistentKeepalive = 65536'), /^line 8: PersistentKeepalive is not off/],
  ['second endpoint', withPeer('Endpoint = 192.0.2.2:1'), /^line 8: second Endpoint$/],
  ['key', MINIMAL.replace(KEY_A, 'short'), /^line 2: PrivateKey is not a base64 key of 32 bytes$/],
  ['key of 33 bytes', MINIMAL.replace(KEY_A, `${'A'.repeat(44)}`), /^line 2: PrivateKey is not/],
  ['key with spare bits', MINIMAL.replace(KEY_A, `${'A'.repeat(42)}B=`), /^line 2: PrivateKey is not/],
  ['peer key', MINIMAL.replace(KEY_B, 'x'), /^line 5: PublicKey is not a base64 key/],
  ['preshared key', withPeer('PresharedKey = x'), /^line 8: PresharedKey is not a base64 key/],
  ['no private key', MINIMAL.replace(/PrivateKey.*\n/, ''), /^line 1: \[Interface\] has no PrivateKey$/],
  ['no address', MINIMAL.replace(/Address.*\n/, ''), /^line 1: \[Interface\] has no Address$/],
  ['no public key', MINIMAL.replace(/PublicKey.*\n/, ''), /^line 4: \[Peer\] has no PublicKey$/],
  ['no allowed', MINIMAL.replace(/AllowedIPs.*\n/, ''), /^line 4: \[Peer\] has no AllowedIPs$/],
  ['no endpoint', MINIMAL.replace(/Endpoint.*\n/, ''), /^no \[Peer\] has an Endpoint/],
  ['peer twice', withPeer(`[Peer]\nPublicKey=${KEY_B}\nAllowedIPs=::/0`), /^line 8: \[Peer\] repeats/],
  ['no peer', MINIMAL.replace(/\[Peer\][\s\S]*/, ''), /^no \[Peer\] section$/],
  ['empty file', '', /^no \[Interface\] section$/],
  ['huge file', '#'.repeat(70_000), /^longer than 65536 bytes$/],
]
for (const [what, text, problem] of REFUSED) {
  test(`refused: ${what}`, () => assert.match(problemsOf(text)[0] ?? 'nothing wrong', problem))
}

test('every problem is told at once', () => {
  assert.equal(problemsOf(withInterface('MTU = x\nPostUp = y\nAddress = z')).length, 3)
})

const ENDPOINTS: readonly [string, { host: string; port: number } | undefined][] = [
  ['192.0.2.7:51820', { host: '192.0.2.7', port: 51820 }],
  ['[2001:db8::7]:51820', { host: '2001:db8::7', port: 51820 }],
  ['wg.example.com:1', { host: 'wg.example.com', port: 1 }],
  ['wg.example.com.:1', { host: 'wg.example.com.', port: 1 }],
  ['wg.example.com', undefined],
  ['2001:db8::7:51820', undefined],
  ['[192.0.2.7]:51820', undefined],
  ['10.1:51820', undefined],
  ['192.0.2.7:0', undefined],
  ['192.0.2.7:65536', undefined],
  ['-x.example:1', undefined],
  ['a b:1', undefined],
  ['$(id):1', undefined],
]
for (const [text, endpoint] of ENDPOINTS) {
  test(`endpoint ${text}`, () => {
    const file = MINIMAL.replace('192.0.2.1:51820', text)
    if (endpoint === undefined)
      assert.deepEqual(problemsOf(file), [
        'line 7: Endpoint is not host:port',
        'no [Peer] has an Endpoint, so there is nowhere to connect to',
      ])
    else assert.deepEqual(parseTunnelConf(file).peers[0]?.endpoint, endpoint)
  })
}

test('no error ever shows a value, wherever a key was pasted', () => {
  const secret = 'yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk='
  const lines = MINIMAL.split('\n')
  const key = fc.constantFrom(
    '',
    'PrivateKey = ',
    'PublicKey = ',
    'Address = ',
    'Endpoint = ',
    'MTU=',
    'DNS = ',
    'X = ',
    'PostUp = ',
    '[',
    '[Peer] ',
  )
  fc.assert(
    fc.property(key, fc.nat(lines.length), fc.nat(10), (before, at, cut) => {
      const text = lines.toSpliced(at, 0, `${before}${secret.slice(cut)}`).join('\n')
      const said = problemsOf(text).join('\n')
      for (let i = 0; i + 8 <= secret.length; i++) assert.ok(!said.includes(secret.slice(i, i + 8)), said)
    }),
  )
})

test('whatever the text, it parses or throws ConfError', () => {
  const line = fc.oneof(fc.string(), fc.constantFrom(...FULL.split('\n')))
  fc.assert(fc.property(fc.array(line), (all) => void problemsOf(all.join('\n'))))
})

test('what wg is given: resolved endpoints, no setting of wg-quick', () => {
  assert.equal(
    renderSetconf(parseTunnelConf(FULL), new Map([[KEY_B, '192.0.2.9:2408']])),
    `[Interface]
PrivateKey = ${KEY_A}
ListenPort = 51820
[Peer]
PublicKey = ${KEY_B}
PresharedKey = ${KEY_C}
Endpoint = 192.0.2.9:2408
AllowedIPs = 0.0.0.0/0, ::/0
PersistentKeepalive = 25
`,
  )
})

test('an IPv6 way out only for a tunnel with an IPv6 address', () => {
  assert.deepEqual(insideLines('wg-x', parseTunnelConf(MINIMAL)), [
    'address add 10.0.0.2/32 dev wg-x',
    'link set dev wg-x up',
    'route replace 0.0.0.0/0 dev wg-x',
  ])
  assert.deepEqual(insideLines('wg-x', parseTunnelConf(FULL)).slice(-3), [
    'link set dev wg-x mtu 1280 up',
    'route replace 0.0.0.0/0 dev wg-x',
    'route replace ::/0 dev wg-x',
  ])
  assert.equal(carriesV6(parseTunnelConf(MINIMAL)), false)
})
