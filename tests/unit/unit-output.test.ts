import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unitOutput } from '../../lib/host/unit-output.ts'
import { world } from '../kit/browser-host.ts'

const MATCH = 'SYSLOG_IDENTIFIER=netvm-tunnel'

test('what is asked of the journal', async (t) => {
  const w = await world(t)
  w.host.program('bin/journalctl', 'printf "%s\\n" "$@" > "$HOST/argv"')
  const argv = async (opts: { sinceWallMs?: number; dated?: boolean }) => {
    await unitOutput('x@y.service', { lines: 2, match: MATCH, ...opts })
    return w.host.read('argv').split('\n')
  }
  const plain = await argv({})
  for (const word of ['--lines=2', '--output=cat', '--unit=x@y.service', MATCH])
    assert.ok(plain.includes(word), word)
  assert.equal(
    plain.some((word) => word.startsWith('--since')),
    false,
  )
  assert.ok((await argv({ sinceWallMs: 7_999 })).includes('--since=@7'))
  assert.ok((await argv({ dated: true })).includes('--output=short-iso'))
})

test('lines without noise; a journal that cannot be read is not silence', async (t) => {
  const w = await world(t)
  w.host.write('printed', 'one\n\n[1:2:ERROR:dbus/object_proxy.cc(590)] no bus\ntwo\n')
  const said = await unitOutput('x.service', { lines: 9, match: MATCH })
  assert.deepEqual(said, { seen: true, value: ['one', 'two'] })
  w.host.program('bin/journalctl', 'echo "no access" >&2; exit 1')
  assert.deepEqual(await unitOutput('x.service', { lines: 9, match: MATCH }), {
    seen: false,
    why: 'no access',
  })
})
