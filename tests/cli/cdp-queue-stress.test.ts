import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { paths } from '../../lib/base/paths.ts'
import { begin, contend, type Language, readAudit } from '../kit/cdp-queue-clients.ts'

// Three Node clients spend their time on tickets and helpers: fewer rounds do.
const CONTESTS: readonly [readonly Language[], number][] = [
  [['node', 'bash', 'python'], 500],
  [['node', 'node', 'node'], 150],
]

for (const [languages, rounds] of CONTESTS) {
  it(`${languages.join(', ')}: ${rounds} rounds each on 2 slots, never more than 2 inside, none lost`, async () => {
    const root = mkdtempSync(join(tmpdir(), 'queue-stress-'))
    const w = { root, queue: paths(root).queue, audit: join(root, 'audit') }
    mkdirSync(`${w.queue}/stress`, { recursive: true })
    try {
      const ends = languages.map((l) => contend(w, l, rounds))
      await begin(w, languages.length)
      const codes = await Promise.all(ends)
      assert.deepEqual(codes, [0, 0, 0])
      const audit = readAudit(w.audit)
      assert.ok(audit.most <= 2, `${audit.most} were inside at once`)
      // Clients that hold a slot for less time than another one needs to start may never meet.
      if (new Set(languages).size > 1) assert.equal(audit.most, 2)
      const expected: Record<string, number> = {}
      for (const l of languages) expected[l] = (expected[l] ?? 0) + rounds
      assert.deepEqual(audit.rounds, expected)
      assert.deepEqual(readdirSync(`${w.queue}/stress`).sort(), ['slot-0.lock', 'slot-1.lock'])
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  })
}
