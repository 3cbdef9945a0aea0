/** What `fn` returns; undefined when it throws. For a look whose every failure means the same: not there. */
export function attempt<T>(fn: () => T): T | undefined {
  try {
    return fn()
  } catch {
    return undefined
  }
}
