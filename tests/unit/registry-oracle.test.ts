// The reader against a GFM parser: the same table, found at the same lines, with the same cells.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fromMarkdown } from 'mdast-util-from-markdown'
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table'
import { gfmTable } from 'micromark-extension-gfm-table'
import { cellText, escapeCell, findTables } from '../../lib/registry/table.ts'
import { cellValue } from '../kit/registry-fixtures.ts'

interface Seen {
  readonly headerLine: number
  readonly rows: readonly (readonly string[])[]
}

/** Every table at the top level of the text whose first header cell is `k`, as the GFM parser sees it. */
function oracle(text: string): Seen[] {
  const tree = fromMarkdown(text, { extensions: [gfmTable()], mdastExtensions: [gfmTableFromMarkdown()] })
  const tables = tree.children.filter((n) => n.type === 'table')
  return tables
    .map((t) => {
      const rows = t.children.map((r) => r.children.map((c) => plain(c)))
      return { headerLine: t.position?.start.line ?? 0, header: rows[0] ?? [], rows: rows.slice(1) }
    })
    .filter((t) => t.header.includes('k'))
    .map(({ headerLine, rows }) => ({ headerLine, rows }))
}

/** The text of a cell: of text and code, which is all that the generated cells contain. */
function plain(node: { type: string; value?: string; children?: unknown[] }): string {
  if (node.value !== undefined) return node.value
  return ((node.children ?? []) as { type: string }[]).map(plain).join('')
}

function ours(text: string): Seen[] {
  return findTables(text, ['k'])
    .filter((t) => t.separator !== undefined && t.separator.cells.length === t.header.cells.length)
    .map((t) => ({ headerLine: t.headerLine, rows: t.rows.map((r) => r.cells.map((c) => cellText(c.raw))) }))
}

/** The parser of the oracle leaves surplus cells in; both are compared as they are. */
function same(text: string): void {
  assert.deepEqual(ours(text), oracle(text), JSON.stringify(text))
}

const FIXED: [string, string][] = [
  ['plain', '| k | b |\n| - | - |\n| 1 | 2 |\n'],
  ['escaped pipe', '| k | b |\n| - | - |\n| a\\|b | 2 |\n'],
  ['two backslashes and a pipe', '| k | b |\n| - | - |\n| a\\\\|b |\n'],
  ['pipe in a code span', '| k | b |\n| - | - |\n| `a|b` | 2 |\n'],
  ['escaped pipe in a code span', '| k | b |\n| - | - |\n| `a\\|b` | 2 |\n'],
  ['backslash in a code span', '| k | b |\n| - | - |\n| `a\\b` | 2 |\n'],
  ['double backticks', '| k | b |\n| - | - |\n| `` a`b `` | 2 |\n'],
  ['CRLF', '| k | b |\r\n| - | - |\r\n| 1 | 2 |\r\n'],
  ['CR alone', '| k | b |\r| - | - |\r| 1 | 2 |\r'],
  ['no outer pipes', 'k | b\n--- | ---\n1 | 2\n'],
  ['no leading pipe', 'k | b |\n--- | --- |\n1 | 2 |\n'],
  ['no trailing pipe', '| k | b\n| - | -\n| 1 | 2\n'],
  ['no separator row', '| k | b |\n| 1 | 2 |\n'],
  ['separator of another width', '| k | b |\n| - |\n| 1 | 2 |\n'],
  ['short and long rows', '| k | b |\n| - | - |\n| 1 |\n| 1 | 2 | 3 |\n'],
  ['empty cells', '| k | b |\n| - | - |\n| | |\n|  |\n||\n|||\n'],
  ['a row of one word', '| k | b |\n| - | - |\nword\n'],
  ['alignment', '| k | b |\n|:-|-:|\n| 1 | 2 |\n'],
  ['tabs', '|\tk\t|\tb\t|\n| - | - |\n|\t1\t|\t2\t|\n'],
  ['no end of line', '| k | b |\n| - | - |\n| 1 | 2 |'],
  ['header only', '| k | b |\n| - | - |'],
  ['blank line ends it', '| k | b |\n| - | - |\n| 1 | 2 |\n\n| 3 | 4 |\n'],
  ['heading ends it', '| k | b |\n| - | - |\n| 1 | 2 |\n# x | y\n'],
  ['quote ends it', '| k | b |\n| - | - |\n| 1 | 2 |\n> | 3 | 4 |\n'],
  ['fence ends it', '| k | b |\n| - | - |\n| 1 | 2 |\n```\n| 3 | 4 |\n```\n'],
  ['list ends it', '| k | b |\n| - | - |\n| 1 | 2 |\n- 3 | 4\n'],
  ['rule ends it', '| k | b |\n| - | - |\n| 1 | 2 |\n***\n'],
  ['indented row', '| k | b |\n| - | - |\n    | 1 | 2 |\n'],
  ['indented header', '    | k | b |\n    | - | - |\n    | 1 | 2 |\n'],
  ['in a fence', '```\n| k | b |\n| - | - |\n```\n\n~~~~\n~~~\n| k | b |\n| - | - |\n~~~~\n'],
  ['in a comment', '<!--\n| k | b |\n| - | - |\n-->\n'],
  ['after a fence', '```sh\nx\n```\n| k | b |\n| - | - |\n| 1 | 2 |\n'],
  ['in a quote', '> | k | b |\n> | - | - |\n> | 1 | 2 |\n'],
  ['two tables', '| k | b |\n| - | - |\n| 1 | 2 |\n\n| k | c |\n| - | - |\n| 3 | 4 |\n'],
  ['column not first', '| a | k |\n| - | - |\n| 1 | 2 |\n'],
]
for (const [what, text] of FIXED) {
  test(`as the GFM parser sees it: ${what}`, () => same(text))
}

