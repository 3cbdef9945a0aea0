import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRegistry } from '../../lib/registry/read.ts'
import { cells, line, registry } from '../kit/registry-fixtures.ts'

const one = (over: Record<string, string>) => parseRegistry(registry([line(cells('muse', over))]))

test('a good row, every field', () => {
  const over = {
    'Chat URL': 'https://chat.test/c?x=1&y=2',
    'Chat Title': 'Chat \\| with muse',
    'API Check': '/api/me',
    Host: 'box1',
  }
  const r = one({ ...over, Status: 'Active' })
  assert.deepEqual(r.errors, [])
  assert.deepEqual(r.nodes, [
    {
      name: 'muse',
      agent: 'muse-agent',
      netns: 'warp-muse',
      cdpPort: 10355,
      gw: '10.201.35.1',
      peer: '10.201.35.2',
      relayTarget: '127.0.0.1:10355',
      status: 'active',
      chatUrl: 'https://chat.test/c?x=1&y=2',
      chatTitle: 'Chat | with muse',
      apiCheck: '/api/me',
      host: 'box1',
      line: 5,
    },
  ])
  assert.equal(r.table?.headerLine, 3)
})

const ACCEPTED: [string, Record<string, string>, string, string | number][] = [
  [
    'prefix lengths',
    { 'Veth IP (host)': '10.201.35.1/30', 'Peer IP (netns)': '10.201.35.2/30' },
    'gw',
    '10.201.35.1',
  ],
  ['172.16/12', { 'Veth IP (host)': '172.31.0.5', 'Peer IP (netns)': '172.31.0.6' }, 'peer', '172.31.0.6'],
  [
    '192.168/16',
    { 'Veth IP (host)': '192.168.9.253', 'Peer IP (netns)': '192.168.9.254' },
    'gw',
    '192.168.9.253',
  ],
  ['a code span', { Netns: '`warp-muse`' }, 'netns', 'warp-muse'],
  ['an angled URL', { 'Chat URL': '<https://x.test/>' }, 'chatUrl', 'https://x.test/'],
  ['RETIRED', { Status: 'RETIRED' }, 'status', 'retired'],
  ['the lowest port', { 'CDP Port': '1024', 'Relay Target': '127.0.0.1:1024' }, 'cdpPort', 1024],
  ['the highest port', { 'CDP Port': '65535', 'Relay Target': '127.0.0.1:65535' }, 'cdpPort', 65_535],
  ['an API URL', { 'API Check': 'https://x.test/me' }, 'apiCheck', 'https://x.test/me'],
  ['any title', { 'Chat Title': `"it's" <b>; $(x) 日本` }, 'chatTitle', `"it's" <b>; $(x) 日本`],
  ['no agent', { Agent: '' }, 'agent', ''],
]
for (const [what, over, field, value] of ACCEPTED) {
  test(`accepted: ${what}`, () => {
    const r = one(over)
    assert.deepEqual(r.errors, [])
    assert.equal(r.nodes[0]?.[field as 'gw'], value)
  })
}

