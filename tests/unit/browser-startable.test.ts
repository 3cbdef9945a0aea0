import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { paths } from '../../lib/base/paths.ts'
import { whyNoStart, whyUnwritable } from '../../lib/browser/startable.ts'
import type { UnitState } from '../../lib/host/systemd.ts'
import { needsRoot } from '../kit/needs-root.ts'

function world(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'startable-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const profile = join(root, 'var/lib/chromebox/muse')
  mkdirSync(join(profile, 'Default'), { recursive: true })
  const program = join(root, 'chromium')
  writeFileSync(program, '\x7fELF')
  chmodSync(program, 0o755)
  const settings = join(root, 'muse.env')
  writeFileSync(settings, '')
  const ended = { how: 'unknown', detail: 'still running' } as const
  const unit: UnitState = { load: 'loaded', active: 'active', mainPid: 9, ended, program, files: [settings] }
  return { p: { ...paths(root), proc: join(root, 'proc') }, profile, program, settings, unit }
}

type W = ReturnType<typeof world>
const faces: [string, (w: W) => void, (w: W) => string | undefined][] = [
  ['all there', () => {}, () => undefined],
  ['the program is missing', (w) => rmSync(w.program), (w) => `${w.program} is missing`],
  ['not executable', (w) => chmodSync(w.program, 0o644), (w) => `${w.program} is not executable`],
  [
    'empty, as an upgrade on a full disk leaves it',
    (w) => writeFileSync(w.program, ''),
    (w) => `${w.program} is not a program`,
  ],
  ['a script of somebody’s', (w) => writeFileSync(w.program, '#!/bin/sh'), () => undefined],
  [
    'its settings are gone',
    (w) => rmSync(w.settings),
    (w) => `${w.settings} is missing, which its unit needs`,
  ],
  [
    'a directory at SingletonLock',
    (w) => mkdirSync(join(w.profile, 'SingletonLock')),
    (w) => `${w.profile}/SingletonLock is a directory`,
  ],
]
for (const [name, break_, want] of faces) {
  test(`cases 57, 58: a start that cannot succeed is known before the stop: ${name}`, (t) => {
    const w = world(t)
    break_(w)
    assert.equal(whyNoStart(w.p, 'muse', w.unit), want(w))
  })
}

test('case 57: a unit that systemctl said nothing of stops no start', (t) => {
  const w = world(t)
  rmSync(w.program)
  assert.equal(whyNoStart(w.p, 'muse', undefined), undefined)
})

const USER = 54_321
const owners: [string, (w: W) => string | undefined, RegExp | undefined][] = [
  ['all its own', () => undefined, undefined],
  [
    'Default is root’s',
    (w) => join(w.profile, 'Default'),
    /Default is of user 0 with mode 755, the browser is user 54321$/,
  ],
  ['the profile is root’s', (w) => w.profile, /muse is of user 0 with mode 755/],
  [
    'the file of the logins is root’s',
    (w) => join(w.profile, 'Default/Cookies'),
    /Default\/Cookies is of user 0/,
  ],
]
for (const [name, of, want] of owners) {
  test(`case 58: a profile that cannot be written is seen while the browser lives: ${name}`, {
    skip: needsRoot('files of other users'),
  }, (t) => {
    const w = world(t)
    writeFileSync(join(w.profile, 'Default/Cookies'), '')
    mkdirSync(join(w.p.proc, '4711'), { recursive: true })
    for (const path of ['Default/Cookies', 'Default', '.']) chownSync(join(w.profile, path), USER, USER)
    chownSync(join(w.p.proc, '4711'), USER, USER)
    const foreign = of(w)
    if (foreign !== undefined) {
      chownSync(foreign, 0, 0)
      chmodSync(foreign, 0o755)
    }
    const why = whyUnwritable(w.p, 'muse', 4711)
    if (want === undefined) assert.equal(why, undefined)
    else assert.match(why ?? '', want)
  })
}

test('case 58: what the whole group or everybody may write is no fault', {
  skip: needsRoot('files of other users'),
}, (t) => {
  const w = world(t)
  mkdirSync(join(w.p.proc, '4711'), { recursive: true })
  chownSync(join(w.p.proc, '4711'), USER, USER)
  chmodSync(w.profile, 0o777)
  chownSync(join(w.profile, 'Default'), 0, USER)
  chmodSync(join(w.profile, 'Default'), 0o770)
  assert.equal(whyUnwritable(w.p, 'muse', 4711), undefined)
})
