import type { Now } from '../../lib/base/types.ts'
import { judgeBrowser } from '../../lib/browser/judge.ts'
import type { BrowserLook, CdpFinding, PageFinding } from '../../lib/browser/types.ts'
import { emptyMemory } from '../../lib/supervisors/chromebox-watchdog/memory.ts'
import type { Memory, Observation, Policy } from '../../lib/supervisors/chromebox-watchdog/types.ts'

export const policy: Policy = {
  freshBrowserMs: 120_000,
  backoffBaseMs: 120_000,
  backoffMaxMs: 1_800_000,
  holdAfter: 5,
  halfOpenMs: 1_800_000,
}

export const at = (bootMs: number, bootId = 'boot-a'): Now => ({ wallMs: 1e12 + bootMs, bootMs, bootId })

export const memory = (over: Partial<Memory> = {}): Memory => ({ ...emptyMemory(at(0)), ...over })

export const asked = { title: 'Muse', port: 9410 }

/** A browser look; `age` in seconds, `undefined` for no process. */
export function look(
  age: number | undefined,
  cdp: CdpFinding = { state: 'ok', browser: 'Chrome/156' },
  page: PageFinding = { state: 'ok', title: 'Muse - chat' },
): BrowserLook {
  if (age === undefined) return { process: { seen: true, value: undefined }, elsewhere: [] }
  const value = { pid: 4711, startTicks: 99, ageMs: age * 1000, state: 'S' }
  const base: BrowserLook = {
    process: { seen: true, value },
    elsewhere: [],
    cdp: { seen: true, value: cdp },
  }
  return cdp.state === 'ok' ? { ...base, page: { seen: true, value: page } } : base
}

export const silent: CdpFinding = { state: 'unreachable', detail: 'no answer in 5 s' }
export const squatted: CdpFinding = { state: 'squatted', detail: 'pid 12 python3' }
export const gone: PageFinding = { state: 'missing', detail: 'titles seen: "News"' }

export function seen(browser: BrowserLook, over: Partial<Observation> = {}): Observation {
  return {
    node: 'muse',
    netns: { seen: true, value: { exists: true, isNamespace: true } },
    egress: { state: 'not-configured', code: 'not-configured', reason: '', evidence: [], repair: false },
    browser: judgeBrowser(browser, asked),
    ...over,
  }
}
