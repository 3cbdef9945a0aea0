import type { Repaired } from './codes.ts'

/** Result lines of releases that wrote no codes, so that the history still shows what they repaired. */
const RESULTS: readonly (readonly [RegExp, Repaired, boolean])[] = [
  [/\brelaunch OK\b/, 'relaunch', true],
  [/\brelaunch FAILED\b/, 'relaunch', false],
  [/\btunnel restart OK\b/, 'tunnel restart', true],
  [/\btunnel restart FAILED\b/, 'tunnel restart', false],
  [/\brelay restart OK\b/, 'relay restart', true],
  [/\brelay restart FAILED\b/, 'relay restart', false],
  [/\bstill down after restart\b/, 'browser restart (api)', false],
  [/\brestart OK after\b|\brestart helped\b/, 'browser restart (api)', true],
]

/** What a line without a code says was done; undefined for every other line. */
export function oldResult(text: string): { readonly action: Repaired; readonly helped: boolean } | undefined {
  const hit = RESULTS.find(([re]) => re.test(text))
  return hit === undefined ? undefined : { action: hit[1], helped: hit[2] }
}

/** Whether a line without a code says that a fault is over. */
export function oldRecovery(text: string): boolean {
  return oldResult(text)?.helped ?? /\bhealthy again\b|\brecovered:/i.test(text)
}
