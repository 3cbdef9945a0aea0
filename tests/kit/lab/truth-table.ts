import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { cadence, sh, tick, writeConfig } from '../lab.ts'
import { EXPECTED, IS_UP, SHELLS, type State } from '../truth-table.ts'
import { makeUser, statusIn } from './shells.ts'

/** The exit status that goes with a word; a pause counts as what is beneath it. */
function exitFor(beneath: string): number {
  if (beneath.startsWith('ACTIVE')) return 0
  return beneath === 'UNKNOWN' ? 2 : 1
}

/**
 * Runs stay in the test's hands (a timer that is armed for an hour does not fire), a browser is never
 * young enough or a repair long enough to be waited for, and no node is given up unless a test wants it.
 */
export function prepare(config: Record<string, string | number> = {}): void {
  makeUser()
  for (const timer of ['cdp-relay-watchdog.timer', 'agent-health.timer', 'chromebox-watchdog@.timer'])
    cadence(timer, 3600)
  writeConfig({
    NETVM_HOLD_AFTER: 1000,
    NETVM_BACKOFF_BASE: 0,
    NETVM_RELAUNCH_CHECKS: 1,
    NETVM_RELAUNCH_INTERVAL: 1,
    NETVM_CONFIRM_DELAY: 0.1,
    NETVM_TUNNEL_VERIFY: 1,
    NETVM_STOP_GRACE: 1,
    ...config,
  })
}

/** One run of each supervisor. */
export function runAll(node: string): void {
  tick(node)
  sh(['systemctl', 'start', 'cdp-relay-watchdog.service'], { deadlineMs: 120_000 })
  sh(['systemctl', 'start', 'agent-health.service'], { deadlineMs: 180_000 })
}

/** Asks from every shell for the word of a state that is in force on `node`. */
export function everyShell(state: State, node: string): void {
  for (const shell of SHELLS) {
    const expected = EXPECTED[state][shell]
    test(`${state} seen by ${shell}: ${expected}`, () => {
      const screen = statusIn(shell, node)
      if (IS_UP[state]) assert.notEqual(screen.word, 'STOPPED', screen.raw)
      else assert.doesNotMatch(screen.beneath, /^ACTIVE/, screen.raw)
      assert.equal(screen.word, expected, screen.raw)
      assert.equal(screen.code, exitFor(screen.beneath), screen.raw)
    })
  }
}