const REFUSED: [string, Record<string, string>, RegExp][] = [
  ['upper case', { Node: 'Muse' }, /^bad node name "Muse"$/],
  ['no name', { Node: '' }, /^bad node name ""$/],
  ['path in the name', { Node: '../x' }, /^bad node name/],
  ['reserved name', { Node: 'fleet', Netns: 'warp-fleet' }, /^bad node name "fleet"/],
  ['other netns', { Netns: 'warp-pip' }, /^Netns must be warp-muse, not "warp-pip"/],
  ['port too low', { 'CDP Port': '1023' }, /^CDP Port must be 1024 to 65535, not "1023"/],
  ['port too high', { 'CDP Port': '65536' }, /^CDP Port must be/],
  ['port is text', { 'CDP Port': '9e3' }, /^CDP Port must be/],
  ['port empty', { 'CDP Port': '' }, /^CDP Port must be/],
  [
    'gateway no address',
    { 'Veth IP (host)': 'localhost' },
    /^Veth IP \(host\) is no IPv4 address: "localhost"/,
  ],
  ['octet too large', { 'Veth IP (host)': '10.201.256.1' }, /no IPv4 address/],
  ['leading zero', { 'Peer IP (netns)': '10.201.35.02' }, /^Peer IP \(netns\) is no IPv4/],
  ['other prefix', { 'Veth IP (host)': '10.201.35.1/24' }, /no IPv4 address/],
  ['IPv6', { 'Veth IP (host)': 'fd00::1' }, /no IPv4 address/],
  ['public', { 'Veth IP (host)': '8.8.8.9', 'Peer IP (netns)': '8.8.8.10' }, /must be private/],
  ['172.32', { 'Veth IP (host)': '172.32.0.1', 'Peer IP (netns)': '172.32.0.2' }, /must be private/],
  ['ends swapped', { 'Veth IP (host)': '10.201.35.2', 'Peer IP (netns)': '10.201.35.1' }, /of one \/30/],
  ['two networks', { 'Peer IP (netns)': '10.201.35.6' }, /of one \/30/],
  ['relay elsewhere', { 'Relay Target': '127.0.0.1:9222' }, /^Relay Target must be 127.0.0.1:10355/],
  ['relay by name', { 'Relay Target': 'localhost:10355' }, /^Relay Target must be/],
  ['paused', { Status: 'paused' }, /^Status must be active or retired, not "paused"/],
  ['status empty', { Status: '' }, /^Status must be/],
  ['URL scheme', { 'Chat URL': 'file:///etc/passwd' }, /^Chat URL is no http/],
  ['URL with a quote', { 'Chat URL': "https://x.test/'" }, /^Chat URL is no http/],
  ['URL with a space', { 'Chat URL': 'https://x.test/a b' }, /^Chat URL is no http/],
  ['URL without a host', { 'Chat URL': 'https://' }, /^Chat URL is no http/],
  ['URL with a control character', { 'Chat URL': 'https://x.test/\u0001' }, /^Chat URL is no http/],
  ['API of another origin', { 'API Check': '//x.test/' }, /^API Check must be empty, a path or a URL/],
  ['API is a word', { 'API Check': 'yes' }, /^API Check must be/],
  ['host with a slash', { Host: 'a/b' }, /^bad Host "a\/b"/],
  ['title with an escape', { 'Chat Title': '\u001b[31mx' }, /^Chat Title has a control character/],
  ['agent with NUL', { Agent: 'a\u0000' }, /^Agent has a control character/],
]
for (const [what, over, reason] of REFUSED) {
  test(`refused, with its line and the others kept: ${what}`, () => {
    const r = parseRegistry(registry([line(cells('pip')), line(cells('muse', over)), line(cells('opm'))]))
    assert.deepEqual(
      r.nodes.map((n) => [n.name, n.line]),
      [
        ['pip', 5],
        ['opm', 7],
      ],
    )
    assert.equal(r.errors.length, 1)
    assert.equal(r.errors[0]?.line, 6)
    assert.match(r.errors[0]?.reason ?? '', reason)
    assert.equal(r.errors[0]?.name, 'Node' in over ? undefined : 'muse')
  })
}

const DUPLICATES: [string, Record<string, string>, string, RegExp][] = [
  ['node', {}, 'muse', /^duplicate node muse \(also on line 5\)/],
  [
    'port',
    { 'CDP Port': '10355', 'Relay Target': '127.0.0.1:10355' },
    'pip',
    /^duplicate CDP Port 10355 \(also muse, line 5\)/,
  ],
  [
    'address',
    { 'Veth IP (host)': '10.201.35.1', 'Peer IP (netns)': '10.201.35.2/30' },
    'pip',
    /^duplicate address 10.201.35.1 \(also muse, line 5\)/,
  ],
]
for (const [what, over, name, reason] of DUPLICATES) {
  test(`the later row is refused: duplicate ${what}, also against a retired row`, () => {
    for (const Status of ['active', 'retired']) {
      const r = parseRegistry(
        registry([line(cells('muse', { Status })), line(cells(name, over)), line(cells('opm'))]),
      )
      assert.deepEqual(
        r.nodes.map((n) => n.name),
        ['muse', 'opm'],
      )
      assert.deepEqual(
        r.errors.map((e) => [e.line, e.name]),
        [[6, name]],
      )
      assert.match(r.errors[0]?.reason ?? '', reason)
    }
  })
}

const PIP = line(cells('pip'))
const ENDED: [string, string][] = [
  ['a blank line', `\n${PIP}`],
  ['a heading', `\n## More\n\n${PIP}`],
  ['an indentation', `     ${PIP}`],
  ['a list marker', `- ${PIP}`],
]
for (const [what, rest] of ENDED) {
  test(`a row that ${what} took out of the table is refused, not overlooked`, () => {
    const r = parseRegistry(registry([line(cells('muse')), rest]))
    assert.deepEqual(
      r.nodes.map((n) => n.name),
      ['muse'],
    )
    assert.equal(r.errors[0]?.name, 'pip')
    assert.match(r.errors[0]?.reason ?? '', /^it is outside the table that starts on line 3/)
  })
}

test('rows in the text that are no loss: an example, a retired one, an old one of a node that has its row', () => {
  const fenced = ['```', PIP, '```'].join('\n')
  const old = [line(cells('opm', { Status: 'retired' })), line(cells('muse', { 'CDP Port': '9999' }))]
  const r = parseRegistry(registry([line(cells('muse')), '', fenced, '', `> ${PIP}`, '', ...old]))
  assert.deepEqual(r.errors, [])
})
