import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { ConfigError, UsageError } from '../../lib/base/errors.ts'
import { deriveNames } from '../../lib/registry/names.ts'
import {
  activeLocalNodes,
  findNode,
  isLocal,
  parseRegistry,
  RegistryError,
  readRegistry,
} from '../../lib/registry/read.ts'
import { COLUMNS, cells, fleet, line, registry, said } from '../kit/registry-fixtures.ts'
import { tempPaths } from '../kit/temp.ts'

const one = (over: Record<string, string>, name = 'muse') =>
  parseRegistry(registry([line(cells(name, over))]))

const head = line(COLUMNS)
const sep = line(COLUMNS.map(() => '---'))
const row = (name: string) => line(cells(name).slice(0, 8))
const UNREADABLE: [string, string, RegExp][] = [
  ['empty', '', /^no table with the columns Node, Agent, /],
  ['prose', '# Nodes\n\nnone yet\n', /^no table with the columns/],
  ['NULs', '\u0000'.repeat(100), /^no table with the columns/],
  [
    'a column missing',
    [head.replace('| Status ', ''), sep].join('\n'),
    /^line 1: the table lacks the column Status$/,
  ],
  [
    'two missing',
    [head.replace('| Agent ', '').replace('| Netns ', ''), sep].join('\n'),
    /lacks the columns Agent, Netns$/,
  ],
  ['a column twice', [`${head} Status |`, `${sep} --- |`].join('\n'), /^line 1: column named twice: status/],
  [
    'in a code block',
    ['```', head, sep, row('muse'), '```'].join('\n'),
    /^line 2: the table is inside a code block/,
  ],
  ['in a comment', ['<!--', head, sep, row('muse'), '-->'].join('\n'), /^line 2: .* a comment/],
  ['in a quote', [head, sep, row('muse')].map((l) => `> ${l}`).join('\n'), /^line 1: .* a quote/],
]
for (const [what, text, reason] of UNREADABLE) {
  test(`no registry: ${what}`, () => {
    assert.throws(
      () => parseRegistry(text),
      (e: Error) => e instanceof RegistryError && reason.test(e.message),
    )
  })
}

test('a table without its separator row is still read, and the loss is named', () => {
  const r = parseRegistry([head, row('muse'), row('pip'), ''].join('\n'))
  assert.deepEqual(
    r.nodes.map((n) => n.name),
    ['muse', 'pip'],
  )
  assert.deepEqual(r.errors, [{ line: 2, reason: 'no separator row (| --- | …) below the header' }])
})

test('an unescaped pipe, also in a code span, shifts cells: refused with the way to write it', () => {
  for (const title of ['a|b', '`a|b`']) {
    const r = one({ 'Chat Title': title })
    assert.match(r.errors[0]?.reason ?? '', /^13 cells, the header 12: write a pipe inside a cell as \\\|$/)
    assert.equal(r.errors[0]?.name, 'muse')
  }
  assert.equal(one({ 'Chat Title': '`a\\|b`' }).nodes[0]?.chatTitle, 'a|b')
})

test('a short row is refused; one that only lacks optional cells is good', () => {
  const full = cells('muse')
  const short = parseRegistry(
    registry([line(full.slice(0, 7)), line(cells('pip')), 'left over from a bad edit']),
  )
  assert.deepEqual(short.errors[0], { line: 5, name: 'muse', reason: 'short row: 7 cells, the header 12' })
  assert.deepEqual(
    short.nodes.map((n) => n.name),
    ['pip'],
  )
  assert.equal(short.errors[1]?.line, 7)
  assert.equal(parseRegistry(registry([line(full.slice(0, 8))])).nodes[0]?.name, 'muse')
})

test('line ends, outer pipes, indentation and alignment do not matter', () => {
  const rows = ['muse', 'pip'].map((n) => cells(n, { 'Chat Title': 'x', Host: 'h' }))
  const plain = parseRegistry(registry(rows.map(line)))
  const columns = [head, sep, ...['muse', 'pip'].map(row)]
  assert.deepEqual(said(parseRegistry(registry(rows.map(line), '\r\n')).nodes), said(plain.nodes))
  assert.deepEqual(said(parseRegistry(registry(rows.map(line), '\r')).nodes), said(plain.nodes))
  const bare = columns.map((l) => l.slice(2, -2)).join('\n')
  assert.deepEqual(
    parseRegistry(bare).nodes.map((n) => n.name),
    ['muse', 'pip'],
  )
  assert.deepEqual(parseRegistry(bare).errors, [])
  const aligned = [`   ${head}`, `  ${sep.replaceAll('---', ':-:')}`, ` ${row('muse')}  `].join('\n')
  assert.deepEqual(
    parseRegistry(`\uFEFF${aligned}`).nodes.map((n) => n.name),
    ['muse'],
  )
})

test('columns are found by name, in any order and case, between others', () => {
  const names = ['Notes', ...[...COLUMNS].reverse().map((c) => c.toUpperCase())]
  const values = ['n', ...cells('muse').slice(0, 8).reverse()]
  const r = parseRegistry([line(names), line(names.map(() => '-')), line(values)].join('\n'))
  assert.deepEqual(said(r.nodes), said(one({}).nodes))
})

