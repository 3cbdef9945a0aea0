import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { ConfigError, LockedError, UsageError } from '../../lib/base/errors.ts'
import type { NewRow } from '../../lib/registry/change.ts'
import { appendRow, setCell } from '../../lib/registry/edit.ts'
import { deriveNames } from '../../lib/registry/names.ts'
import { parseRegistry } from '../../lib/registry/read.ts'
import { cells, cellValue, line, registry, said, someFleet } from '../kit/registry-fixtures.ts'
import { tempDir } from '../kit/temp.ts'
import { patience } from '../kit/unit.ts'

function newRow(name: string, over: Partial<NewRow> = {}): NewRow {
  const n = deriveNames(name)
  return { name, cdpPort: n.port, gw: n.gw, peer: n.peer, ...over }
}

function file(t: TestContext, content: string | Buffer): string {
  const path = `${tempDir(t)}/NODES.md`
  writeFileSync(path, content)
  return path
}

const latin1 = (path: string) => readFileSync(path, 'latin1')

test('appendRow: one line after the last row, every other byte kept', async (t) => {
  const text = registry([line(cells('muse'))])
  const path = file(t, text)
  assert.equal(
    await appendRow(path, newRow('pip', { chatTitle: 'a|b `c` \\', chatUrl: 'https://x.test/' })),
    true,
  )
  const n = deriveNames('pip')
  const added = `| pip | pip | warp-pip | ${n.port} | ${n.gw} | ${n.peer} | 127.0.0.1:${n.port} | active | https://x.test/ | a\\|b \\\`c\\\` \\\\ |  |  |\n`
  const at = text.indexOf('\n\nProse') + 1
  assert.equal(latin1(path), text.slice(0, at) + added + text.slice(at))
  const node = parseRegistry(latin1(path)).nodes.find((x) => x.name === 'pip')
  assert.equal(node?.chatTitle, 'a|b `c` \\')
  assert.equal(existsSync(`${path}.lock`), false)
})

test('appendRow: a row of that name, even a refused one, is left alone', async (t) => {
  const text = registry([line(cells('muse')), line(cells('pip', { Status: 'x' }))])
  const path = file(t, text)
  assert.equal(await appendRow(path, newRow('muse')), false)
  assert.equal(await appendRow(path, newRow('pip')), false)
  assert.equal(latin1(path), text)
})

const REFUSED: [string, NewRow, RegExp][] = [
  [
    'a port in use',
    newRow('pip', { cdpPort: 10_355 }),
    /the row for pip would be refused: duplicate CDP Port 10355/,
  ],
  ['a bad URL', newRow('pip', { chatUrl: 'x' }), /would be refused: Chat URL/],
  ['a bad name', newRow('pip', { name: 'Pip' }), /the row for Pip would be refused/],
  ['a line break', newRow('pip', { chatTitle: 'a\nb' }), /NODES\.md: Chat Title has a control/],
  ['an escape', newRow('pip', { agent: 'a\u001b[0m' }), /NODES\.md: Agent has a control/],
]
for (const [what, row, reason] of REFUSED) {
  test(`appendRow: refused and nothing written: ${what}`, async (t) => {
    const path = file(t, registry([line(cells('muse'))]))
    const before = latin1(path)
    await assert.rejects(
      appendRow(path, row),
      (e: Error) => e instanceof ConfigError && reason.test(e.message),
    )
    assert.equal(latin1(path), before)
  })
}

test('appendRow: a table without rows, at the end of a file without a line end, with CRLF', async (t) => {
  const [, , head = '', sep = ''] = registry([]).split('\n')
  const path = file(t, `${head}\r\n${sep}`)
  await appendRow(path, newRow('muse'))
  await appendRow(path, newRow('pip'))
  const text = latin1(path)
  assert.deepEqual(
    parseRegistry(text).nodes.map((n) => n.name),
    ['muse', 'pip'],
  )
  assert.equal(text.split('\r\n').length, 4)
  assert.equal(text.replaceAll('\r\n', '').includes('\n'), false)
})

