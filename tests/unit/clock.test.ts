import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { clocks, monotonicMs, now, wallIso } from '../../lib/base/clock.ts'
import { tempDir, tempPaths } from '../kit/temp.ts'

test('boot time is /proc/uptime, the boot id the kernel’s without dashes', (t) => {
  const proc = tempDir(t)
  mkdirSync(`${proc}/sys/kernel/random`, { recursive: true })
  writeFileSync(`${proc}/uptime`, '350735.47 234388.90\n')
  writeFileSync(`${proc}/sys/kernel/random/boot_id`, '0F6B2C1E-0001-4c1e-8a52-000000000001\n')
  const before = Date.now()
  const at = now(tempPaths(t, { proc }))
  assert.equal(at.bootMs, 350_735_470)
  assert.equal(at.bootId, '0f6b2c1e00014c1e8a52000000000001')
  assert.ok(at.wallMs >= before && at.wallMs <= Date.now())
})

test('how far boot time is ahead of the monotonic clock; less than a reading can be off is nothing', (t) => {
  const proc = tempDir(t)
  const p = tempPaths(t, { proc })
  for (const sleptMs of [0, 8 * 3_600_000]) {
    const began = monotonicMs()
    writeFileSync(`${proc}/uptime`, `${(began + sleptMs) / 1000} 0\n`)
    const { aheadMs } = clocks(p)
    const tookMs = monotonicMs() - began
    assert.ok(aheadMs <= sleptMs + 1 && aheadMs >= sleptMs - tookMs - 1, `${aheadMs}`)
    if (tookMs < 49 && sleptMs === 0) assert.equal(aheadMs, 0)
  }
})

test('our own boot id file wins over the kernel’s', (t) => {
  const p = tempPaths(t)
  const kernel = now(p).bootId
  assert.match(kernel, /^[0-9a-f]{32}$/)
  mkdirSync(p.run, { recursive: true })
  writeFileSync(p.bootIdFile, '\n')
  assert.equal(now(p).bootId, kernel, 'an empty file is no boot id')
  writeFileSync(p.bootIdFile, 'abcdefabcdefabcdefabcdefabcdefab\n')
  assert.equal(now(p).bootId, 'abcdefabcdefabcdefabcdefabcdefab')
})

test('without /proc it still tells a time and never throws', (t) => {
  const monotonicMs = () => Number(process.hrtime.bigint() / 1_000_000n)
  const before = monotonicMs()
  const at = now(tempPaths(t, { proc: '/nonexistent' }))
  assert.ok(before - 1 <= at.bootMs && at.bootMs <= monotonicMs() + 1)
  assert.equal(at.bootId, '')
})

test('wallIso is RFC 3339 in UTC, and survives a time that is none', () => {
  assert.equal(wallIso(0), '1970-01-01T00:00:00.000Z')
  assert.equal(wallIso(Number.NaN), 'invalid-time')
  assert.equal(wallIso(1e20), 'invalid-time')
})
