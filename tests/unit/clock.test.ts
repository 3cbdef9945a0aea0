import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { clocks, monotonicMs, now, wallIso } from '../../lib/clock.ts'
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
  const up = (aheadMs: number) => writeFileSync(`${proc}/uptime`, `${(monotonicMs() + aheadMs) / 1000} 0\n`)
  up(0)
  assert.equal(clocks(p).aheadMs > -60_000 && clocks(p).aheadMs <= 0, true)
  up(8 * 3_600_000)
  const { aheadMs } = clocks(p)
  assert.ok(aheadMs <= 8 * 3_600_000 && aheadMs > 8 * 3_600_000 - 60_000, `${aheadMs}`)
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
  const at = now(tempPaths(t, { proc: '/nonexistent' }))
  const monotonicMs = Number(process.hrtime.bigint() / 1_000_000n)
  assert.ok(Math.abs(at.bootMs - monotonicMs) < 5000)
  assert.equal(at.bootId, '')
})

test('wallIso is RFC 3339 in UTC, and survives a time that is none', () => {
  assert.equal(wallIso(0), '1970-01-01T00:00:00.000Z')
  assert.equal(wallIso(Number.NaN), 'invalid-time')
  assert.equal(wallIso(1e20), 'invalid-time')
})
