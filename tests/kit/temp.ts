import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Paths, paths } from '../../lib/base/paths.ts'

/** A directory that is gone when the test is. */
export function tempDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'netvm-test-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Paths under a directory of the test's own. */
export function tempPaths(t: TestContext, over: Partial<Paths> = {}): Paths {
  return { ...paths(tempDir(t)), ...over }
}

/** Skips with the reason; with CI set, where everything must run, it fails instead. */
export function skipOrFail(t: TestContext, why: string): void {
  if (process.env.CI) throw new Error(`cannot be skipped in CI: ${why}`)
  t.skip(why)
}