test('edits are refused where they are not safe: no table, no separator, no column', async (t) => {
  const [, , head = '', sep = ''] = registry([]).split('\n')
  const row = line(cells('muse'))
  await assert.rejects(appendRow(file(t, 'x'), newRow('pip')), /no table/)
  await assert.rejects(appendRow(file(t, `${head}\n${row}\n`), newRow('pip')), /no separator row/)
  const narrow = [head, sep, row].map((l) => `${l.split(' | ').slice(0, 8).join(' | ')} |`).join('\n')
  await assert.rejects(appendRow(file(t, narrow), newRow('pip', { host: 'a' })), /has no column "Host"/)
  assert.equal(await appendRow(file(t, narrow), newRow('pip')), true)
  await assert.rejects(setCell(file(t, narrow), 'muse', 'host', 'a'), /has no column "Host"/)
  await assert.rejects(
    appendRow('/nonexistent/NODES.md', newRow('pip')),
    /cannot read \/nonexistent\/NODES.md: ENOENT/,
  )
})

test('setCell: one cell, by field or header name; false when it says that already', async (t) => {
  const text = registry([`|muse|a|warp-muse|10355|10.201.35.1|10.201.35.2|127.0.0.1:10355|  active   ||`])
  const path = file(t, text)
  assert.equal(await setCell(path, 'muse', 'status', 'retired'), true)
  assert.equal(latin1(path), text.replace('  active   ', '  retired   '))
  assert.equal(await setCell(path, 'muse', 'Status', 'retired'), false)
  assert.equal(await setCell(path, 'muse', 'chatUrl', 'https://x.test/'), true)
  assert.equal(latin1(path), text.replace('  active   ||', '  retired   | https://x.test/ |'))
  await assert.rejects(setCell(path, 'muse', 'host', 'x'), /line 5: the row is too short for "Host"/)
  await assert.rejects(setCell(path, 'muse', 'status', 'gone'), /would be refused: Status/)
  await assert.rejects(setCell(path, 'pip', 'status', 'retired'), UsageError)
})

test('any edit of any registry: the edited row changes as asked, every other byte is kept', async (t) => {
  const dir = tempDir(t)
  const path = `${dir}/NODES.md`
  const prose = fc.uint8Array({ maxLength: 40 }).map((a) =>
    Buffer.from(a)
      .toString('latin1')
      .replace(/[\r\n`~<|-]/g, '.'),
  )
  await fc.assert(
    fc.asyncProperty(
      someFleet,
      cellValue,
      prose,
      prose,
      fc.constantFrom('\n', '\r\n'),
      async (names, title, above, below, eol) => {
        const rows = names.map((n) => Buffer.from(line(cells(n, { Agent: 'é' }))).toString('latin1'))
        const before = `# x${above}${eol}${eol}${registry(rows, eol)}${eol}# y${below}`
        writeFileSync(path, before, 'latin1')
        const [name = ''] = names
        await setCell(path, name, 'chatTitle', title)
        const after = latin1(path)
        const changed = Buffer.from(after, 'latin1').toString('utf8')
        assert.equal(parseRegistry(changed).nodes.find((n) => n.name === name)?.chatTitle, title)
        const here = before.split(eol).findIndex((l) => l.startsWith(`| ${name} |`))
        const others = (text: string) => text.split(eol).filter((_, i) => i !== here)
        assert.deepEqual(others(after), others(before))
        await setCell(path, name, 'chatTitle', '')
        await appendRow(
          path,
          newRow('appended-for-test', { cdpPort: 1024, gw: '192.168.0.1', peer: '192.168.0.2' }),
        )
        const lines = latin1(path).split(eol)
        const at = lines.findIndex((l) => l.startsWith('| appended-for-test |'))
        assert.deepEqual(others(lines.filter((_, i) => i !== at).join(eol)), others(before))
        assert.deepEqual(
          said(parseRegistry(latin1(path)).nodes).slice(0, -1),
          said(parseRegistry(before).nodes),
        )
      },
    ),
    { numRuns: 60 },
  )
})

test('owner, mode and a symbolic link survive an edit', async (t) => {
  const path = file(t, registry([]))
  chmodSync(path, 0o664)
  const link = `${path}.link`
  symlinkSync(path, link)
  const before = statSync(path)
  await appendRow(link, newRow('muse'))
  const after = statSync(path)
  assert.deepEqual([after.mode, after.uid, after.gid], [before.mode, before.uid, before.gid])
  assert.ok(lstatSync(link).isSymbolicLink())
  assert.match(latin1(path), /\| muse \|/)
})

