import assert from 'node:assert/strict'
import test from 'node:test'
import { noteLine, unrepaired } from '../../lib/ensure/ensure.ts'
import type { Finding, Note } from '../../lib/ensure/types.ts'

const LINES: [Note, string][] = [
  [{ scope: 'muse', text: 'row added' }, 'muse: row added'],
  [
    { scope: 'fleet', text: 'x is masked', next: 'systemctl unmask x' },
    'fleet: x is masked; next: systemctl unmask x',
  ],
]
for (const [note, line] of LINES) test(line, () => assert.equal(noteLine(note), line))

const finding: Finding = { scope: 'muse', code: 'timer-missing', says: 'no timer', actions: [], did: '' }
const NEXTS: [string, Finding, string | undefined][] = [
  ['a person decides', { ...finding, next: 'systemctl stop x' }, 'systemctl stop x'],
  ['nothing can be done', finding, undefined],
  ['a run would repair it', { ...finding, actions: [{ kind: 'reload' }] }, 'ensure-node-supervision muse'],
  [
    'of the fleet',
    { ...finding, scope: 'fleet', actions: [{ kind: 'reload' }] },
    'ensure-node-supervision --all',
  ],
]
for (const [what, f, next] of NEXTS)
  test(`a finding that is left names its command: ${what}`, () =>
    assert.deepEqual(unrepaired(f), { scope: f.scope, text: 'no timer', next }))
