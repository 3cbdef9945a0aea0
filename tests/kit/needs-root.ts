/** The `skip` option of a test that needs root: a reason for a plain user, never in CI, where a skip is a failure. */
export function needsRoot(what: string): string | false {
  if (process.getuid?.() === 0 || process.env.CI === 'true') return false
  return `needs root: ${what}`
}
