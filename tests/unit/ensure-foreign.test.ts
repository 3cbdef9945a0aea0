import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import test from 'node:test'
import { paths } from '../../lib/base/paths.ts'
import { foreignFiles } from '../../lib/ensure/observe.ts'
import { elapseOf } from '../../lib/host/systemd.ts'
import { tempDir } from '../kit/temp.ts'

const T = 'chromebox-watchdog@muse.timer'

test('foreign files: every drop-in but the row’s, and a unit file in place of the template', (c) => {
  const root = tempDir(c)
  const p = paths(root)
  const put = (path: string, text: string): string => {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
    return path
  }
  const ours = put(`${p.unitDir}/${T}.d/netvm.conf`, '[Timer]\nOnActiveSec=15s\n')
  const theirs = put(
    `${p.unitDir}/${T}.d/a b.conf`,
    '[Timer]\n# Unit=x\n OnUnitActiveSec = 1d\nAccuracySec=1\n',
  )
  const template = put(`${p.unitDir}/chromebox-watchdog@.timer`, '[Timer]\n')
  const own = put(`${p.unitDir}/${T}`, '[Timer]\nOnBootSec=1\n')
  const DropInPaths = `"${theirs}" ${ours}`
  const wanted = [{ path: `'${theirs}'`, keys: ['OnUnitActiveSec', 'AccuracySec'] }]
  assert.deepEqual(foreignFiles(p, T, { FragmentPath: template, DropInPaths }), wanted)
  assert.deepEqual(foreignFiles(p, T, { FragmentPath: own, DropInPaths }), [
    { path: own, keys: ['OnBootSec'] },
    ...wanted,
  ])
  assert.deepEqual(foreignFiles(p, T, { FragmentPath: '', DropInPaths: '' }), [])
  const loop = `${p.unitDir}/agent-health.timer`
  assert.deepEqual(foreignFiles(p, 'agent-health.timer', { FragmentPath: loop }), [])
  const run = '/run/systemd/system/agent-health.timer'
  assert.deepEqual(foreignFiles(p, 'agent-health.timer', { FragmentPath: run }), [{ path: run, keys: [] }])
})

test('of several elapses the shortest counts', () => {
  const TimersMonotonic =
    '{ OnUnitActiveUSec=1d ; next_elapse=0 }\n{ OnUnitActiveUSec=2min ; next_elapse=0 }\n{ OnActiveUSec=16s ; next_elapse=1s }'
  assert.equal(elapseOf({ TimersMonotonic }, ['OnUnitActiveUSec']), 120_000)
  assert.equal(elapseOf({ TimersMonotonic }, ['OnActiveUSec', 'OnBootUSec']), 16_000)
  assert.equal(elapseOf({ TimersMonotonic }, ['OnBootUSec']), undefined)
  assert.equal(elapseOf({}, ['OnUnitActiveUSec']), undefined)
})
