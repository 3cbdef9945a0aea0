import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { paths } from '../../lib/base/paths.ts'
import { maybeRoot, parseIdMap, Trust } from '../../lib/evidence/owner.ts'
import { judgeSight, localAddresses, lookAtShell, type Shell } from '../../lib/evidence/sight.ts'
import { needsRoot } from '../kit/needs-root.ts'
import { tempDir, tempPaths } from '../kit/temp.ts'

const all = { seen: true, value: true } as const
const host = { net: 10, pid: 20 }
const shell = (over: Partial<Shell>): Shell => ({
  net: 10,
  pid: 20,
  hostNs: host,
  firstUserNs: true,
  all,
  addresses: new Set(['10.201.35.1']),
  ...over,
})
const { hostNs: _, ...unknownHost } = shell({})

describe('what a shell can see of the host', () => {
  const cases: [string, Shell, { processes: boolean; network: boolean; absence: boolean }][] = [
    ['the host’s own', shell({}), { processes: true, network: true, absence: true }],
    ['own PID namespace', shell({ pid: 21 }), { processes: false, network: true, absence: true }],
    ['own network namespace', shell({ net: 11 }), { processes: true, network: false, absence: true }],
    [
      'processes hidden',
      shell({ all: { seen: false, why: 'hidepid' } }),
      { processes: false, network: true, absence: true },
    ],
    [
      'fake root, with receipts',
      shell({ firstUserNs: false }),
      { processes: true, network: true, absence: true },
    ],
    // No receipt says which namespaces are the host's.
    ['just booted', unknownHost, { processes: true, network: true, absence: false }],
    [
      'just booted, the address not here',
      { ...unknownHost, addresses: new Set<string>() },
      { processes: true, network: false, absence: false },
    ],
    [
      'just booted, in a user namespace with the very address',
      { ...unknownHost, firstUserNs: false },
      { processes: false, network: false, absence: false },
    ],
  ]
  for (const [name, s, expected] of cases)
    it(name, () => {
      const sight = judgeSight(s)
      const network = sight.network('10.201.35.1').seen
      assert.deepEqual({ processes: sight.processes.seen, network, absence: sight.absenceCounts }, expected)
      // Where evidence has to do instead of a look, the screen says why in its second line.
      const sighted = expected.processes && (expected.network || s.hostNs === undefined)
      assert.equal(sight.blind.length === 0, sighted, sight.blind.join('; '))
    })

  it('reads its own namespaces', () => {
    const s = lookAtShell(paths(''), undefined)
    assert.ok((s.net ?? 0) > 0)
    assert.ok((s.pid ?? 0) > 0)
  })
})

describe('the addresses of a network namespace', () => {
  const TRIE = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.201.35.0
        /30 link UNICAST
     |-- 10.201.35.9
        /32 host UNICAST
Local:
        +-- 10.201.35.0/30 2 0 2
           |-- 10.201.35.1
              /32 host LOCAL
           |-- 10.201.35.3
              /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
`
  it('are those that are local, not those there is a route to', () => {
    assert.deepEqual([...localAddresses(TRIE)], ['10.201.35.1', '127.0.0.1'])
    assert.equal(localAddresses('').size, 0)
  })
  it('are read from the kernel', () => {
    assert.ok(lookAtShell(paths(''), undefined).addresses.has('127.0.0.1'))
  })
})

describe('whose file it may be', () => {
  const first = parseIdMap('         0          0 4294967295\n')
  const fake = parseIdMap('         0       1000          1\n')
  // An inner namespace of a fake root shows its parent's ids: uid 0 on both sides, and no power at all.
  const nested = parseIdMap('         0          0          1\n')
  const podman = parseIdMap('         0       1000          1\n         1     100000      65536\n')
  const cases: [string, ReturnType<typeof parseIdMap>, number, boolean][] = [
    ['root in the first namespace', first, 0, true],
    ['a user in the first namespace', first, 1000, false],
    ['nobody in the first namespace', first, 65534, false],
    ['uid 0 of a fake root is himself', fake, 0, false],
    ['an unmapped owner seen by a fake root', fake, 65534, true],
    ['uid 0 of a fake root’s fake root', nested, 0, false],
    ['an unmapped owner seen from there', nested, 65534, true],
    ['where somebody is mapped to the overflow id nobody can tell', podman, 65534, false],
    ['no map to read', parseIdMap(undefined), 0, false],
  ]
  for (const [name, map, uid, expected] of cases)
    it(`${name}: ${expected}`, () => assert.equal(maybeRoot(uid, map), expected))
})

describe('files that only root can have written', () => {
  const skip = needsRoot('gives files away')
  const real = (dir: string) => ({ ...paths(''), root: '', run: dir })

  it('root’s file counts, a user’s does not', { skip }, (t) => {
    const dir = tempDir(t)
    chmodSync(dir, 0o755)
    // /tmp itself is everybody's to write in, so a path below it never counts: that is part of the rule.
    writeFileSync(`${dir}/f`, 'x')
    const look = new Trust(real(dir)).read(`${dir}/f`)
    assert.equal(look.seen, false)
    assert.match(look.seen ? '' : look.why, /others may write/)
  })

  const at = `/run/netvm-trust-test-${process.pid}`
  const make = (): Trust => {
    mkdirSync(`${at}/netvm`, { recursive: true, mode: 0o755 })
    writeFileSync(`${at}/netvm/f`, 'x', { mode: 0o644 })
    return new Trust(real(at))
  }
  const cases: [string, () => void, RegExp | undefined][] = [
    ['as root wrote it', () => {}, undefined],
    ['given to a user', () => chownSync(`${at}/netvm/f`, 1000, 0), /not written by root/],
    ['writable by all', () => chmodSync(`${at}/netvm/f`, 0o646), /others may write/],
    ['writable by its group', () => chmodSync(`${at}/netvm/f`, 0o664), /others may write/],
    ['in a user’s directory', () => chownSync(`${at}/netvm`, 1000, 0), /not written by root/],
    ['in a directory that others may write', () => chmodSync(`${at}/netvm`, 0o777), /others may write/],
  ]
  for (const [name, damage, why] of cases)
    it(`a file ${name}`, { skip }, async (t) => {
      const { rmSync } = await import('node:fs')
      t.after(() => rmSync(at, { recursive: true, force: true }))
      const trust = make()
      damage()
      const look = trust.read(`${at}/netvm/f`)
      if (why === undefined) assert.deepEqual(look, { seen: true, value: 'x' })
      else assert.match(look.seen ? 'believed' : look.why, why)
    })

  it('a link, a directory and a file too big are refused; a missing file is just missing', (t) => {
    const p = tempPaths(t)
    mkdirSync(p.run, { recursive: true })
    writeFileSync(`${p.run}/f`, 'xyz')
    symlinkSync(`${p.run}/f`, `${p.run}/link`)
    const trust = new Trust(p)
    assert.deepEqual(trust.read(`${p.run}/f`), { seen: true, value: 'xyz' })
    assert.equal(trust.read(`${p.run}/link`).seen, false)
    assert.equal(trust.read(p.run).seen, false)
    assert.equal(trust.read(`${p.run}/f`, 2).seen, false)
    assert.deepEqual(trust.read(`${p.run}/none`), { seen: true, value: undefined })
    assert.deepEqual(trust.read(`${p.run}/no/dir`), { seen: true, value: undefined })
  })
})