test('a second registry table is not silently left out', () => {
  const r = parseRegistry(`${[head, sep, row('muse')].join('\n')}\n\n${[head, sep, row('pip')].join('\n')}\n`)
  assert.deepEqual(
    r.nodes.map((n) => n.name),
    ['muse'],
  )
  assert.deepEqual(r.errors, [{ line: 5, reason: 'a second registry table: only the one on line 1 is read' }])
})

test('any line among good rows leaves the others as they are', () => {
  const junk = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .array(fc.constantFrom('|', '\\', '`', ' ', 'muse', 'active', '10.201.35.1', '---', ':'))
      .map((a) => a.join('')),
  )
  // A blank line, or the start of another block, ends a Markdown table: those are not rows.
  const bad = junk.map((s) => `| ${s.replace(/[\r\n]/g, '')} |`)
  fc.assert(
    fc.property(fleet, bad, fc.nat(), (names, text, at) => {
      const rows = names.map((n) => line(cells(n)))
      const good = parseRegistry(registry(rows))
      assert.deepEqual(good.errors, [])
      assert.deepEqual(
        good.nodes.map((n) => n.name),
        names,
      )
      rows.splice(at % (rows.length + 1), 0, text)
      const mixed = parseRegistry(registry(rows))
      assert.deepEqual(said(mixed.nodes), said(good.nodes))
      assert.equal(mixed.errors.length, 1)
    }),
  )
})

test('any text is parsed or refused with a RegistryError', () => {
  const part = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom(head, sep, row('muse'), row('pip'), '\n', '\r\n', '|', '```', '<!--', '-->'),
  )
  fc.assert(
    fc.property(fc.array(part), fc.constantFrom('', '\n'), (parts, glue) => {
      try {
        for (const n of parseRegistry(parts.join(glue)).nodes) assert.equal(n.netns, `warp-${n.name}`)
      } catch (e) {
        assert.ok(e instanceof RegistryError)
      }
    }),
    { numRuns: 500 },
  )
})

test('readRegistry: missing, unreadable and without a table are RegistryErrors that name the file', (t) => {
  const p = tempPaths(t)
  mkdirSync(p.etc, { recursive: true })
  const file = `${p.etc}/NODES.md`
  const config = { registry: file }
  assert.throws(
    () => readRegistry(p, config),
    (e: Error) => e instanceof RegistryError && e.message.startsWith(`no registry at ${file}: `),
  )
  writeFileSync(file, 'x')
  assert.throws(
    () => readRegistry(p, config),
    (e: Error) => e.message.startsWith(`${file}: no table`),
  )
  assert.throws(() => readRegistry(p, { registry: p.etc }), /cannot read .*: EISDIR/)
  // Nobody ever writes it: opened as a file it would hold up every supervisor.
  const fifo = join(p.etc, 'fifo')
  execFileSync('mkfifo', [fifo])
  assert.throws(() => readRegistry(p, { registry: fifo }), /cannot read .*: it is no file/)
  writeFileSync(file, registry([line(cells('muse'))]))
  assert.equal(readRegistry(p, config).nodes.length, 1)
})

test('findNode: the row; or why not, naming the registry', () => {
  const parsed = {
    ...parseRegistry(registry([line(cells('muse')), line(cells('pip', { Status: 'x' }))])),
    path: '/r.md',
  }
  assert.equal(findNode(parsed, 'muse').name, 'muse')
  const err = (name: string) => {
    try {
      findNode(parsed, name)
    } catch (e) {
      assert.ok(e instanceof (name === 'pip' ? ConfigError : UsageError))
      return e.message
    }
    return undefined
  }
  assert.equal(
    err('pip'),
    'the row of node pip was refused: /r.md line 6: Status must be active or retired, not "x"',
  )
  assert.equal(err('no\u001b[2Jpe'), 'no node "nope" in /r.md (it has muse)')
})

test('isLocal and activeLocalNodes', () => {
  const local: [string, string, boolean][] = [
    ['', 'box1', true],
    ['box1', 'box1', true],
    ['BOX1', 'box1', true],
    ['box1', 'box1.example.test', true],
    ['box1.example.test', 'box1', false],
    ['box', 'box1', false],
    ['box2', 'box1', false],
  ]
  for (const [host, own, expected] of local)
    assert.equal(isLocal({ host }, own), expected, `${host} on ${own}`)
  const rows = [
    cells('muse'),
    cells('pip', { Status: 'retired' }),
    cells('opm', { Host: 'b' }),
    cells('def', { Host: 'a' }),
  ]
  const parsed = parseRegistry(registry(rows.map(line)))
  assert.deepEqual(
    activeLocalNodes(parsed, 'a').map((n) => n.name),
    ['muse', 'def'],
  )
})

test('the repository’s NODES.md holds the reference fleet', () => {
  const r = parseRegistry(readFileSync(new URL('../../NODES.md', import.meta.url), 'utf8'))
  assert.deepEqual(r.errors, [])
  const pinned = { muse: 9410, pip: 9420, 646: 9430, opm: 9440, def: 9450, dev: 9455 }
  assert.deepEqual(Object.fromEntries(r.nodes.map((n) => [n.name, n.cdpPort])), pinned)
  for (const n of r.nodes) {
    const names = deriveNames(n.name)
    assert.deepEqual([n.gw, n.peer, n.status], [names.gw, names.peer, 'active'])
    assert.equal(n.agent, n.name === '646' ? 'operator-646' : n.name)
  }
})
