import type { LayerMark, Look, Verdict } from '../base/types.ts'
import type { Target } from '../cdp/targets.ts'

/** One main process of a node's profile (no `--type=`, not a zombie). */
export interface MainProcess {
  readonly pid: number
  readonly startTicks: number
  readonly ageMs: number
  /** One letter of `/proc/<pid>/stat`: `T` is a stopped process. */
  readonly state: string
}

export type CdpFinding =
  /** `identity`: process and browser id, when the port was proved to be this process's. */
  | { readonly state: 'ok'; readonly browser: string; readonly identity?: string }
  | { readonly state: 'unreachable'; readonly detail: string }
  /** Something answers on the port that is not this node's browser. It is never killed for it. */
  | { readonly state: 'squatted'; readonly detail: string }
  /** The node's browser answers with an error and says why: its configuration, which a new start would keep. */
  | { readonly state: 'refuses'; readonly detail: string }

/** Whose listener takes what is sent to 127.0.0.1:<port> in a node's namespace: its browser's, another's, nobody's. */
export interface PortTaker {
  readonly is: 'own' | 'other' | 'nobody'
  /** Another, as the end of a sentence (`, from pid 12 (nc -l)`); else empty. */
  readonly who: string
}

export type PageFinding =
  | { readonly state: 'ok'; readonly title: string }
  | { readonly state: 'missing' | 'no-pages' | 'error-page'; readonly detail: string }
  /** The title is there, on what may be the browser's own error page. */
  | { readonly state: 'doubtful'; readonly detail: string }

/** One look at the browser layers from inside the namespace. */
export interface BrowserLook {
  /** The main process in the node's namespace; `undefined` when there is none. */
  readonly process: Look<MainProcess | undefined>
  /** Main processes of the same profile in another namespace: not ours to count, worth reporting. */
  readonly elsewhere: readonly MainProcess[]
  /** Absent when it was not asked (no process). */
  readonly cdp?: Look<CdpFinding>
  readonly page?: Look<PageFinding>
  /** The target list, when its page is in doubt: `settlePage` asks these. */
  readonly doubtful?: readonly Target[]
}

/** The look, judged: `process → cdp → page`, the first failing one owns the fault. */
export interface BrowserJudgement {
  readonly verdict: Verdict
  readonly marks: readonly LayerMark[]
  readonly process?: MainProcess
}