test('the fixed texts are not all "no table"', () => {
  assert.ok(FIXED.filter(([, text]) => oracle(text).length > 0).length > 20)
})

// Letters, and what the splitting is about. No other Markdown: we read cells, we do not render them.
const atom = fc.constantFrom(
  'a',
  'b',
  '7',
  ' ',
  'é',
  '日',
  '\\|',
  '\\\\',
  '`x`',
  '`a\\|b`',
  '``y`z``',
  '-',
  ':',
  '.',
)
const content = fc.array(atom, { maxLength: 5 }).map((a) => a.join(''))
const pad = fc.constantFrom('', ' ', '  ', '\t')
const eol = fc.constantFrom('\n', '\r\n')
const outer = fc.constantFrom('both', 'none', 'left', 'right')

function render(cs: readonly string[], style: string, space: string): string {
  const inner = cs.map((c) => space + c + space).join('|')
  return `${style === 'both' || style === 'left' ? '|' : ''}${inner}${style === 'both' || style === 'right' ? '|' : ''}`
}

const table = fc.record({
  width: fc.integer({ min: 2, max: 4 }),
  rows: fc.array(fc.array(content, { minLength: 1, maxLength: 5 }), { maxLength: 5 }),
  headStyle: outer,
  rowStyle: outer,
  space: pad,
  end: eol,
  after: fc.constantFrom('', 'Prose.', '# Head', '---'),
})

test('generated tables: the same rows and cells', () => {
  let tables = 0
  fc.assert(
    fc.property(table, ({ width, rows, headStyle, rowStyle, space, end, after }) => {
      const header = ['k', ...Array.from({ length: width - 1 }, (_, i) => `c${i}`)]
      const lines = [
        'Intro.',
        '',
        render(header, headStyle, space),
        render(
          header.map(() => '---'),
          headStyle,
          space,
        ),
        ...rows.map((r) => render(r, rowStyle, space)),
        '',
        after,
        '',
      ]
      // A code span that does not fill its cell is rendered by the oracle and left as it is by us, and so
      // is a cell of backticks and text: compare those without their backticks.
      const text = lines.join(end)
      const bare = (s: Seen[]) =>
        s.map((t) => ({
          ...t,
          rows: t.rows.map((r) => r.map((c) => c.replace(/[`\\]/g, '').replace(/\s+/g, ' ').trim())),
        }))
      const expected = bare(oracle(text))
      tables += expected.length
      assert.deepEqual(bare(ours(text)), expected, JSON.stringify(text))
    }),
    { numRuns: 1000 },
  )
  assert.ok(tables > 500)
})

test('what is escaped reads back as it was, through the GFM parser’s cell borders too', () => {
  fc.assert(
    fc.property(cellValue, cellValue, (a, b) => {
      const text = `| k | b |\n| - | - |\n| ${escapeCell(a)} | ${escapeCell(b)} |\n`
      assert.deepEqual(ours(text)[0]?.rows, [[a, b]])
      assert.equal(oracle(text)[0]?.rows[0]?.length, 2)
    }),
    { numRuns: 500 },
  )
})