test('what a person saves between our reading and our writing is not lost', async (t) => {
  const path = file(t, registry([line(cells('muse'))]))
  const saves = [
    () => writeFileSync(path, latin1(path).replace('# Nodes', '# Our nodes')),
    () => {
      writeFileSync(`${path}~`, latin1(path).replace('Prose', 'Words'))
      renameSync(`${path}~`, path)
    },
  ]
  await appendRow(path, newRow('pip'), { beforeWrite: () => saves.shift()?.() })
  const text = latin1(path)
  assert.match(text, /# Our nodes/)
  assert.match(text, /Words \| with/)
  assert.deepEqual(
    parseRegistry(text).nodes.map((n) => n.name),
    ['muse', 'pip'],
  )
})

test('what an editor writes into the file that we have just replaced is not lost', async (t) => {
  const path = file(t, registry([line(cells('muse'))]))
  const editor = openSync(path, 'r+')
  t.after(() => closeSync(editor))
  let saves = 1
  const afterWrite = () => {
    if (saves-- > 0) writeSync(editor, '# Ours!', 0)
  }
  assert.equal(await appendRow(path, newRow('pip'), { afterWrite }), true)
  assert.match(latin1(path), /^# Ours!/)
  assert.deepEqual(
    parseRegistry(latin1(path)).nodes.map((n) => n.name),
    ['muse', 'pip'],
  )
})

test('a file that never stops changing is given up, not overwritten', async (t) => {
  const path = file(t, registry([]))
  let n = 0
  const beforeWrite = () => writeFileSync(path, `${registry([])}${n++}`)
  await assert.rejects(appendRow(path, newRow('pip'), { beforeWrite }), /keeps changing under the edit/)
  assert.equal(latin1(path), `${registry([])}${n - 1}`)
})

test('a lock that was taken from us meanwhile: nothing is written', async (t) => {
  const path = file(t, registry([]))
  const before = latin1(path)
  // We were stopped past the stale time, and another process took the lock.
  const beforeWrite = () => {
    renameSync(`${path}.lock`, `${path}.gone`)
    mkdirSync(`${path}.lock`)
  }
  await assert.rejects(appendRow(path, newRow('pip'), { beforeWrite }), /lost the lock of .*, wrote nothing/)
  assert.equal(latin1(path), before)
  assert.ok(existsSync(`${path}.lock`), 'the lock of the other is not ours to remove')
})

test('two writers at once, as processes: no row is lost', { timeout: patience(60_000) }, async (t) => {
  const path = file(t, registry([]))
  const url = new URL('../../lib/registry/edit.ts', import.meta.url).href
  const names = (w: number) => Array.from({ length: 8 }, (_, i) => `w${w}-${i}`)
  const writer = (w: number) => `import { appendRow } from ${JSON.stringify(url)}
    for (const [i, name] of ${JSON.stringify(names(w))}.entries()) {
      const net = '10.20${w}.' + i + '.'
      await appendRow(${JSON.stringify(path)}, { name, cdpPort: ${2000 + w * 100} + i, gw: net + 1, peer: net + 2 })
    }`
  const argv = (w: number) => ['--import', 'tsx', '--input-type=module', '-e', writer(w)]
  const children = [1, 2, 3].map((w) => spawn(process.execPath, argv(w), { stdio: 'inherit' }))
  const codes = await Promise.all(children.map(async (c) => (await once(c, 'exit'))[0]))
  assert.deepEqual(codes, [0, 0, 0])
  const r = parseRegistry(latin1(path))
  assert.deepEqual(r.errors, [])
  assert.deepEqual(r.nodes.map((n) => n.name).sort(), [1, 2, 3].flatMap(names).sort())
})

test('another program that holds the lock is named, after a wait', {
  timeout: patience(30_000),
}, async (t) => {
  const path = file(t, registry([]))
  const { lock } = await import('proper-lockfile')
  const release = await lock(path, { realpath: false })
  t.after(() => release())
  await assert.rejects(
    appendRow(path, newRow('pip'), { lockTries: 3 }),
    (e: Error) => e instanceof LockedError && e.message.includes(`${path}.lock`),
  )
})
